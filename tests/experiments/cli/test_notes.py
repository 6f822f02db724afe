"""Results that are none come with a note: gold that the index lacks, passages not read, no demonstrations."""

import errno
import io
import json

import pytest

from experiments.cli.main import _show_warning
from experiments.cli.shared.console import note
from experiments.pipeline.corpus_notes import gold_note
from programs.artifact import load
from programs.catalog import build
from signatures.common.errors import UserNotice

SIMULATED = ("--lm", "simulated", "--quiet")


@pytest.fixture
def foreign(tmp_path):
    """Return four questions whose gold passages belong to another corpus."""
    rows = [
        {
            "id": f"w0-h{n}",
            "question": f"Who is {n}?",
            "answers": ["x"],
            "gold_ids": [f"alû-{n}", "gate"],
            "split": "train",
        }
        for n in range(4)
    ]
    path = tmp_path / "foreign.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def notes(err: str) -> list[str]:
    return [line for line in err.splitlines() if line.startswith("Note: ")]


def test_questions_on_the_index_of_another_corpus_are_a_note_everywhere(verihop, world, foreign, tmp_path):
    asked = ("eval", foreign, "--program", "rag", "--index", world / "index", *SIMULATED)
    code, out, err = verihop(*asked, "--out", tmp_path / "run", "--report")
    assert code == 0
    (note,) = notes(err)
    assert "4 of 4 questions have gold passages that the index lacks (e.g. 'alû-0'): it has none at all" in note
    assert "will be 0. The index probably belongs to another corpus" in note
    assert out == f"Written: {tmp_path / 'run'}\n"  # quiet: no table
    assert "it has none at all" in json.loads((tmp_path / "run" / "summary.json").read_text())["notice"]
    assert "it has none at all" in (tmp_path / "run" / "report.html").read_text()
    code, out, err = verihop(*asked, "--out", tmp_path / "json", "--json")
    assert "it has none at all" in json.loads(out)["notice"]
    compared = json.loads(verihop("compare", tmp_path / "run", tmp_path / "json", "--json")[1])["notices"]
    assert [notice[:11] for notice in compared if "it has none at all" in notice] == ["run, json: "]
    code, _, err = verihop(*asked, "--out", tmp_path / "run", "--resume")
    assert (code, len(notes(err))) == (0, 1)


def test_some_missing_gold_passages_are_counted_by_question(verihop, world, foreign, tmp_path):
    rows = [json.loads(line) for line in (world / "questions.jsonl").read_text().splitlines()[:3]]
    mixed = tmp_path / "mixed.jsonl"
    lost = {**rows[0], "id": "lost", "gold_ids": [*rows[0]["gold_ids"], "lost-1"]}
    mixed.write_text("".join(json.dumps(row) + "\n" for row in [*rows, lost, {"id": "bare", "question": "?"}]))
    asked = ("eval", mixed, "--program", "rag", "--index", world / "index", *SIMULATED)
    (note,) = notes(verihop(*asked, "--out", tmp_path / "run")[2])
    assert "1 of 4 questions have gold passages that the index lacks (e.g. 'lost-1')" in note
    assert "will be 0" not in note


def test_questions_with_all_gold_in_the_index_need_no_note(verihop, world, tmp_path):
    asked = (
        "eval",
        world / "questions.jsonl",
        "--limit",
        3,
        "--program",
        "rag",
        "--index",
        world / "index",
        *SIMULATED,
    )
    code, _, err = verihop(*asked, "--out", tmp_path / "run", "--json")
    assert (code, notes(err), "notes" in json.loads((tmp_path / "run" / "run.json").read_text())) == (0, [], False)
    assert gold_note([], None) is None


