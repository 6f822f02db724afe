"""Rows and `run.json` that are not what a run writes are refused with the fault named."""

import json

import pytest

from experiments.analysis.compare import compare_runs
from experiments.analysis.report.html import write_report
from experiments.analysis.summary import summarise
from experiments.runs.files import read_rows, read_run
from signatures.common.errors import UserError
from tests.experiments.campaigns.inputs import INPUTS


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    INPUTS["run"].make(folder)
    return folder / "run"


@pytest.fixture
def run(original, tmp_path):
    """Return a function that writes a run with its first row and its `run.json` changed."""

    def change(row=lambda row: None, description=lambda description: None):
        folder = tmp_path / "run"
        folder.mkdir()
        first, *rest = (original / "rows.jsonl").read_text().splitlines()
        record = json.loads(first)
        row(record)
        (folder / "rows.jsonl").write_text("\n".join([json.dumps(record), *rest]) + "\n")
        record = json.loads((original / "run.json").read_text())
        description(record)
        (folder / "run.json").write_text(json.dumps(record))
        return folder

    return change


def _hop(**values):
    candidate = {"text": "t", "kept": True, "reason": "r", **values}
    return {"question": "q", "answer": "a", "candidates": [candidate]}


ROWS = {
    "'cached_calls'": lambda row: row.update(cached_calls="2"),
    "'scores.em'": lambda row: row["scores"].update(em="1"),
    "'scores'": lambda row: row.update(scores=None),
    "'hops.0.question'": lambda row: row.update(hops=[{"answer": "x"}]),
    "'hops.0.candidates.0.gates.a'": lambda row: row.update(hops=[_hop(gates={"a": "x"})]),
    "'hops.0.candidates.0.gates'": lambda row: row.update(hops=[_hop(gates=[1])]),
    "'passage_ids.0'": lambda row: row.update(passage_ids=[{"a": 1}]),
    "'details.references": lambda row: row.update(details={"references": [[1]]}),
    "'repeat'": lambda row: row.update(repeat=10**9),
    "'id'": lambda row: row.update(id=["q"]),
    "'error'": lambda row: row.pop("error"),
    "'about.level": lambda row: row["about"].update(level={"a": 1}),
    "'replies'": lambda row: row.update(replies=[]),
    "'wait_seconds'": lambda row: row.update(wait_seconds="1"),
    "'unreadable'": lambda row: row.update(unreadable=1),
    "'seconds'": lambda row: row.update(seconds=float("inf")),
}


DESCRIPTIONS = {
    "'metrics'": lambda description: description.pop("metrics"),
    "'program.knobs'": lambda description: description["program"].update(knobs=[]),
    "'questions.n'": lambda description: description["questions"].update(n=-1),
    "'repeats'": lambda description: description.update(repeats=2**31),
    "'corpus.fingerprint'": lambda description: description["corpus"].update(fingerprint=[]),
    "'lm'": lambda description: description.update(lm="embedded"),
    "'lm.settings'": lambda description: description["lm"].update(settings=[1]),
    "'lm.settings.temperature'": lambda description: description["lm"].update(settings={"temperature": "hot"}),
    "'lm.model'": lambda description: description["lm"].update(model={}),
    "'judge.settings'": lambda description: description.update(judge={"id": "m", "adapter": "a", "settings": 2.5}),
    "'scored.0.added.0'": lambda description: description.update(scored=[{"added": [[]]}]),
    "'notes.0'": lambda description: description.update(notes=[1]),
    "'index.passages'": lambda description: description.update(index={"corpus_hash": "a", "passages": "many"}),
    "'paths.questions'": lambda description: description.update(paths={"questions": 3}),
    "'versions'": lambda description: description.update(versions=[1]),
    "'given'": lambda description: description.update(given=[1]),
    "'merged.parts'": lambda description: description.update(merged={"parts": 1}),
}


FAULTS = [
    *(({"row": change}, "rows.jsonl:1 is not a row of a run", fault) for fault, change in ROWS.items()),
    *(({"description": change}, "run.json is damaged", fault) for fault, change in DESCRIPTIONS.items()),
]


@pytest.mark.parametrize(("changed", "said", "fault"), FAULTS, ids=[fault for *_, fault in FAULTS])
def test_what_no_run_writes_is_refused_by_every_reader(changed, said, fault, run, original, tmp_path):
    folder = run(**changed)
    for read in (
        lambda: summarise(folder),
        lambda: compare_runs([folder, original]),
        lambda: write_report([folder], tmp_path / "r.html"),
    ):
        with pytest.raises(UserError, match=said) as caught:
            read()
        assert fault in str(caught.value)
    assert not (tmp_path / "r.html").exists()


def test_a_run_comes_back_unchanged(original):
    lines = [json.loads(line) for line in (original / "rows.jsonl").read_text().splitlines()]
    assert read_rows(original) == lines
    assert read_run(original) == json.loads((original / "run.json").read_text())


def test_a_row_of_an_older_run_gets_what_it_lacks(run):
    folder = run(row=lambda row: [row.pop(name) for name in ("hops", "seconds", "cited_passages")])
    row = read_rows(folder, complete=True)[0]
    assert (row["hops"], row["seconds"], row["cited_passages"]) == ([], 0, [])


@pytest.mark.parametrize("line", ['{"calls": "3"}', '{"judging": {"calls": []}}', "[]", '{"wait_seconds": -1}'])
def test_a_line_of_costs_that_no_run_writes_is_refused(line, run):
    folder = run()
    (folder / "costs.jsonl").write_text(line + "\n")
    with pytest.raises(UserError, match=r"costs.jsonl:1 is not a row of a run"):
        summarise(folder)


def test_deep_nesting_in_a_row_is_refused(run, original):
    folder = run()
    (folder / "rows.jsonl").write_bytes(b'{"id": "q", "details": ' + b"[" * 50_000 + b"\n")
    with pytest.raises(UserError, match=r"rows.jsonl:1 is not a row"):
        read_rows(folder)
