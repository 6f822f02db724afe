"""The table of the programs that `verihop programs` shows without importing them."""

import json

from programs import listing


def test_the_table_is_that_of_the_programs() -> None:
    now = json.loads(json.dumps(listing.described()))
    assert listing.listed() == now, "programs/catalog.json is out of date: run python -m programs.listing"


def test_the_table_is_written_as_it_is_read(tmp_path, monkeypatch) -> None:
    committed = listing.TABLE.read_bytes()
    monkeypatch.setattr(listing, "TABLE", tmp_path / "catalog.json")
    listing.write()
    assert (tmp_path / "catalog.json").read_bytes() == committed


def test_every_knob_and_algorithm_is_described() -> None:
    for name, row in listing.listed().items():
        steps = [step.partition(". ")[0] for step in row["algorithm"] if step[0].isdigit()]
        assert steps == [str(number) for number in range(1, len(steps) + 1)], name
        assert row["algorithm"], name
        assert [knob for knob, about in row["knobs"].items() if not about["meaning"]] == [], name
