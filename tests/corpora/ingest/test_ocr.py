"""Scanned pages: named with the cure, or recognized."""

import importlib.util
from types import SimpleNamespace

import pytest

from corpora.ingest import ocr
from corpora.ingest.formats import ReadSettings
from corpora.ingest.pdf import read_pdf
from signatures.common.errors import UserError
from tests.corpora.ingest.make_office import scanned_pdf

has_rapidocr = importlib.util.find_spec("rapidocr") is not None


@pytest.fixture
def engine(monkeypatch):
    """An engine that finds the same boxes on every page."""
    boxes = [[[100, 10], [200, 10], [200, 30], [100, 30]], [[10, 12], [90, 12], [90, 31], [10, 31]],
             [[10, 50], [90, 50], [90, 70], [10, 70]], [[10, 90], [90, 90], [90, 99], [10, 99]]]  # fmt: skip
    found = SimpleNamespace(
        boxes=boxes, txts=("the right.", "On", "Second line.", "noise"), scores=(0.9, 0.9, 0.8, 0.1)
    )
    monkeypatch.setattr(ocr, "_engine", lambda: lambda picture: found)
    return found


def _mixed(make_pdf) -> bytes:
    import pypdfium2

    whole, part = pypdfium2.PdfDocument(make_pdf([["Text."]])), pypdfium2.PdfDocument(scanned_pdf(make_pdf([["x"]])))
    whole.import_pages(part)
    whole.import_pages(pypdfium2.PdfDocument(make_pdf([[]])))
    import io

    buffer = io.BytesIO()
    whole.save(buffer)
    return buffer.getvalue()


def test_scanned_pages_are_counted_and_named_with_the_cure(make_pdf):
    document = read_pdf(_mixed(make_pdf))
    scanned, empty = document.notes
    assert "1 of its 3 pages are pictures without text (page 2)" in scanned
    assert "--ocr (pip install 'verihop[ocr]')" in scanned
    assert empty == "1 of its 3 pages have no text"
    with pytest.raises(UserError, match="--ocr"):
        read_pdf(scanned_pdf(make_pdf([["x"]])))


def test_recognized_lines_are_read_from_top_to_bottom_with_their_page(make_pdf, engine):
    (section,) = read_pdf(_mixed(make_pdf), ocr=True).sections
    assert [(paragraph.text, paragraph.page) for paragraph in section.paragraphs] == [
        ("Text.", 1),
        ("On the right. Second line.", 2),
    ]


def test_a_page_on_which_nothing_is_recognized_is_named(make_pdf, engine):
    engine.boxes = None
    (scanned, _) = read_pdf(_mixed(make_pdf), ocr=True).notes
    assert "no text was recognized" in scanned


def test_a_missing_package_is_one_line_with_its_cure(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"--ocr needs packages.*rapidocr.*pip install 'verihop\[ocr\]'"):
        ReadSettings(ocr=True)
    with pytest.raises(UserError, match=r"--reader docling needs .*pip install 'verihop\[docling\]'"):
        ReadSettings(reader="docling")
    with pytest.raises(UserError, match="Unknown reader 'doclin'"):
        ReadSettings(reader="doclin")


@pytest.mark.slow
@pytest.mark.skipif(not has_rapidocr, reason="needs the extra [ocr]")
def test_a_scanned_page_is_recognized(make_pdf):
    lines = ["The lamp of Tolmen was lit in 1871.", "It burns oil of seeds."]
    (section,) = read_pdf(scanned_pdf(make_pdf([lines])), ocr=True).sections
    assert " ".join(paragraph.text for paragraph in section.paragraphs) == " ".join(lines)
