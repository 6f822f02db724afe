"""Boards of runs: which stand together, their order, and what makes them incomparable."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from experiments.analysis.boards import check_comparable, read_boards, refuse_left_out
from experiments.analysis.compare import labels_of
from signatures.common.errors import UserError, UserNotice

Change = Callable[[dict[str, Any]], Any]
Make = Callable[..., Path]


def change(folder: Path, run: Change | None = None, row: Change | None = None) -> Path:
    """Change what `run.json`, and each row, of a run says."""
    if run is not None:
        description = json.loads((folder / "run.json").read_text())
        run(description)
        (folder / "run.json").write_text(json.dumps(description))
    if row is not None:
        rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
        for each in rows:
            row(each)
        (folder / "rows.jsonl").write_text("".join(json.dumps(each) + "\n" for each in rows))
    return folder


@pytest.fixture
def make(toy: ModuleType, tmp_path: Path) -> Make:
    """Return a function that makes the run of a program with this name, which is right on the even questions."""

    def of(name: str, program: str = "rag", n: int = 8, **changes: Change) -> Path:
        folder, engine = tmp_path / name, toy.Engine()
        options: dict[str, Any] = {"metrics": ["em", "f1[hotpot]", "passage_recall@2"], "folder": folder}
        toy.run(toy.Toy(), toy.questions(n), connection=toy.link(engine), **options)
        named = _both(_set("program", name=program), _set("corpus", fingerprint="toy"))
        return change(change(folder, named), **changes)

    return of


def _worse(row: dict[str, Any]) -> None:
    row |= {"answer": "?", "scores": {**row["scores"], "em": 0.0, "f1[hotpot]": 0.0}}


def _unread(row: dict[str, Any]) -> None:
    row |= {"passage_ids": [], "scores": {**row["scores"], "passage_recall@2": 0.0}}


def _dearer(row: dict[str, Any]) -> None:
    row["prompt_tokens"] *= 3


def test_runs_on_the_same_questions_are_ranked_and_compared_with_rag(make: Make) -> None:
    cheap = make("set/cheap", "cot", row=lambda row: (_worse(row), _unread(row), row.update(prompt_tokens=1)))
    folders = [cheap, make("set/dear", "ircot", row=_dearer), make("set/rag"), make("other/rag", n=3)]
    other, board = read_boards(folders)
    assert (other.title, len(other.runs), board.title) == ("other", 1, "set")
    assert [run.label for run in board.runs] == ["rag", "cheap", "dear"]
    assert [board.runs[place].label for place in board.ranked] == ["dear", "rag", "cheap"]  # of equals by name
    assert [board.runs[place].label for place in board.front] == ["cheap", "rag"]
    assert board.metric == "f1[hotpot]"
    against = board.comparison.metrics["f1[hotpot]"][1].against_first
    assert against is not None
    assert against.difference == -0.5
    check_comparable([other, board])
    assert board.as_dict()["not_comparable"] == {}


def test_a_folder_of_runs_stands_for_them(make: Make, tmp_path: Path) -> None:
    folders = [make("cells/set/rag"), make("cells/set/deeper/cot", "cot"), make("cells/other/rag", n=3)]
    (tmp_path / "cells/set/empty").mkdir()
    found = [board.as_dict() for board in read_boards([tmp_path / "cells"])]
    assert found == [board.as_dict() for board in read_boards(sorted(folders))]
    assert [board["ranked"] for board in found] == [["cot", "rag"], ["rag"]]
    with pytest.raises(UserError, match="named twice"):
        read_boards([tmp_path / "cells", folders[0]])


def test_shards_below_a_folder_are_left_out(make: Make, tmp_path: Path) -> None:
    of = {"index": 1, "of": 2, "ids": ["q0", "q1", "q2"], "questions": {"n": 8, "sha256": "a"}}
    shard = make("cells/rag.shard-1-of-2", n=3, run=lambda run: run.update(shard=of))
    with pytest.raises(UserError, match="No finished run: merge shards"):
        read_boards([tmp_path / "cells"])
    make("cells/rag")
    assert [board.questions["n"] for board in read_boards([tmp_path / "cells"])] == [8]
    assert [board.questions["n"] for board in read_boards([shard])] == [3]


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (["rag-0a1b2c3d", "cot-0a1b2c3d", "plain"], ["rag", "cot", "plain"]),
        (["rag-0a1b2c3d", "rag-1111111a"], ["rag-0a1b2c3d", "rag-1111111a"]),
        (["one/rag-0a1b2c3d", "two/rag-0a1b2c3d"], ["one/rag", "two/rag"]),
        (["run-20261129", "-0a1b2c3d"], ["run-20261129", "-0a1b2c3d"]),
    ],
)
def test_runs_of_tables_are_named_without_the_hash_of_their_settings(names, shown, tmp_path):
    assert labels_of([tmp_path / name for name in names]) == shown


def test_what_predictions_of_another_system_do_not_say_is_no_difference(make: Make) -> None:
    unknown = {"id": "unknown", "model": None, "adapter": "unknown", "settings": {}}
    theirs = make(
        "set/theirs",
        "theirs",
        run=lambda run: run.update(lm=unknown, corpus={"fingerprint": None}, predictions={"file": "theirs.jsonl"}),
        row=lambda row: row.update(passage_ids=[], unknown=["passages"]),
    )
    weighed = {"run": lambda run: run["lm"].update(weights_hash="a" * 64)}
    others = [make("set/unread", "cot", row=lambda row: row.update(passage_ids=[]), **weighed)]
    (board,) = read_boards([theirs, *others, make("set/reading", "ircot", **weighed)])
    assert [each.setting for each in board.differences] == ["LM"]


def test_the_title_is_that_of_the_questions(make: Make) -> None:
    paths = {"data/hotpotqa/questions.jsonl": "hotpotqa", "/x/dev_100.jsonl.gz": "dev_100", "": "questions"}
    paths |= {"data/musique/Dev.jsonl": "musique", "data/2wiki/test.jsonl.gz": "2wiki", "../train.jsonl": "train"}
    for place, (path, title) in enumerate(paths.items()):
        folder = make(f"a/run{place}", run=lambda run, path=path: run.update(paths={"questions": path}))
        assert read_boards([folder])[0].title == title


def _set(part: str, **values: Any) -> Change:
    return lambda run: run.setdefault(part, {}).update(values)


def _both(first: Change, second: Change) -> Change:
    return lambda run: (first(run), second(run))


JUDGE = {"id": "other", "adapter": "x", "model": "m"}
JUDGED = _set("metrics", **{"acc[judge]": "By a judge."})
FIELDS: dict[str, Change] = {
    "LM": _set("lm", id="other"),
    "weights or server of the LM": _set("lm", model="other"),
    "SHA-256 of the weights": _set("lm", weights_hash="ab"),
    "adapter": _set("lm", adapter="other"),
    "source of P(yes)": _set("lm", probability_mode="logprobs"),
    "temperature of the LM": lambda run: run["lm"]["settings"].update(temperature=0.7),
    "corpus or retriever": _set("corpus", fingerprint="bm25-1"),
    "hash of the corpus": _set("index", corpus_hash="ab"),
    "fixed contexts": lambda run: run.update(given={"knowledge": "complete", "n": 5, "seed": 0, "sha256": "ab"}),
    "judge LM": lambda run: run.update(judge=JUDGE),
    "seed": lambda run: run.update(seed=7),
    "SHA-256 of the split": _set("questions", split_sha256="ab"),
    "definition of em": lambda run: run["metrics"].update(em="Another."),
}


@pytest.mark.parametrize("field", FIELDS)
def test_a_check_names_the_field_that_differs(field: str, make: Make) -> None:
    indexed = _both(_set("index", corpus_hash="cd"), JUDGED)
    boards = read_boards([make("set/rag", run=indexed), make("set/other", "cot", run=indexed)])
    check_comparable(boards)
    boards = read_boards([make("b/rag", run=indexed), change(make("b/other", "cot", run=indexed), FIELDS[field])])
    assert field in [each.setting for each in boards[0].differences]
    with pytest.raises(UserError, match="not comparable") as refused:
        check_comparable(boards)
    assert f"Different {field}: " in str(refused.value)
    assert "other" in str(refused.value)


def test_another_judge_of_revised_questions_is_refused(make: Make) -> None:
    """Before, it passed: the metric was not taken for a judged one."""
    scored = _set("metrics", **{"revised_question[cov]": "By a judge."})
    judges = [{**JUDGE, "id": name} for name in ("one", "other")]
    folders = [make(f"set/{judge['id']}", run=_both(scored, _set("judge", **judge))) for judge in judges]
    with pytest.raises(UserError, match="Different judge LM"):
        check_comparable(read_boards(folders))


def test_a_judge_that_judged_nothing_in_common_does_not_matter(make: Make) -> None:
    """Before, the judge LM of a run without a judged metric was refused as another one."""
    judged = _both(JUDGED, _set("judge", **JUDGE))
    folders = [make("set/rag", run=_set("judge", **JUDGE)), make("set/run", "cot"), make("set/judged", run=judged)]
    check_comparable(read_boards(folders))
    other = make("set/other", run=_both(JUDGED, _set("judge", **{**JUDGE, "id": "third"})))
    with pytest.raises(UserError, match=r"Different judge LM: other \(m\) \(judged\); third \(m\) \(other\)"):
        check_comparable(read_boards([*folders, other]))


GOLD = {"answers": "gold answers", "gold_ids": "gold passages", "sub_answers": "gold answers of sub-questions"}


@pytest.mark.parametrize("key", GOLD)
def test_rows_scored_against_other_gold_are_refused(key: str, make: Make) -> None:
    rag = make("set/rag", row=lambda row: row.update({key: ["a"]}))
    other = make("set/other", "cot", row=lambda row: row.update({key: ["b" if row["id"] == "id3" else "a"]}))
    with pytest.raises(UserError, match=rf"Different {GOLD[key]}: \w{{16}} \(rag\); \w{{16}} \(other\)"):
        check_comparable(read_boards([rag, other]))


def test_metrics_that_were_scored_later_from_another_file_are_refused(make: Make) -> None:
    def scored(key: str, digest: str | None) -> Change:
        entries = [{"added": ["em"], "questions_file_sha256": "old"}, {key: ["em"], "questions_file_sha256": digest}]
        entries[1] |= {"replaced": {"em": "Earlier."}} if key == "replaced" else {}
        return lambda run: run.update(scored=entries)

    rag = make("set/rag", run=scored("replaced", "same"))
    check_comparable(read_boards([rag, make("set/same", run=scored("added", "same"))]))
    check_comparable(read_boards([rag, make("set/unknown", run=scored("added", None))]))
    check_comparable(read_boards([rag, make("set/asked", run=_set("paths", questions_file_sha256="same"))]))
    for name, change_ in {
        "later": scored("added", "other"),
        "at once": _set("paths", questions_file_sha256="other"),
    }.items():
        with pytest.raises(UserError, match=rf"Different gold answers of em: same \(rag\); other \({name}\)"):
            check_comparable(read_boards([rag, make(f"set/{name}", run=change_)]))


def test_repeats_and_questions_that_differ_are_named(make: Make) -> None:
    often = make("set/often", run=lambda run: run.update(repeats=2))
    rows = (often / "rows.jsonl").read_text()
    (often / "rows.jsonl").write_text(rows + rows.replace('"id": "', '"repeat": 2, "id": "'))
    rag = make("set/rag")
    with pytest.raises(UserError, match=r"Different repeats: 1 \(rag\); 2 \(often\)"):
        check_comparable(read_boards([rag, often]))
    with pytest.raises(UserError, match=r"set: Different questions: \w{16} \(few\); \w{16} \(rag\)|\(rag\).*\(few\)"):
        check_comparable(read_boards([rag, make("set/few", n=3)]))


def test_what_a_closed_book_could_have_searched_does_not_matter(make: Make) -> None:
    searched = [make(f"set/{name}", name, run=_set("corpus", fingerprint="bm25-1")) for name in ("rag", "ircot")]
    check_comparable(read_boards([*searched, make("set/standard", "standard", row=_unread)]))


def test_other_prompts_and_knobs_are_what_is_compared(make: Make) -> None:
    tuned = make("set/tuned", run=lambda run: run["program"].update(knobs={"k": 9}, state_sha256="f" * 64))
    check_comparable(read_boards([make("set/rag"), tuned]))


def _unfinished(folder: Path) -> None:
    lines = (folder / "rows.jsonl").read_text().splitlines(keepends=True)
    (folder / "rows.jsonl").write_text("".join(lines[:5]))


def _linked(folder: Path) -> None:
    (folder / "rows.jsonl").rename(folder / "elsewhere.jsonl")
    (folder / "rows.jsonl").symlink_to(folder / "elsewhere.jsonl")


def _piped(folder: Path) -> None:
    (folder / "rows.jsonl").unlink()
    os.mkfifo(folder / "rows.jsonl")


def _looping(folder: Path) -> None:
    (folder / "run.json").unlink()
    (folder / "run.json").symlink_to("run.json")


def _of_runs(folder: Path, **values: Any) -> None:
    change(folder, lambda run: run.update(values))


def test_an_unfinished_run_below_a_folder_is_left_out_and_told(make: Make, tmp_path: Path) -> None:
    _unfinished(make("set/begun", "ircot"))
    (make("set/empty", "flare") / "rows.jsonl").unlink()
    make("set/rag")
    told: list[str] = []
    (board,) = read_boards([tmp_path / "set"], on_left_out=told.append)
    assert [run.folder.name for run in board.runs] == ["rag"]
    assert [each.rpartition("/")[2][:24] for each in told] == ["begun has 5 of 8 answers", "empty has 0 of 8 answers"]
    with pytest.warns(UserNotice, match="begun"), pytest.raises(UserError, match="No finished run"):
        read_boards([_kept(tmp_path / "set", "begun")])


def test_a_question_that_was_asked_again_after_an_error_is_one_answer(make: Make, tmp_path: Path) -> None:
    _ask_last_again(make("set/rag"), times=1)
    _unfinished(begun := make("set/begun", "ircot"))
    _ask_last_again(begun, times=3)  # 8 rows of 5 questions
    told: list[str] = []
    (board,) = read_boards([tmp_path / "set"], on_left_out=told.append)
    assert [run.folder.name for run in board.runs] == ["rag"]
    assert [each.rpartition("/")[2][:24] for each in told] == ["begun has 5 of 8 answers"]


@pytest.mark.parametrize("damage", ["unfinished", "a command", "a pipe", "no run"])
def test_a_check_refuses_what_a_page_would_leave_out(damage: str, make: Make, tmp_path: Path) -> None:
    """Before, it passed without that run."""
    make("set/rag")
    DAMAGES[damage][0](make("set/bad", "cot"))
    with pytest.raises(UserError, match=rf"Not all runs can be checked: .*{DAMAGES[damage][1]}"):
        read_boards([tmp_path / "set"], on_left_out=refuse_left_out)


def test_results_of_another_kind_below_a_folder_are_left_out_and_told(make: Make, tmp_path: Path) -> None:
    """Before, a check refused everything where judgements stood beside runs."""
    make("set/rag")
    _of_runs(judged := make("set/judged"), kind="judgements")
    with pytest.warns(UserNotice, match="Left out: .*judged contains judgements"):
        (board,) = read_boards([tmp_path / "set"], on_left_out=refuse_left_out)
    assert [run.folder.name for run in board.runs] == ["rag"]
    with pytest.raises(UserError, match="contains judgements"):
        read_boards([judged], on_left_out=refuse_left_out)


def _ask_last_again(folder: Path, times: int) -> None:
    rows = folder / "rows.jsonl"
    lines = rows.read_text().splitlines(keepends=True)
    rows.write_text("".join([*lines, *lines[-1:] * times]))


def _kept(folder: Path, *names: str) -> Path:
    for each in folder.iterdir():
        if each.name not in names:
            shutil.rmtree(each)
    return folder


def test_a_linked_run_below_a_folder_is_not_dropped_silently(make: Make, tmp_path: Path) -> None:
    make("set/rag")
    (tmp_path / "set" / "latest").symlink_to("rag")
    assert len(read_boards([tmp_path / "set"])[0].runs) == 1
    (tmp_path / "set" / "other").symlink_to(make("elsewhere/ircot", "ircot"))
    with pytest.raises(UserError, match="other is a link to a run elsewhere: remove the link"):
        read_boards([tmp_path / "set"])


def test_a_linked_folder_of_runs_is_not_dropped_silently(make: Make, tmp_path: Path) -> None:
    make("set/sub/rag")
    make("elsewhere/ircot", "ircot")
    for name, target in {"again": "sub", "loop": "loop", "gone": "nowhere"}.items():
        (tmp_path / "set" / name).symlink_to(target)
    assert len(read_boards([tmp_path / "set"])[0].runs) == 1
    (tmp_path / "set" / "more").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match="more is a link to a folder of runs elsewhere: remove the link"):
        read_boards([tmp_path / "set"])


def test_links_in_a_linked_folder_of_runs_are_not_dropped_silently(make: Make, tmp_path: Path) -> None:
    make("set/sub/rag")
    (tmp_path / "elsewhere").mkdir()
    for name, target in {"back": tmp_path / "set", "up": tmp_path / "elsewhere", "known": tmp_path / "set/sub"}.items():
        (tmp_path / "elsewhere" / name).symlink_to(target)
    (tmp_path / "set" / "more").symlink_to(tmp_path / "elsewhere")
    assert len(read_boards([tmp_path / "set"])[0].runs) == 1
    (tmp_path / "elsewhere" / "ircot").symlink_to(make("third/ircot", "ircot"))
    (tmp_path / "set" / "a").symlink_to(tmp_path / "set")  # leads to nothing that is elsewhere
    with pytest.raises(UserError, match="more is a link to a folder of runs elsewhere: remove the link"):
        read_boards([tmp_path / "set"])


@pytest.mark.parametrize("of_link", [True, False])
def test_a_linked_folder_that_is_named_itself_is_read_once(make: Make, tmp_path: Path, of_link: bool) -> None:
    """Before, it was refused: the cure was to remove the link, too."""
    make("set/rag")
    elsewhere, link = make("elsewhere/ircot", "ircot").parent, tmp_path / "set" / "more"
    link.symlink_to(elsewhere)
    (board,) = read_boards([tmp_path / "set", link if of_link else elsewhere])
    assert sorted(run.label for run in board.runs) == ["ircot", "rag"]


DAMAGES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "unfinished": (_unfinished, r"bad has 5 of 8 answers: finish it"),
    "no rows": (lambda folder: (folder / "rows.jsonl").unlink(), r"bad has no answered question"),
    "no run": (lambda folder: (folder / "run.json").unlink(), r"bad is not the folder of a run"),
    "a link": (_linked, r"rows\.jsonl is a link"),
    "a loop": (_looping, r"run\.json is a link"),
    "a pipe": (_piped, r"rows\.jsonl is not a file"),
    "huge costs": (lambda folder: change(folder, row=lambda row: row.update(calls=1e300)), r"rows\.jsonl:1 .*calls"),
    "huge scores": (lambda folder: change(folder, row=lambda row: row["scores"].update(em=-1e300)), r"jsonl:1 .*em"),
    "huge n": (lambda folder: change(folder, lambda run: run["questions"].update(n=2**60)), r"8 of \d{19} answers"),
    "impossible scores": (
        lambda folder: change(folder, row=lambda row: row["scores"].update({"f1[hotpot]": 7.0})),
        r"rows\.jsonl: f1\[hotpot\] of question 'id\d' is 7, but scores are from 0 to 1",
    ),
    "a command": (lambda folder: _of_runs(folder, command=["rm"]), r"run\.json is damaged \('command'"),
    "a corpus": (lambda folder: _of_runs(folder, index={"corpus_hash": 3}), r"run\.json is damaged \('index"),
    "a weights' hash": (lambda folder: change(folder, _set("lm", weights_hash=[])), r"damaged \('lm\.weights_hash'"),
    "a part": (lambda folder: _of_runs(folder, merged={"parts": [{"command": 1}]}), r"damaged \('merged"),
    "other rows": (
        lambda folder: change(folder, row=lambda row: row.update(question="?" + row["question"])),
        "share no",
    ),
    "one other row": (
        lambda folder: change(folder, row=lambda row: row["id"] == "id3" and row.update(id="x")),
        r"rows\.jsonl of .* other runs do not have",
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_run_is_refused_by_the_name_of_its_file(damage: str, make: Make) -> None:
    good, bad = make("set/rag"), make("set/bad", "cot")
    spoil, said = DAMAGES[damage]
    spoil(bad)
    with pytest.raises(UserError, match=said):
        read_boards([good, bad])


@pytest.mark.parametrize("damage", ["a command", "a pipe", "huge costs", "impossible scores"])
def test_a_damaged_run_below_a_folder_is_left_out_and_told(damage: str, make: Make, tmp_path: Path) -> None:
    make("set/rag")
    spoil, said = DAMAGES[damage]
    spoil(make("set/bad", "cot"))
    with pytest.warns(UserNotice, match=f"Left out: .*{said}"):
        (board,) = read_boards([tmp_path / "set"])
    assert [run.folder.name for run in board.runs] == ["rag"]


def test_nothing_and_a_run_that_is_named_twice_are_refused(make: Make) -> None:
    with pytest.raises(UserError, match="at least one run"):
        read_boards([])
    rag = make("set/rag")
    with pytest.raises(UserError, match="named twice"):
        read_boards([rag, rag])
