"""What differs between runs besides their scores is named, whatever it is."""

import copy
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from experiments.analysis.by_group import compare_by
from experiments.analysis.compare import compare_runs, differences, metric_notices

RUN: dict[str, Any] = {
    "program": {"name": "rag", "knobs": {"k": 5, "deep": True}, "state_sha256": "a" * 64, "artifact_sha256": None},
    "lm": {
        "id": "openai/x", "model": "openai/x", "adapter": "ChatForm", "probability_mode": "logprobs",
        "settings": {"temperature": 0.0, "max_tokens": 256},
    },
    "corpus": {"fingerprint": "bm25-1"},
    "seed": 0,
    "threads": 8,
    "given": {"knowledge": "complete", "n": 5, "seed": 0, "sha256": "b" * 64},
    "judge": {"id": "judge", "model": "m1"},
}  # fmt: skip


def told(**changes: Any) -> list[str]:
    """Compare two runs, the second with changed fields, named with __ for a dot."""
    other = copy.deepcopy(RUN)
    for name, value in changes.items():
        *path, last = name.split("__")
        place = other
        for part in path:
            place = place[part]
        place[last] = value
    return [str(item) for item in differences({"a": RUN, "b": other})]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"program__knobs": {"k": 10, "deep": True}}, "knob k: 5 (a); 10 (b)."),
        ({"program__knobs": {"k": 5, "deep": False}}, "knob deep: true (a); false (b)."),
        ({"program__state_sha256": "c" * 64}, "instructions or demonstrations: uncompiled aaaaaaaa (a); uncompiled c"),
        ({"lm__id": "openai/y", "lm__model": "openai/y"}, "LM: openai/x (a); openai/y (b)."),
        ({"lm__model": "server-1/x"}, "weights or server of the LM: openai/x (a); server-1/x (b)."),
        ({"lm__settings": {"temperature": 0.7, "max_tokens": 256}}, "temperature of the LM: 0.0 (a); 0.7 (b)."),
        ({"lm__settings": {"temperature": 0.0}}, "max tokens of the LM: 256 (a); default (b)."),
        ({"lm__adapter": "JsonForm"}, "adapter: ChatForm (a); JsonForm (b)."),
        ({"lm__probability_mode": "samples"}, "source of P(yes): logprobs (a); samples (b)."),
        ({"corpus__fingerprint": "hybrid-2"}, "corpus or retriever: bm25-1 (a); hybrid-2 (b)."),
        ({"corpus__fingerprint": None}, "corpus or retriever: bm25-1 (a); none (b)."),
        ({"seed": 1}, "seed: 0 (a); 1 (b)."),
        ({"repeats": 3}, "repeats: 1 (a); 3 (b)."),
        (
            {"given__knowledge": "partial"},
            "fixed contexts: complete, 5 passages, seed 0, SHA-256 bbbbbbbb (a); partial",
        ),
        ({"given": None}, "SHA-256 bbbbbbbb (a); none (b)."),
        ({"judge__model": "m2"}, "judge LM: judge (m1) (a); judge (m2) (b)."),
    ],
)
def test_each_difference_is_one_line(changes: dict[str, Any], text: str) -> None:
    (line,) = told(**changes)
    assert line.startswith("Different ")
    assert text in line


def test_what_predictions_of_another_system_do_not_say_is_no_difference() -> None:
    unknown = {"id": "unknown", "model": None, "adapter": "unknown", "settings": {}}
    program = {"name": "theirs", "knobs": {}, "state_sha256": None, "artifact_sha256": None}
    theirs = {
        "program": program,
        "lm": unknown,
        "corpus": {"fingerprint": None},
        "predictions": {"file": "theirs.jsonl"},
    }
    found = [item.setting for item in differences({"a": RUN, "b": theirs, "c": {**RUN, "seed": 1}})]
    assert found == ["program", "LM", "judge LM", "seed"]
    votes = {  # of runs, and of predictions
        label: {**run, "program": {"name": "ensemble", "knobs": {"members": label}, "artifact_sha256": None}}
        for label, run in (("ours", RUN), ("theirs", {key: theirs[key] for key in theirs if key != "predictions"}))
    }
    assert [item.setting for item in differences(votes)] == ["knob members", "LM", "judge LM"]


def test_threads_and_knobs_of_other_programs_are_none() -> None:
    assert told() == told(threads=1) == []
    other = {"name": "genground", "knobs": {"k": 10, "max_hops": 3}, "state_sha256": "d" * 64}
    assert told(program=other) == ["Different program: rag (a); genground (b).", "Different knob k: 5 (a); 10 (b)."]


def test_runs_with_the_same_value_stand_together() -> None:
    other = {**RUN, "seed": 7}
    assert [str(item) for item in differences({"a": RUN, "b": other, "c": RUN})] == ["Different seed: 0 (a, c); 7 (b)."]


def test_metrics_are_omitted_for_one_of_two_reasons() -> None:
    assert metric_notices([{"em": "x", "f1": "y"}, {"em": "z"}], []) == [
        "Not in every run, so omitted: f1.",
        "Defined differently in the runs, so omitted: em.",
    ]


def run(toy: ModuleType, folder: Path, **options: Any) -> Path:
    program = options.pop("program", None) or toy.Toy()
    engine = options.pop("engine", None) or toy.Engine()
    toy.run(program, toy.questions(6), connection=toy.link(engine), folder=folder, metrics=["em"], **options)
    return folder


def test_a_comparison_and_its_groups_name_the_differences(toy: ModuleType, tmp_path: Path) -> None:
    folders = [run(toy, tmp_path / "a"), run(toy, tmp_path / "b", program=toy.Toy(k=1), seed=3, notes=["Beware."])]
    comparison = compare_runs(folders)
    expected = ["Different knob k: 2 (a); 1 (b).", "Different seed: 0 (a); 3 (b).", "b: Beware."]
    assert comparison.notices[:3] == expected
    assert comparison.as_dict()["differences"]["knob k"] == {"a": "2", "b": "1"}
    assert compare_by(comparison, "gold_ids").about_runs == expected


def test_replies_from_the_cache_are_named_because_they_take_no_time(toy: ModuleType, tmp_path: Path) -> None:
    from programs.parts.meter import record

    cached = toy.Engine(lambda prompt: record(calls=1, cached_calls=1))
    summary_note = "6 of 12 LM calls were answered by the reply cache"
    folders = [run(toy, tmp_path / "a"), run(toy, tmp_path / "b", engine=cached)]
    assert any(f"b: {summary_note}" in text for text in compare_runs(folders).notices)
    assert not any("a: " in text and "cache" in text for text in compare_runs(folders).notices)


def test_a_vote_has_no_instructions_of_its_own_to_differ_in() -> None:
    vote = {"name": "rag", "knobs": {"k": 5, "deep": True}, "artifact_sha256": None, "members": []}
    assert told(program=vote) == []
