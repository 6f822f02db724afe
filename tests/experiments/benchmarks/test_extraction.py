"""The comparison of extractors: its figures, and a run on a small manual of its own."""

import gzip
import json

import pytest

from experiments.benchmarks.extraction import __main__ as extraction
from experiments.benchmarks.extraction.manuals import Manual, read_file, read_pages
from signatures.common.errors import UserError


def test_figures_are_those_of_runs_of_three_words():
    wanted = extraction.runs_of_words("The lamp burns oil. Oil is light.")
    assert extraction.overlap(wanted, wanted) == {"precision": 100.0, "recall": 100.0, "f1": 100.0}
    assert extraction.runs_of_words("the lamp bur-\nns oil, oil is li\ufffeght") == wanted
    found = extraction.runs_of_words("Menu. The lamp burns oil")  # menu the lamp, the lamp burns, lamp burns oil
    assert extraction.overlap(found, wanted) == {"precision": 66.7, "recall": 40.0, "f1": 50.0}
    assert extraction.overlap(extraction.runs_of_words(""), wanted)["f1"] == 0.0


def test_a_manual_is_measured_in_each_format_and_errors_are_rows(tmp_path, monkeypatch):
    (tmp_path / "html").mkdir()
    (tmp_path / "html" / "a.html").write_text("<p>The lamp burns oil and gives light.</p>")
    (tmp_path / "html" / "search.html").write_text("<p>Search</p>")
    (tmp_path / "m.txt.gz").write_bytes(gzip.compress(b"The lamp burns oil and gives light."))
    (tmp_path / "m.pdf").write_bytes(b"broken")
    manual = Manual("Lamps", "m.txt", "m.pdf", ("html", "*.html"))
    assert len(read_pages(tmp_path, manual.pages)) == 1
    monkeypatch.setattr(extraction, "MANUALS", (manual,))
    monkeypatch.setattr("shutil.which", lambda _: None)
    extraction.main(tmp_path, tmp_path / "out.json")
    rows = {(row["format"], row["extractor"]): row for row in json.loads((tmp_path / "out.json").read_text())["rows"]}
    assert rows["HTML", "verihop (inscriptis)"]["f1"] == 100.0
    assert "cannot be read as PDF" in rows["PDF", "verihop (pypdfium2)"]["error"]
    assert not [key for key in rows if key[0] == "DOCX"]
    with pytest.raises(UserError, match="unpack the Debian packages"):
        read_file(tmp_path, "gone.txt")
