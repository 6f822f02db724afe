import pytest

from programs.multi_step.flare import FLARE
from signatures.types import Passage
from tests.programs.fakes import Fake, block, traced

QUESTION = "In which sea was Ansa Merrow born?"
BIRTH, END = "Ansa Merrow was born on Quillon.", "So the answer is: Amber Sea."


class Shelves(Fake):
    """Returns new passages for every query."""

    def __init__(self, nothing=()):
        super().__init__()
        self.nothing = nothing

    def find(self, query, k):
        number = len(self.asked)
        return [] if query in self.nothing else [Passage(id=f"{number}.{n}", text=f"Shelf {number}.") for n in range(k)]


def story(drafts, written, read="the Amber Sea"):
    drafts, written = iter(drafts), iter(written)

    def reply(system, user):
        if "as you remember it" in system:
            return next(drafts)
        return next(written) if "as the passages state it" in system else read

    return reply


def kinds(engine):
    names = {"as you remember it": "draft", "as the passages state it": "write", "what the passages say": "read"}
    return [name for request in engine.requests for words, name in names.items() if words in str(request.system)]


UNSURE = [("Quillon lies", 0.9), (" in the", 0.5), (" Grey", 0.39), (" Sea.", 0.85)]
SEA = "Quillon lies in the Amber Sea."


def test_an_unsure_draft_is_masked_searched_for_and_written_again_from_the_new_passages_alone(scored):
    engine = scored(story([UNSURE, END], [BIRTH, SEA]))
    search = Shelves()
    result = FLARE(search)(QUESTION)
    assert search.queries == [QUESTION, "Quillon lies in the Sea."]
    assert kinds(engine) == ["write", "draft", "write", "draft"]
    assert [block(prompt, "reasoning") for prompt in engine.prompts] == ["", BIRTH, BIRTH, f"{BIRTH} {SEA}"]
    assert "Shelf 2." in engine.prompts[2]
    assert "Shelf 1." not in engine.prompts[2]
    assert "passages" not in engine.prompts[1]
    assert [(hop.question, hop.draft, hop.answer, hop.verdict, hop.passage_ids) for hop in result.hops] == [
        (QUESTION, None, BIRTH, "read", ["1.0", "1.1"]),
        ("Quillon lies in the Sea.", "Quillon lies in the Grey Sea.", SEA, "rewritten", ["2.0", "2.1"]),
        (QUESTION, END, END, "confident", []),
    ]
    assert (result.answer, result.stop_reason) == ("Amber Sea", "finished")
    assert result.details["confidences"] == pytest.approx([0.39, 1.0])
    assert [passage.id for passage in result.passages] == ["1.0", "1.1", "2.0", "2.1"]


@pytest.mark.parametrize(("confidence", "searches"), [(0.39, 1), (0.4, 2), (1.0, 2), (0.0, 1)])
def test_a_draft_whose_every_token_is_as_probable_as_the_threshold_is_kept(scored, confidence, searches):
    draft = [(token, max(share, 0.391)) for token, share in UNSURE]
    scored(story([draft, END], [BIRTH, SEA]))
    search = Shelves()
    FLARE(search, confidence=confidence)(QUESTION)
    assert len(search.queries) == searches


def test_without_masking_the_whole_draft_is_the_query(scored):
    scored(story([UNSURE, END], [BIRTH, SEA]))
    search = Shelves()
    FLARE(search, mask_below=0.0)(QUESTION)
    assert search.queries[1] == "Quillon lies in the Grey Sea."


def test_a_draft_with_every_word_masked_is_kept(scored):
    engine = scored(story([[("Quillon lies in the Grey Sea", 0.1), (".", 1.0)], END], [BIRTH]))
    result = FLARE(Shelves())(QUESTION)
    assert [(hop.question, hop.verdict) for hop in result.hops][1] == (QUESTION, "kept")
    assert kinds(engine) == ["write", "draft", "draft"]


def test_a_draft_is_kept_if_nothing_is_found_for_it(scored):
    engine = scored(story([UNSURE, END], [BIRTH]))
    result = FLARE(Shelves(nothing=["Quillon lies in the Sea."]))(QUESTION)
    assert (result.hops[1].verdict, result.hops[1].answer) == ("kept", "Quillon lies in the Grey Sea.")
    assert kinds(engine) == ["write", "draft", "draft"]


@pytest.mark.parametrize("again", ["", BIRTH])
def test_a_sentence_that_is_none_leaves_the_draft_and_is_no_demonstration(scored, again):
    scored(story([UNSURE, END], [BIRTH, again]))
    program = FLARE(Shelves())
    result, trace = traced(program, QUESTION)
    kept = [(called is program.drafting, output.sentence) for called, _, output in trace]
    assert (result.hops[1].verdict, result.hops[1].answer) == ("kept", "Quillon lies in the Grey Sea.")
    assert kept == [(False, BIRTH), (True, "Quillon lies in the Grey Sea."), (True, END)]


