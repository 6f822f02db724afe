"""The lines printed as "Next:" run as printed, in folders with spaces, and with the options that were used."""

import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest
import typer

from experiments.cli.shared.next_commands import command, new_path, used
from programs.lms.spec import LMSpec
from tests.next_lines import next_lines

FACTS = "[[ ## steps ## ]]\n- Ansa keeps the gate.\n\n[[ ## key_facts ## ]]\n- Ansa keeps the gate.\n- The gate is old."
VERDICTS = "\n\n".join(
    f"[[ ## {name} ## ]]\nanswer2: 1\nanswer1: 0.5"
    for name in ("correctness", "citation_accuracy", "truthfulness", "bias", "conciseness")
)


@pytest.fixture
def data(tmp_path, monkeypatch) -> Path:
    """Return a folder with a space and a quote in its name, in a working directory with a space, too."""
    folder = tmp_path / "my work" / "Ann's data"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder.parent)
    monkeypatch.setattr("experiments.cli.review._on_page", lambda session, reviewing: None)
    return folder


@pytest.fixture
def spaced(verihop, data) -> Path:
    """Return a folder with a space in its name, with a small world and its index."""
    assert verihop("data", "world", "--questions", 30, "--out", data)[0] == 0
    assert verihop("index", data / "passages.jsonl", "--retriever", "bm25", "-q", "--out", data / "index")[0] == 0
    return data


@pytest.fixture
def runs(verihop, spaced) -> list[Path]:
    folders = [spaced / "run a", spaced / "run b"]
    for folder, program in zip(folders, ("cot", "genground"), strict=True):
        words = ("--limit", 4, "--program", program, "--index", spaced / "index", "--lm", "simulated", "-q")
        assert verihop("eval", spaced / "questions.jsonl", *words, "--out", folder)[0] == 0
    return folders


def test_from_a_world_to_an_index_to_a_question(following, data, scripted_lm):
    scripted_lm(lambda system, user: "[[ ## reasoning ## ]]\nShe keeps it.\n\n[[ ## answer ## ]]\nAnsa")
    assert following("data", "world", "--questions", 5, "--out", data)[0][1] == "index"
    assert following("index", data / "passages.jsonl", "--retriever", "bm25", "--out", data / "other")[0][1] == "ask"
    assert following("programs")[0][1] == "programs"
    assert following("programs", "cot")[0][1] == "ask"


