"""docling: what its document has becomes ours. Its models cannot be had in tests, so a double stands for it."""

import sys
from types import ModuleType, SimpleNamespace

import pytest

from corpora.ingest import docling_reader
from corpora.ingest.formats import ReadSettings, read_document
from signatures.common.errors import UserError


def item(label, text="", page=1, **more):
    prov = [SimpleNamespace(page_no=page)] if page else []
    return SimpleNamespace(label=label, text=text, prov=prov, self_ref=f"#/{text}", **more)


def cell(text, row, column, header=False, columns=1):
    return SimpleNamespace(
        text=text, column_header=header, row_header=False, col_span=columns, row_span=1,
        start_row_offset_idx=row, start_col_offset_idx=column,
    )  # fmt: skip


ITEMS = [
    item("title", "The lamp"),
    item("page_header", "Tolmen"),
    item("text", "It was lit."),
    item("section_header", "Parts", 2, level=1),
    item("caption", "Table 1", 2),
    item("table", page=2, captions=[SimpleNamespace(cref="#/Table 1")], caption_text=lambda document: "Table 1",
         data=SimpleNamespace(num_rows=2, table_cells=[cell("3", 1, 1), cell("wick", 1, 0), cell("Part", 0, 0, True),
                                                       cell("Age", 0, 1, True)])),
    item("picture", page=2),
    item("list_item", "No page.", None),
]  # fmt: skip


@pytest.fixture
def docling(monkeypatch):
    """A package `docling` that finds `ITEMS` in a file of some bytes, and fails on one of none."""
    given = []

    class DocumentConverter:
        def convert(self, source):
            given.append(source)
            if not source.stream.read():
                raise OSError("models are not there")
            return SimpleNamespace(document=SimpleNamespace(iterate_items=lambda: [(each, 0) for each in ITEMS]))

    package, models, converter = (ModuleType(name) for name in ("docling", "base_models", "document_converter"))
    models.DocumentStream = lambda name, stream: SimpleNamespace(name=name, stream=stream)
    converter.DocumentConverter = DocumentConverter
    package.__spec__ = SimpleNamespace(name="docling")
    for name, module in {
        "docling": package,
        "docling.datamodel": ModuleType("datamodel"),
        "docling.datamodel.base_models": models,
        "docling.document_converter": converter,
    }.items():
        monkeypatch.setitem(sys.modules, name, module)
    docling_reader._converter.cache_clear()
    yield given
    docling_reader._converter.cache_clear()


def test_items_become_headings_paragraphs_and_rows_with_pages(docling, tmp_path):
    (tmp_path / "a.pdf").write_bytes(b"x")
    document = read_document(tmp_path / "a.pdf", ReadSettings(reader="docling"))
    assert [source.name for source in docling] == ["document.pdf"]
    assert document.title == "The lamp"
    found = [(s.headings, [(p.text, p.page, p.table) for p in s.paragraphs]) for s in document.sections]
    assert found == [
        ((), [("It was lit.", 1, None)]),
        (("Parts",), [("Part: wick; Age: 3", 2, "Table 1"), ("No page.", None, None)]),
    ]


def test_its_errors_are_one_line_and_other_formats_are_ours(docling, tmp_path):
    (tmp_path / "b.docx").write_bytes(b"")
    with pytest.raises(UserError, match=r"b\.docx: docling cannot read it \(OSError: models are not there\)"):
        read_document(tmp_path / "b.docx", ReadSettings(reader="docling"))
    (tmp_path / "c.md").write_text("Text.")
    assert read_document(tmp_path / "c.md", ReadSettings(reader="docling")).sections[0].paragraphs[0].text == "Text."