def test_a_draft_that_was_written_again_is_no_demonstration_and_none_has_log_probabilities(scored):
    scored(story([UNSURE, END], [BIRTH, SEA]))
    program = FLARE(Shelves())
    _, trace = traced(program, QUESTION)
    outputs = [dict(output) for _, _, output in trace]
    assert outputs == [{"sentence": BIRTH}, {"sentence": SEA}, {"sentence": END}]


def test_without_log_probabilities_no_draft_is_confident(scripted):
    said = iter([BIRTH, "Quillon lies in the Grey Sea.", SEA, "So the answer is: Grey Sea.", END])
    engine = scripted(lambda system, user: {"sentence": next(said)})
    search = Shelves()
    result = FLARE(search)(QUESTION)
    assert search.queries == [QUESTION, "Quillon lies in the Grey Sea.", "So the answer is: Grey Sea."]
    assert (result.answer, result.details["confidences"]) == ("Amber Sea", [None, None])
    assert len(engine.requests) == 5


@pytest.mark.parametrize("reader", ["direct", "thought"])
def test_the_call_bound_is_reached(scripted, reader):
    number = iter(range(99))
    engine = scripted(lambda system, user: {"sentence": f"This is sentence {next(number)}.", "answer": "x"})
    program = FLARE(Shelves(), max_sentences=3, reader=reader)
    result = program("Question?", passages=[])
    assert len(engine.requests) == program.max_calls() == 2 * 3 + 1
    assert (result.answer, result.stop_reason, len(result.hops)) == ("x", "cap", 3)
    program("Question?")
    assert len(engine.requests) == program.max_calls() + 2 * 3


def test_the_shared_reader_answers_from_all_passages(scored):
    engine = scored(story([UNSURE, END], [BIRTH, SEA]))
    assert FLARE(Shelves(), reader="direct")(QUESTION).answer == "the Amber Sea"
    assert block(engine.prompts[-1], "passages").count("Shelf") == 4


def test_a_passage_found_again_is_read_once(scored):
    engine = scored(story([UNSURE, UNSURE, END], [BIRTH, SEA, "It is an island."]))
    shelf = Fake()
    shelf.find = lambda query, k: [Passage(id="q", text="Shelf of Quillon."), Passage(id=query, text="Shelf of sea.")]
    result = FLARE(shelf, reader="direct")(QUESTION)
    assert len(shelf.asked) == 3
    assert block(engine.prompts[-1], "passages").count("Shelf of Quillon.") == 1
    assert [passage.id for passage in result.passages].count("q") == 1


@pytest.mark.parametrize("draft", ["None", BIRTH])
def test_a_draft_without_a_new_sentence_ends_the_thought_and_the_reader_answers(scored, draft):
    scored(story([draft], [BIRTH]))
    result = FLARE(Shelves())(QUESTION)
    assert (result.answer, result.stop_reason) == ("the Amber Sea", "repeated")
    assert [hop.answer for hop in result.hops] == [BIRTH, ""]


def test_an_unparseable_draft_ends_the_thought(scripted):
    said = iter([{"sentence": BIRTH}, "?", {"answer": "read"}])
    scripted(lambda system, user: next(said))
    result = FLARE(Shelves())(QUESTION)
    assert (result.answer, result.stop_reason) == ("read", "unparseable")


def test_fixed_passages_replace_the_first_retrieval_or_all(scored, passages):
    scored(story([UNSURE, END], [BIRTH, SEA]))
    search = Shelves()
    result = FLARE(search)(QUESTION, passages=passages[:2])
    assert [hop.passage_ids for hop in result.hops] == [["p0", "p1"], ["1.0", "1.1"], []]
    scored(story([UNSURE, END], [BIRTH, SEA]))
    result = FLARE()(QUESTION, passages=passages[:2])
    assert [hop.passage_ids for hop in result.hops] == [["p0", "p1"], ["p0", "p1"], []]


def test_with_nothing_to_read_the_thought_answers_from_memory(scored):
    engine = scored(story([UNSURE, END], []))
    result = FLARE()(QUESTION, passages=[])
    assert (result.answer, result.passages, kinds(engine)) == ("Amber Sea", [], ["draft", "draft"])


def test_chinese_drafts_are_masked_character_by_character(scored):
    draft = [("特伦岛", 0.9), ("位于", 0.9), ("灰", 0.2), ("海。", 0.9)]
    scored(story([draft, "所以答案是：琥珀海。"], ["梅罗出生在特伦岛。", "特伦岛位于琥珀海。"]))
    search = Shelves()
    result = FLARE(search)("梅罗出生在哪片海？")
    assert search.queries[1] == "特伦岛位于 海。"
    assert (result.answer, result.stop_reason) == ("琥珀海", "finished")