@pytest.mark.slow
def test_from_a_compilation_to_a_question_and_an_evaluation_on_other_questions(following, spaced):
    asked = ("compile", spaced / "questions.jsonl", "--program", "rag", "--limit", 2, "-q", "--index")
    lm = ("--lm", "simulated:0", "--max-tokens", "99", "--budget", "calls=1000", "seconds=900", "--retriever", "bm25",
          "--precision", "bf16")  # fmt: skip
    records = [json.loads(line) for line in (spaced / "questions.jsonl").read_text().splitlines()]
    dev = [record for record in records if record["split"] == "dev"]
    train = [record for record in records if record["split"] == "train"]
    splits = [*dev, *({**record, "split": "test"} for record in train[:2]), *train[2:5]]
    for name, kept in (("other", splits), ("dev", dev)):
        (spaced / f"{name}.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in kept))
    asked = (*asked[:1], spaced / "dev.jsonl", *asked[2:])
    val = ("--val", spaced / "other.jsonl", "--val-split", "train", "--val-limit", "3")
    ask, evaluation = following(*asked, spaced / "index", *lm, *val, "--out", spaced / "one")
    for words in (ask, evaluation):
        text = " ".join(words)
        for option in ("--lm simulated:0", "--max-tokens 99", "--budget calls=1000,seconds=900", "--retriever bm25",
                       "--precision bf16"):  # fmt: skip
            assert option in text
    # Not the split train, whose scores chose the program, nor dev, whose questions it was made from.
    assert evaluation[2:5] == [str(spaced / "other.jsonl"), "--split", "test"]
    asked = ("compile", spaced / "questions.jsonl", *asked[2:])
    _, evaluation = following(
        *asked, spaced / "index", "--split", "train", "--lm", "simulated", "--out", spaced / "two"
    )
    assert "--split dev" in " ".join(evaluation)
    only_ask = following(*asked, spaced / "index", "--lm", "simulated", "--out", spaced / "three")
    assert [words[1] for words in only_ask] == ["ask"]  # no question is known to be held out
    words = ("--split", "train", "--lm", "simulated", "--val", spaced / "dev.jsonl", "--out", spaced / "four")
    only_ask = following(*asked, spaced / "index", *words)
    assert [words[1] for words in only_ask] == ["ask"]  # the other split is the validation set, in another file


def test_from_an_evaluation_to_a_baseline_to_a_comparison(following, spaced):
    asked = ("eval", spaced / "questions.jsonl", "--limit", "4", "--lm", "simulated", "--metrics", "em,f1[squad]")
    asked = (*asked, "-q", "--set", "k=3", "--program")
    (baseline,) = following(*asked, "genground", "--index", spaced / "index", "--out", spaced / "runs" / "a")
    assert baseline[1] == "eval"
    text = " ".join(baseline)
    for option in ("--limit 4", "--lm simulated", "--metrics em,f1[squad]", "--program rag", f"--index {spaced}/index"):
        assert option in text
    (comparison,) = following(*asked, "rag", "--index", spaced / "index", "--out", spaced / "runs" / "b")
    assert comparison[1:] == ["compare", str(spaced / "runs" / "rag"), str(spaced / "runs" / "b")]
    (report,) = following(*comparison[1:], "--by", "hops")
    assert report[-4:] == ["--by", "hops", "--html", "report.html"]
    assert "Scores by hops" in Path("report.html").read_text()


def test_the_lm_of_an_artifact_and_fixed_contexts_are_carried_over(following, verihop, spaced):
    made = spaced / "made"
    questions = spaced / "questions.jsonl"
    lm = ("--lm", "simulated", "-q", "--index", spaced / "index")
    assert verihop("compile", questions, "--program", "genground", "--limit", 2, *lm, "--out", made)[0] == 0
    contexts = ("--references", "complete", "--passages", spaced / "passages.jsonl")
    out = ("--out", spaced / "runs" / "after", "-q")
    (baseline,) = following("eval", questions, "--limit", "3", "--artifact", made, *contexts, *out)
    assert "--lm simulated" in " ".join(baseline)
    assert "--references complete" in " ".join(baseline)


def test_from_judgements_and_key_facts_to_reviews(following, runs, spaced, scripted_lm):
    scripted_lm(lambda system, user: FACTS if "steps" in system or "steps" in user else VERDICTS)
    assert following("judge", *runs, "--out", spaced / "judged", "-q")[0][1] == "compare"
    build = ("keyfacts", "build", spaced / "questions.jsonl", "--passages", spaced / "passages.jsonl", "--limit", 3)
    (review,) = following(*build, "--oracle", "lexical", "--out", spaced / "facts", "-q")
    assert review[1:3] == ["review", "keyfacts"]


def test_reviews_are_resumed_exported_imported_and_their_agreement_shown(following, verihop, runs, spaced, monkeypatch):
    def type_(*keys: str) -> None:
        monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{key}\n" for key in keys)))

    folder, ratings = spaced / "rated by two", spaced / "ratings.csv"
    ann = ("--reviewer", "Ann O'Hara", "--terminal")
    type_("1", "q")
    (resumed,) = following("review", "answers", *runs, "--scale", "completeness", "--out", folder, *ann)
    assert resumed[1:] == ["review", "resume", str(folder), *ann]
    (imported,) = following("review", "export", folder, "--out", ratings)
    assert imported[2] == "import"
    assert following(*imported[1:])[0][2] == "agreement"
    assert next_lines(verihop("review", "agreement", folder)[2])[0][1:4] == ["review", "resume", str(folder)]
    type_(*"1111111")
    assert following("review", "resume", folder, *ann)[0][2] == "agreement"
    (rated,) = following("review", "agreement", folder)
    assert rated[2:] == ["export", str(folder), "--out", str(spaced / "rated by two.csv")]


@pytest.mark.slow
def test_from_benchmarks_to_an_evaluation(following, data, scripted_lm, monkeypatch):
    scripted_lm(lambda system, user: "[[ ## reasoning ## ]]\nShe keeps it.\n\n[[ ## answer ## ]]\nAnsa")
    record = {
        "_id": "1", "question": "Who keeps the gate?", "answer": "Ansa", "type": "bridge", "level": "easy",
        "supporting_facts": [["Gate", 0]],
        "context": [["Gate", ["Ansa keeps the gate."]], ["Wall", ["The wall is old."]]],
    }  # fmt: skip
    (data / "in.json").write_text(json.dumps([record]))
    hotpot = data / "hotpot"
    assert following("data", "convert", "hotpotqa", data / "in.json", "--out", hotpot, "-q")[0][1] == "index"
    assert following("data", "pool", hotpot / "passages.jsonl", "--out", data / "pool.jsonl", "-q")[0][1] == "index"

    def fetch(url: str, path: Path, **options) -> bool:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('{"question": "who keeps the gate", "answer": ["Ansa"]}\n')
        return True

    monkeypatch.setattr("corpora.datasets.fetch.fetch", fetch)
    (convert,) = following("data", "fetch", "nq_open", "--file", "NQ-open.dev.jsonl", "--out", data / "raw", "-q")
    evaluation = following(*convert[1:-1], data / "nq", "-q")[0]
    assert evaluation[1] == "eval"
    rows = [{"id": f"h{n}", "question": "?", "type": "Knowledge"} for n in range(2)]
    (data / "h.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert following("data", "subset", "halluqa-knowledge", data / "h.jsonl", "--out", data / "s.jsonl")[0][1] == "eval"


def test_a_line_names_the_options_that_differ_from_their_defaults():
    @dataclass(frozen=True)
    class Group:
        size: Annotated[int, typer.Option(min=1)] = 2
        open_: Annotated[bool, typer.Option("--open/--no-open")] = True
        out: Annotated[Path | None, typer.Option("--out", "-o")] = None
        settings: Annotated[list[str] | None, typer.Option("--set")] = None

    assert used(Group()) == []
    group = Group(3, False, Path("a b"), ["k=1", "m=2"])
    assert used(group) == ["--size", "3", "--no-open", "--out", "a b", "--set", "k=1", "--set", "m=2"]
    assert used(group, "size") == ["--size", "3"]
    assert command("verihop", *used(group, "out")) == "verihop --out 'a b'"


def test_a_path_that_begins_with_a_dash_is_no_option(tmp_path):
    @dataclass(frozen=True)
    class Group:
        out: Annotated[Path | None, typer.Option("--out", "-o")] = None

    assert command("verihop", "compare", Path("r n"), Path("./-x")) == "verihop compare 'r n' ./-x"
    assert command("verihop", *used(Group(Path("-x")))) == "verihop --out ./-x"
    assert command("verihop", "ask", "-q", Path("-")) == "verihop ask -q -"  # an option, and standard input


def test_a_line_shows_no_key_of_an_address():
    words = used(LMSpec(id="m", api_base="http://host/sk-abcdefghijklmnopq123/v1"))
    assert words == ["--lm", "m", "--api-base", "http://host/KEY/v1"]


def test_a_line_shows_no_password():
    address = "https://ann:secret@lm.example/v1"
    words = used(LMSpec(id="m", api_base=address, api_key_env="KEY", cache=False))
    assert words == [
        "--lm", "m", "--api-base", "https://USER:PASSWORD@lm.example/v1", "--api-key-env", "KEY", "--no-cache",
    ]  # fmt: skip


def test_a_new_path_does_not_exist(tmp_path):
    assert new_path(tmp_path / "a") == tmp_path / "a"
    (tmp_path / "a").mkdir()
    (tmp_path / "a-2").touch()
    assert new_path(tmp_path / "a") == tmp_path / "a-3"
