"""Manuals of Debian packages that exist as text, PDF and HTML: the text says what an extractor should find."""

import gzip
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from signatures.common.errors import UserError

PACKAGES = ("developers-reference", "debian-policy", "debian-faq", "maint-guide")
_NO_CONTENT = ("genindex", "search", "license", "developers-reference")  # the last is all pages in one


@dataclass(frozen=True)
class Manual:
    """One manual; paths are below the folder into which the packages were unpacked, without `.gz`.

    Args:
        name: For the table.
        text: Plain text.
        pdf: The same as PDF.
        pages: Folder and pattern of its HTML; None if it has none.
    """

    name: str
    text: str
    pdf: str
    pages: tuple[str, str] | None = None


_DOC = "usr/share/doc"
_REFERENCE = "usr/share/developers-reference"
MANUALS = (
    Manual(
        "Developer's Reference",
        f"{_REFERENCE}/developers-reference.txt",
        f"{_REFERENCE}/developers-reference.pdf",
        (_REFERENCE, "*.html"),
    ),
    Manual(
        "Policy Manual",
        f"{_DOC}/debian-policy/policy.txt",
        f"{_DOC}/debian-policy/policy.pdf",
        (f"{_DOC}/debian-policy/policy.html", "*.html"),
    ),
    Manual(
        "FAQ",
        f"{_DOC}/debian/FAQ/debian-faq.en.txt",
        f"{_DOC}/debian/FAQ/debian-faq.en.pdf",
        (f"{_DOC}/debian/FAQ", "*.en.html"),
    ),
    Manual("Filesystem Hierarchy", f"{_DOC}/debian-policy/fhs/fhs-3.0.txt", f"{_DOC}/debian-policy/fhs/fhs-3.0.pdf"),
    Manual(
        "Maintainers' Guide",
        f"{_DOC}/maint-guide/maint-guide.en.txt",
        f"{_DOC}/maint-guide/maint-guide.en.pdf",
        (f"{_DOC}/maint-guide/html", "*.en.html"),
    ),
)


def read_file(folder: Path, name: str) -> bytes:
    """Return the content of a file of a package, which Debian may have compressed.

    Raises:
        UserError: The packages were not unpacked into `folder`.
    """
    path, packed = folder / name, folder / f"{name}.gz"
    if path.is_file():
        return path.read_bytes()
    if packed.is_file():
        return gzip.decompress(packed.read_bytes())
    raise UserError(
        f"{path} is missing: unpack the Debian packages {', '.join(PACKAGES)} there "
        "(`apt-get download PACKAGE`, then `dpkg -x FILE.deb FOLDER`)."
    )


def read_pages(folder: Path, pages: tuple[str, str]) -> list[bytes]:
    """Return the HTML pages of a manual, without indexes and pages of searches."""
    files = sorted((folder / pages[0]).glob(pages[1]))
    return [file.read_bytes() for file in files if file.stem.split(".")[0] not in _NO_CONTENT]


def as_docx(page: bytes, folder: Path) -> tuple[bytes, str] | None:
    """Return an HTML page as Word document and as text, both by pandoc; None if it is not installed."""
    if shutil.which("pandoc") is None:
        return None
    made = folder / "page.docx"
    command = ["pandoc", "--quiet", "--from", "html"]
    subprocess.run([*command, "--to", "docx", "--output", made], input=page, check=True)
    plain = subprocess.run([*command, "--to", "plain", "--wrap=none"], input=page, check=True, capture_output=True)
    return made.read_bytes(), plain.stdout.decode()