def test_a_program_that_reads_nothing_has_no_recall(verihop, world, tmp_path):
    asked = (
        "eval",
        world / "questions.jsonl",
        "--limit",
        3,
        "--program",
        "cot",
        "--index",
        world / "index",
        *SIMULATED,
    )
    told = notes(verihop(*asked, "--out", tmp_path / "run")[2])
    assert told == [
        "Note: cot searches no corpus: the index is not used.",
        "Note: cot reads no passages of a corpus: passage_recall@5, all_gold@5 will be 0.",
    ]
    contexts = ("--references", "complete", "--passages", world / "passages.jsonl", "--metrics", "em,recall[hotpot]")
    asked = ("eval", world / "questions.jsonl", "--limit", 3, "--program", "cot", *contexts, *SIMULATED)
    told = notes(verihop(*asked, "--out", tmp_path / "given")[2])
    assert told == ["Note: cot searches no corpus: the fixed contexts are not used."]


def test_a_compilation_without_demonstrations_says_so_and_why(verihop, world, foreign, tmp_path):
    made = tmp_path / "made"
    asked = ("compile", foreign, "--program", "rag", "--index", world / "index", *SIMULATED, "--limit", 3)
    asked = (*asked, "--val", foreign)
    code, _, err = verihop(*asked, "--out", made)
    assert code == 0
    training, validation, overlap, empty = notes(err)
    assert training.startswith("Note: Training questions: 3 of 3 questions have gold passages that the index lacks")
    assert validation.startswith("Note: Validation questions: 4 of 4")
    assert overlap == "Note: 3 of 4 validation questions are training questions, too, and are left out."
    assert "has no demonstrations: it is the uncompiled program with its knobs stored, and answers the same" in empty
    assert "no answer to the 3 training questions reached em >= 1" in empty
    assert "--accept 0.5" in empty
    assert load(made).dump_state() == build("rag").dump_state()  # what the note says
    code, out, _ = verihop(*asked, "--out", tmp_path / "json", "--json")
    assert [note.split(":")[0] for note in json.loads(out)["notes"]] == [
        "Training questions",
        "Validation questions",
        "3 of 4 validation questions are training questions, too, and are left out.",
        "The compiled program has no demonstrations",
    ]


def test_a_compilation_that_allows_no_demonstrations_names_that_as_the_reason(verihop, world, tmp_path):
    asked = ("compile", world / "questions.jsonl", "--program", "rag", "--limit", 4, "--index", world / "index")
    (note,) = notes(verihop(*asked, *SIMULATED, "--max-demos", 0, "--out", tmp_path / "none")[2])
    assert note.endswith("Reason: --max-demos is 0.")
    questions = (world / "questions.jsonl", "--split", "train", "--limit", 12)
    accepted = ("compile", *questions, "--program", "rag", "--index", world / "index", *SIMULATED)
    assert notes(verihop(*accepted, "--out", tmp_path / "some")[2]) == []


def test_the_cost_of_a_question_has_its_seconds(verihop, world):
    code, out, _ = verihop(
        "ask", "Who is it?", "--program", "rag", "--index", world / "index", "--lm", "simulated", "--json"
    )
    assert (code, json.loads(out)["cost"]["seconds"] > 0) == (0, True)


@pytest.mark.parametrize("quiet", [False, True])
def test_quiet_judgements_show_no_progress(quiet, verihop, world, scripted_lm, tmp_path):
    runs = [tmp_path / name for name in ("cot", "standard")]
    for run in runs:
        asked = ("eval", world / "questions.jsonl", "--limit", 2, "--program", run.name, *SIMULATED)
        assert verihop(*asked, "--out", run)[0] == 0
    names = ("correctness", "citation_accuracy", "truthfulness", "bias", "conciseness")
    scripted_lm(lambda system, user: "\n\n".join(f"[[ ## {name} ## ]]\nanswer2: 1\nanswer1: 0.5" for name in names))
    _, _, err = verihop("judge", *runs, "--out", tmp_path / "judged", *(["-q"] if quiet else []))
    assert ("Judgements" in err) is not quiet
    questions = (world / "questions.jsonl", "--limit", 2, "--passages", world / "passages.jsonl")
    scripted_lm(lambda system, user: "- Ansa keeps the gate.")
    built = ("keyfacts", "build", *questions, "--oracle", "lexical", "--out", tmp_path / "facts")
    _, _, err = verihop(*built, *(["-q"] if quiet else []))
    assert ("Key facts" in err) is not quiet
    _, _, err = verihop(
        "data", "pool", world / "passages.jsonl", "--out", tmp_path / "p.jsonl", *(["-q"] if quiet else [])
    )
    assert ("Passages 556" in err) is not quiet


