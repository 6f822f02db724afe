"""The training data of the multi-hop retriever: hops in their order, and no evaluation in it."""

import json
import random

import pytest

from corpora.passages import PassageRecord
from corpora.questions import Question, SubQuestion, read_questions
from experiments.papers.retriever.data import HELD_OUT, Line, cloze, lines_of, order_of_hops, silver, write_held_out

FILM = PassageRecord(id="film", title="The Grey Tide (film)", text="The Grey Tide is a film directed by Ilse Varrow.")
DIRECTOR = PassageRecord(id="director", title="Ilse Varrow", text="Ilse Varrow was born in Marrowgate and swims well.")
TOWN = PassageRecord(id="town", title="Marrowgate", text="Marrowgate is a town. The old harbour has nine white towers.")
OTHER = PassageRecord(id="other", title="Ostrel", text="Ostrel is a town in the north.")


def question(*gold, text="Where was the director of The Grey Tide born?", **more):
    return Question(id="q", question=text, gold_ids=[each.id for each in gold], **more)


@pytest.mark.parametrize("gold", [(FILM, DIRECTOR), (DIRECTOR, FILM)])
def test_the_passage_that_names_the_other_comes_first(gold):
    links, first = order_of_hops(question(*gold, type="bridge"), gold)
    film, director = gold.index(FILM), gold.index(DIRECTOR)
    assert links == [(film, director)]
    assert first == [film]


def test_a_decomposition_goes_before_titles():
    parts = [SubQuestion(question="a", gold_ids=["director"]), SubQuestion(question="b", gold_ids=["film"])]
    links, first = order_of_hops(question(FILM, DIRECTOR, sub_questions=parts), [FILM, DIRECTOR])
    assert (links, first) == ([(1, 0)], [1])


def test_comparisons_have_no_order():
    links, first = order_of_hops(question(DIRECTOR, TOWN, type="comparison"), [DIRECTOR, TOWN])
    assert sorted(links) == [(0, 1), (1, 0)]
    assert first == [0, 1]


def test_without_a_link_the_passage_with_the_answer_is_the_last():
    links, first = order_of_hops(question(OTHER, TOWN, answers=["nine white towers"]), [OTHER, TOWN])
    assert (links, first) == ([(0, 1)], [0])


def test_two_pairs_of_hops_are_linked_pairwise_and_at_their_starts():
    films = [
        PassageRecord(id=f"film{n}", title=f"Long Film {n}", text=f"It is a film by Director Name{n}.") for n in "ab"
    ]
    people = [PassageRecord(id=f"p{n}", title=f"Director Name{n}", text="A director.") for n in "ab"]
    links, first = order_of_hops(question(*films, *people, type="bridge_comparison"), [*films, *people])
    assert {(0, 2), (1, 3), (0, 1), (1, 0)} <= set(links)
    assert (0, 3) not in links
    assert first == [0, 1]


def test_a_name_is_replaced_by_the_question_it_answers():
    one = Line("a", "squad", "Who is the director of The Grey Tide?", ("film",), (), (0,))
    two = Line("b", "squad", "Where was Ilse Varrow born?", ("director",), (), (0,))
    (made,) = silver([one, two], {"a": "Ilse Varrow", "b": "Marrowgate"}, 5)
    assert made.gold == ("film", "director")
    assert made.links == ((0, 1),)
    assert "director of The Grey Tide" in made.question
    assert "Varrow" not in made.question


def test_a_described_passage_is_reached_from_the_one_that_names_it():
    pool = {each.id: (each, "hotpotqa") for each in (FILM, DIRECTOR, TOWN, OTHER)}
    made = list(cloze(pool, 10))
    assert [line.gold for line in made] == [("film", "director")]
    assert "The Grey Tide" in made[0].question
    assert "Varrow" not in made[0].question


def test_questions_whose_gold_is_not_in_the_pool_are_left_out():
    corpus = {"film": FILM}
    assert list(lines_of("hotpotqa", [question(FILM, DIRECTOR)], corpus, 0.5)) == []


def test_held_out_questions_are_written_for_the_reranker(tmp_path):
    rng, lines = random.Random(0), []
    for source in (name for names in HELD_OUT.values() for name in names):
        folder = tmp_path / "work" / source
        folder.mkdir(parents=True)
        asked = [question(FILM, DIRECTOR).model_copy(update={"id": f"{source}{n}"}) for n in range(4)]
        (folder / "questions.jsonl").write_text("".join(each.model_dump_json() + "\n" for each in asked))
        (folder / "passages.jsonl").write_text(
            "".join(
                json.dumps({"id": each.id, "title": each.title, "text": each.text}) + "\n" for each in (FILM, DIRECTOR)
            )
        )
        held = rng.randrange(4)
        lines += [Line(f"{source}:{e.id}", source, "q", (), (), (), n == held) for n, e in enumerate(asked)]
    write_held_out(tmp_path / "out", lines, tmp_path / "work")
    wanted = {line.id.partition(":")[2] for line in lines if line.held_out}
    found = {each.id for name in HELD_OUT for each in read_questions(tmp_path / "out" / f"{name}.questions.jsonl")}
    assert found == wanted
    assert (tmp_path / "out" / "hotpotqa-train.passages.jsonl").is_file()


def test_a_new_adapter_changes_nothing_and_can_be_merged(tmp_path):
    pytest.importorskip("torch")
    from experiments.papers.retriever import train

    settings = train.VARIANTS["query"]
    assert abs(sum(train.MIX.values()) - 1) < 1e-9
    assert abs(sum(each["share"] for each in train.VARIANTS.values()) - 1) < 1e-9
    encoder = type("Model", (), {"w": {}, "device": train.torch.device("cpu")})()
    for layer in range(train.LAYERS):
        for part in train.TARGETS:
            encoder.w[f"encoder.layer.{layer}.{part}.weight"] = train.torch.zeros(6, 4)
    adapter = train.new_adapter(encoder, 2, 0)
    train._save(tmp_path / "a.safetensors", adapter, "query", settings, 3)
    from safetensors.numpy import load_file

    from corpora.encoders.low_rank import LowRank, save

    save(tmp_path / "b.safetensors", load_file(tmp_path / "a.safetensors"), factor=train.FACTOR, base="model")
    before = {name: value.numpy() for name, value in encoder.w.items()}
    merged = LowRank(tmp_path / "b.safetensors").merged(before)
    assert all((merged[name] == before[name]).all() for name in before)
