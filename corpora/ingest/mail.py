"""A message of electronic mail as a document: who wrote it when, its text, and attachments that can be read."""

import email
import email.policy
from collections.abc import Callable, Iterator
from dataclasses import replace
from email.message import EmailMessage, MIMEPart

from corpora.cut import split_paragraphs
from corpora.ingest.document import Document, Heading, Paragraph, make_document, nested
from corpora.ingest.failures import as_user_error
from corpora.ingest.html import html_blocks
from signatures.common.errors import UserError, one_line

_DEEPEST = 5  # messages in each other
_HEADERS = ("From", "To", "Cc", "Date")
_OFFICE = "application/vnd.openxmlformats-officedocument"
_SUFFIXES = {  # by content type; what Python knows of these depends on the machine
    "text/plain": ".txt",
    "text/markdown": ".md",
    "text/html": ".html",
    "application/xhtml+xml": ".xhtml",
    "application/pdf": ".pdf",
    f"{_OFFICE}.wordprocessingml.document": ".docx",
    f"{_OFFICE}.spreadsheetml.sheet": ".xlsx",
    f"{_OFFICE}.presentationml.presentation": ".pptx",
    "application/epub+zip": ".epub",
}
_SIGNATURES = ("application/pgp-signature", "application/pkcs7-signature", "application/x-pkcs7-signature")


def read_mail(data: bytes, read: Callable[[str, bytes], Document | None]) -> Document:
    """Return the document in the bytes of an `.eml` file; keys are `from` and `date`, if stated.

    An attachment without a file name is read by its content type, under a name made of its number.

    Args:
        data: The bytes.
        read: Returns the document of an attachment with this name and these bytes; None if it is of no format that can
            be read. It raises UserError if it is damaged.

    Raises:
        UserError: It has neither a subject nor a sender, or messages are nested too deeply.
    """
    message = email.message_from_bytes(data, policy=email.policy.default)
    if not isinstance(message, EmailMessage) or not any(_line(message, name) for name in ("From", "Subject", "Date")):
        raise UserError("it is not a message: it has neither a sender nor a subject")
    notes: list[str] = []
    document = make_document(_message(message, read, notes, 1), _line(message, "Subject"), _keys(message))
    return replace(document, notes=tuple(notes))


def _line(message: EmailMessage, name: str) -> str:
    """Return a header on one line, "" if there is none or it cannot be read."""
    try:
        return " ".join(str(message[name] or "").split())
    except (ValueError, LookupError, IndexError, AttributeError):  # of headers that follow no rule
        return ""


def _keys(message: EmailMessage) -> dict[str, str]:
    try:
        date = message["Date"].datetime.isoformat()
    except (ValueError, LookupError, AttributeError):
        date = _line(message, "Date")
    return {name: value for name, value in {"from": _line(message, "From"), "date": date}.items() if value}


def _message(
    message: EmailMessage, read: Callable[[str, bytes], Document | None], notes: list[str], depth: int
) -> Iterator[Heading | Paragraph]:
    if depth > _DEEPEST:
        raise UserError(f"it has messages nested too deeply (more than {_DEEPEST})")
    stated = [(name, _line(message, name)) for name in _HEADERS]
    if any(value for _, value in stated):
        yield Paragraph("; ".join(f"{name}: {value}" for name, value in stated if value) + ".")
    bodies = [body for kind in ("plain", "html") if (body := message.get_body((kind,))) is not None]
    filled = next((body for body in bodies if _text(body).strip()), None)
    if filled is not None:
        yield from _body(filled)
    alone = not bodies and message.get_content_maintype() != "multipart"  # the message itself is an attachment
    attached = [message] if alone else [part for part in message.iter_attachments() if isinstance(part, EmailMessage)]
    names = [" ".join((part.get_filename() or "").split())[:300] for part in attached]
    if any(names):
        yield Paragraph(f"Attachments: {', '.join(filter(None, names))}.")
    for number, (part, name) in enumerate(zip(attached, names, strict=True), start=1):
        yield from _attachment(part, name or _made_up(part, number, notes), read, notes, depth)


def _body(body: MIMEPart) -> Iterator[Heading | Paragraph]:
    text = _text(body)
    if body.get_content_subtype() == "html":
        yield from html_blocks(text.encode("utf-8", "replace"))
    else:
        yield from (Paragraph(part) for part in split_paragraphs(text) if part.strip())


def _text(part: MIMEPart) -> str:
    try:
        return str(part.get_content())
    except (LookupError, UnicodeError, ValueError):  # an encoding that does not exist, or does not fit
        payload = part.get_payload(decode=True)
        return payload.decode("utf-8", "replace") if isinstance(payload, bytes) else ""


def _made_up(part: EmailMessage, number: int, notes: list[str]) -> str:
    """Return a name for an attachment without one, "" if it cannot be read; pictures and signatures need no note."""
    kind = part.get_content_type()
    if kind in _SUFFIXES:
        return f"attachment {number}{_SUFFIXES[kind]}"
    if part.get_content_maintype() in ("application", "text") and kind not in _SIGNATURES:
        notes.append(
            f"its attachment {number} was left out: it has no file name, and nothing reads {one_line(kind, 80)}"
        )
    return ""


def _attachment(
    part: EmailMessage, name: str, read: Callable[[str, bytes], Document | None], notes: list[str], depth: int
) -> Iterator[Heading | Paragraph]:
    if part.get_content_type() == "message/rfc822":
        inner = part.get_content()
        if isinstance(inner, EmailMessage):
            yield Heading(1, _line(inner, "Subject") or name or "Message")
            yield from _message(inner, read, notes, depth + 1)
        return
    payload = part.get_payload(decode=True)
    if not name or not isinstance(payload, bytes):
        return
    try:
        with as_user_error():
            document = read(name, payload)
    except UserError as error:
        notes.append(f"its attachment {name!r} was left out: {error}")
        return
    if document is not None and document.sections:
        yield from nested(replace(document, title=name), 1)
        notes += [f"of its attachment {name!r}: {note}" for note in document.notes]