def test_commands_without_progress_have_no_quiet(verihop, tmp_path):
    for command in ("world", "subset"):
        assert "--quiet" not in verihop("data", command, "--help")[1]


@pytest.mark.slow
def test_questions_that_were_demonstrations_are_a_note(verihop, world, tmp_path):
    questions, made = (world / "questions.jsonl", "--split", "train", "--limit", 12), tmp_path / "made"
    index = ("--index", world / "index")
    asked = ("compile", *questions, "--program", "genground", *index, *SIMULATED, "--out", made)
    _, _, err = verihop(*asked, "--val", world / "questions.jsonl", "--val-limit", 30)
    (note,) = notes(err)
    assert "12 of 30 validation questions are training questions, too" in note
    examples = {demo["question"] for demo in load(made).deduction.demos}
    asked = ("eval", *questions, "--artifact", made, "--quiet", "--out", tmp_path / "seen")
    (note,) = notes(verihop(*asked)[2])
    assert f"{len(examples)} of 12 questions are in the demonstrations of the compiled program" in note
    asked = ("eval", questions[0], "--limit", 30, "--artifact", made, "--quiet", "--out", tmp_path / "chose")
    _, chosen = notes(verihop(*asked)[2])
    assert "18 of 30 questions are those that candidates of this artifact were scored on" in chosen
    unseen = ("eval", questions[0], "--split", "dev", "--limit", 3, "--artifact", made, "--quiet")
    (note,) = notes(verihop(*unseen, "--out", tmp_path / "unseen")[2])
    assert "3 of 3 questions are those that candidates" in note  # and no demonstrations


def test_a_seed_without_effect_is_a_note(verihop, world, tmp_path):
    asked = ("eval", world / "questions.jsonl", "--limit", 2, "--program", "rag", *SIMULATED, "--seed", 3)
    told = notes(verihop(*asked, "--index", world / "index", "--out", tmp_path / "run")[2])
    assert told == ["Note: The seed chooses fixed contexts: without them it changes nothing."]
    contexts = ("--references", "complete", "--passages", world / "passages.jsonl")
    assert notes(verihop(*asked, *contexts, "--out", tmp_path / "given")[2]) == []


def test_training_questions_without_answers_are_the_reason(verihop, world, tmp_path):
    (tmp_path / "bare.jsonl").write_text('{"id": "w0-1", "question": "Who?"}\n{"id": "w0-2", "question": "Where?"}\n')
    asked = ("compile", tmp_path / "bare.jsonl", "--program", "rag", "--index", world / "index", *SIMULATED)
    (note,) = notes(verihop(*asked, "--out", tmp_path / "made")[2])
    assert "Reason: 2 of 2 training questions have no gold answer" in note


def test_the_simulated_lm_on_questions_of_another_world_is_a_note(verihop, world, tmp_path):
    questions = world / "questions.jsonl"
    asked = (questions, "--limit", 2, "--program", "cot", "--metrics", "em", "--quiet", "--lm")
    (note,) = notes(verihop("eval", *asked, "simulated:7", "--out", tmp_path / "other")[2])
    assert "knows only the generated world of seed 7, and no question is from it" in note
    assert notes(verihop("eval", *asked, "simulated:0", "--out", tmp_path / "own")[2]) == []
    compiled = ("compile", *asked[:5], "--quiet", "--lm", "simulated:7", "--out", tmp_path / "made")
    assert any("knows only the generated world of seed 7" in note for note in notes(verihop(*compiled)[2]))


def test_a_log_on_a_full_disk_ends_no_work(monkeypatch):
    class Full(io.StringIO):
        def write(self, text):
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("sys.stderr", Full())
    note("The LM server cannot be reached.")
    _show_warning(UserNotice("P(yes) is computed from samples."), UserNotice, "lms.py", 1)
