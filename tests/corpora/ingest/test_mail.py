"""Messages: subject, sender, date, text or HTML, attachments that can be read, forwarded messages."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpora.ingest.formats import read_eml
from corpora.ingest.mail import read_mail
from signatures.common.errors import UserError
from tests.corpora.ingest.make_office import make_eml, make_xlsx

FROM = "From: Ansa Oss <ansa@tolmen.example>; To: Bede <bede@tolmen.example>; Date: Sun, 01 Mar 2026 10:00:00 +0100."


def shape(document):
    return [(section.headings, [paragraph.text for paragraph in section.paragraphs]) for section in document.sections]


def test_a_message_with_attachments():
    table = make_xlsx({"Parts": [["Part", "Age"], ["wick", 3]]})
    files = {"parts.xlsx": table, "photo.png": b"\x89PNG", "bad.pdf": b"no pdf"}
    document = read_eml(make_eml("Dear Bede,\n\nthe lamp is out.\n", attached=files))
    assert document.title == "The lamp"
    assert document.keys == {"from": "Ansa Oss <ansa@tolmen.example>", "date": "2026-03-01T10:00:00+01:00"}
    assert shape(document) == [
        ((), [FROM, "Dear Bede,", "the lamp is out.\n", "Attachments: parts.xlsx, photo.png, bad.pdf."]),
        (("parts.xlsx", "Parts"), ["Part: wick; Age: 3"]),
    ]
    (note,) = document.notes
    assert note.startswith("its attachment 'bad.pdf' was left out: it cannot be read as PDF")


def test_an_attachment_that_trips_up_its_library_costs_itself_only():
    def read(name, data):
        raise {"a.pdf": ZeroDivisionError("of a library"), "b.pdf": MemoryError()}[name]

    document = read_mail(make_eml("Text.", attached={"a.pdf": b"x"}), read)
    assert document.sections
    assert document.notes == (
        "its attachment 'a.pdf' was left out: it cannot be read (ZeroDivisionError: of a library)",
    )
    with pytest.raises(MemoryError):
        read_mail(make_eml("Text.", attached={"b.pdf": b"x"}), read)


def _unnamed(kind: str, body: bytes) -> bytes:
    encoded = base64.b64encode(body)
    return f"--x\nContent-Type: {kind}\nContent-Transfer-Encoding: base64\n\n".encode() + encoded + b"\n"


def test_an_attachment_without_a_file_name_is_read_by_its_content_type():
    table = make_xlsx({"Parts": [["Part", "Age"], ["wick", 3]]})
    parts = [
        ("text/plain", b"The lamp is out."),
        ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", table),
        ("image/png", b"\x89PNG"),
        ("application/pgp-signature", b"signed"),
        ("application/x-lamp", b"lamp"),
        ("text/plain", b"A second text."),
        ("application/pdf", b"no pdf"),
    ]
    body = b"".join(_unnamed(*part) for part in parts) + b"--x--\n"
    document = read_eml(_raw("multipart/mixed; boundary=x", body))
    assert shape(document)[:1] == [((), ["From: Ansa.", "The lamp is out."])]
    assert shape(document)[1:] == [
        (("attachment 1.xlsx", "Parts"), ["Part: wick; Age: 3"]),
        (("attachment 5.txt",), ["A second text."]),
    ]
    unread, damaged = document.notes
    assert unread == "its attachment 4 was left out: it has no file name, and nothing reads application/x-lamp"
    assert damaged.startswith("its attachment 'attachment 6.pdf' was left out: it cannot be read as PDF")


def test_html_and_forwarded_messages():
    inner = make_eml("Inner text.", subject="Older")
    document = read_eml(make_eml("", page="<h2>News</h2><p>It is lit.</p><script>x()</script>", forwarded=inner))
    assert shape(document) == [
        ((), [FROM]),
        (("News",), ["It is lit."]),
        (("Older",), [FROM, "Inner text.\n"]),
    ]


def _raw(kind: str, body: bytes, *headers: str) -> bytes:
    lines = "\n".join(
        ["From: Ansa", "Subject: The lamp", "MIME-Version: 1.0", f"Content-Type: {kind}", *headers, "", ""]
    )
    return lines.encode() + body


@pytest.mark.parametrize(("plain", "text"), [(b"", "It is lit."), (b" \n\n", "It is lit."), (b"Plain.", "Plain.")])
def test_html_beside_a_blank_text_is_the_body(plain, text):
    parts = b"--b\nContent-Type: text/plain\n\n%s\n--b\nContent-Type: text/html\n\n<p>It is lit.</p>\n--b--\n" % plain
    document = read_eml(_raw("multipart/alternative; boundary=b", parts))
    assert shape(document) == [((), ["From: Ansa.", text])]


@pytest.mark.parametrize("kind", ["application/octet-stream", "text/markdown"])
def test_a_message_that_is_one_attachment(kind):
    attached = 'Content-Disposition: attachment; filename="wick.md"'
    assert shape(read_eml(_raw(kind, b"It is cotton.", attached))) == [
        ((), ["From: Ansa.", "Attachments: wick.md."]),
        (("wick.md",), ["It is cotton."]),
    ]
    assert shape(read_eml(_raw("message/rfc822", make_eml("Inner.")))) == [
        ((), ["From: Ansa."]),
        (("The lamp",), [FROM, "Inner.\n"]),
    ]
    assert shape(read_eml(_raw("application/octet-stream", b"x"))) == [((), ["From: Ansa."])]


def test_messages_in_messages_end():
    message = make_eml("Text.")
    for _ in range(7):
        message = make_eml("Text.", forwarded=message)
    with pytest.raises(UserError, match="nested too deeply"):
        read_eml(message)


def test_what_is_no_message_is_refused():
    for data in (b"", b"Just text.\nOf two lines.", b"\0\1\2"):
        with pytest.raises(UserError, match="not a message"):
            read_eml(data)


@given(st.binary(max_size=60), st.sampled_from(["utf-8", "no-such", "koi8-r"]))
def test_odd_headers_and_encodings_give_text_or_one_error(data, charset):
    head = b"From: \xff" + data.replace(b"\n", b" ") + b"\nDate: never\nContent-Type: text/plain; charset="
    document = read_eml(head + charset.encode() + b"\n\nbody " + data)
    assert "body" in str(shape(document))
