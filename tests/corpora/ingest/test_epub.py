"""EPUB: chapters in reading order; protected, damaged and hostile books give one error or no text."""

import pytest

from corpora.ingest.epub import read_epub
from signatures.common.errors import UserError
from tests.corpora.ingest.make_office import make_epub

ONE = "<html><head><title>x</title></head><body><h1>One</h1><p>Ansa went to sea.</p></body></html>"
TWO = "<html><body><h1>Two</h1><table><tr><th>a<th>b<tr><td>1<td>2</table></body></html>"


def test_chapters_title_and_keys():
    document = read_epub(make_epub({"two words.xhtml": TWO, "one.xhtml": ONE}, title="The\nlamp"))
    assert (document.title, document.keys) == ("The lamp", {"author": "Ansa Oss", "language": "en"})
    assert [(section.headings, [p.text for p in section.paragraphs]) for section in document.sections] == [
        (("Two",), ["a: 1; b: 2"]),
        (("One",), ["Ansa went to sea."]),
    ]


def test_a_protected_book_is_refused_and_hidden_fonts_are_not():
    def encrypted(method: str) -> dict[str, str]:
        return {"META-INF/encryption.xml": f'<encryption><EncryptionMethod Algorithm="{method}"/></encryption>'}

    with pytest.raises(UserError, match="protected"):
        read_epub(make_epub({"1": ONE}, extra=encrypted("http://www.w3.org/2001/04/xmlenc#aes128-cbc")))
    assert read_epub(make_epub({"1": ONE}, extra=encrypted("http://www.idpf.org/2008/embedding"))).sections


@pytest.mark.parametrize(
    "extra",
    [
        {"META-INF/container.xml": ""},
        {"META-INF/container.xml": "<container/>"},
        {"OEBPS/book.opf": '<package><manifest><item id="a" href="../../../etc/passwd" media-type="text/html"/>'
         '</manifest><spine><itemref idref="a"/></spine></package>'},
    ],
)  # fmt: skip
def test_damaged_books_are_one_error(extra):
    with pytest.raises(UserError, match="damaged"):
        read_epub(make_epub({"1": ONE}, extra=extra))
    with pytest.raises(UserError, match="not a valid EPUB document"):
        read_epub(b"no archive")


def test_a_chapter_that_is_missing_or_damaged_costs_itself_only():
    items = "".join(f'<item id="{n}" href="{n}" media-type="text/html"/>' for n in ("lost", "deep", "1#top", "1#end"))
    spine = "".join(f'<itemref idref="{n}"/>' for n in ("lost", "deep", "1#top", "1#end"))
    package = f"<package><manifest>{items}</manifest><spine>{spine}</spine></package>"
    book = make_epub({"1": ONE, "deep": "<div>" * 2000 + "x"}, extra={"OEBPS/book.opf": package})
    document = read_epub(book)
    assert [[p.text for p in section.paragraphs] for section in document.sections] == [["Ansa went to sea."]]
    assert [note.split(" was left out")[0] for note in document.notes] == [
        "its chapter OEBPS/lost",
        "its chapter OEBPS/deep",
    ]
    with pytest.raises(UserError, match="none of its 2 chapters can be read: its chapter OEBPS/lost was left out"):
        read_epub(make_epub({"deep": "<div>" * 2000}, extra={"OEBPS/book.opf": package.replace('idref="1', 'idref="')}))


def test_entities_of_a_book_are_not_expanded(tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("hunter2")
    package = (
        f'<!DOCTYPE p [<!ENTITY e SYSTEM "{secret.as_uri()}"><!ENTITY l "{"ha" * 9999}">]><package xmlns:dc="d">'
        "<metadata><dc:title>T &e; &l;</dc:title></metadata><manifest>"
        '<item id="1" href="1" media-type="text/html"/></manifest><spine><itemref idref="1"/></spine></package>'
    )
    document = read_epub(make_epub({"1": ONE}, extra={"OEBPS/book.opf": package}))
    assert "hunter2" not in document.title
    assert len(document.title) < 100
