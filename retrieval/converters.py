"""File conversion: PDF, HTML, Word, notebooks and reStructuredText become Markdown, part by part. Internal.

What others wrote may be made to harm a reader: files are converted, and cut, in a helper process (see
`redraft.nodes.runtime.killable`), which imports the one converter that the file needs.
"""

from __future__ import annotations

import codecs
import io
import json
import os
import re
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

__all__ = [
    "CONVERTED",
    "MOST_BYTES",
    "MOST_TEXT",
    "Part",
    "UnreadableError",
    "markdown_of_rst",
    "opened_file",
    "parts_of",
]

MOST_BYTES = 100_000_000
"""Of one file."""
MOST_TEXT = 20_000_000
"""Characters of one file."""
MOST_XML = 64 << 20
"""Bytes of a Word file's XML when it is unpacked."""
MOST_HEADING = 200
"""Characters of one: it stands in every passage below it."""


class Part(NamedTuple):
    """A piece of a file as Markdown, in the order of the file."""

    text: str
    page: int | None = None
    """Counted from 1."""
    heading: str = ""
    """The heading above it, where the text itself lacks it: a bookmark of a PDF, the title of a page."""


class UnreadableError(Exception):
    """A file can't be read; the message says how it is told, with {} for its kind: "3 encrypted .pdf"."""


def decoded(data: bytes) -> str:
    """Return text from UTF-8, or from UTF-16 that says so at its beginning.

    Raises:
        UnreadableError: It is something else.
    """
    utf16 = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) and len(data) % 2 == 0
    try:
        text = data.decode("utf-16" if utf16 else "utf-8-sig")
    except UnicodeDecodeError:
        raise UnreadableError("binary {}" if b"\0" in data[:8192] else "{} not in UTF-8") from None
    if "\0" in text:
        raise UnreadableError("binary {}")
    return text


def markdown_of_rst(text: str) -> str:
    """Return reStructuredText with its titles as Markdown's; their levels are in the order in which they first appear.

    The rest stays as it is: it is read as text, and no directive is followed.
    """
    lines, levels, converted = text.splitlines(), [], []
    position = 0
    while position < len(lines):
        over = _rule(lines[position]) and position + 2 < len(lines) and lines[position + 2] == lines[position]
        title = lines[position + over] if position + over < len(lines) else ""
        under = lines[position + over + 1] if position + over + 1 < len(lines) else ""
        if title.strip() and not _rule(title) and _rule(under) and len(under) >= len(title.strip()):
            style = under[0] * (2 if over else 1)
            if style not in levels:
                levels.append(style)
            converted.append(f"{'#' * min(levels.index(style) + 1, 6)} {title.strip()}")
            position += 2 + over
        else:
            converted.append(lines[position])
            position += 1
    return "\n".join(converted)


def _rule(line: str) -> bool:
    return re.fullmatch(r"([!-/:-@\[-`{-~])\1{2,}", line) is not None


def opened_file(path: Path) -> io.BufferedReader:
    """Open a regular file for reading, and nothing that could hold a reader up in its place.

    Raises:
        OSError: It is something else, or can't be opened.
    """
    # A pipe without a writer would block; it may stand there since somebody looked.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    file = os.fdopen(os.open(path, flags), "rb")
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    file.close()
    raise OSError(f"{path} is no regular file")


def parts_of(path: Path, suffix: str) -> list[Part]:
    """Return the parts of a file.

    Args:
        path: Where it is.
        suffix: Its kind, as its name ends; one that is not in `CONVERTED` is text.

    Raises:
        UnreadableError: It can't be read.
        OSError: It can't be opened.
        ImportError: Its converter is not installed.
    """
    with opened_file(path) as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise UnreadableError(f"{{}} of over {MOST_BYTES // 10**6} MB")
    try:
        parts = (CONVERTED[suffix](data) if suffix in CONVERTED else [Part(decoded(data))]) if data else []
    except (UnreadableError, ImportError, MemoryError):
        raise
    except Exception:  # a converter may raise anything over a damaged file
        raise UnreadableError("damaged {}") from None
    _bounded(sum(len(part.text) for part in parts))
    return parts


def _bounded(characters: int) -> None:
    if characters > MOST_TEXT:
        raise UnreadableError(f"{{}} of over {MOST_TEXT:,} characters")


def _pdf(data: bytes) -> list[Part]:
    import pypdfium2 as pdfium

    try:
        document = pdfium.PdfDocument(data)
    except pdfium.PdfiumError as error:
        raise UnreadableError("encrypted {}" if error.err_code == 4 else "damaged {}") from None
    above: list[str] = []
    starts: dict[int, str] = {}
    for bookmark in document.get_toc():
        target = bookmark.get_dest()
        above[bookmark.level :] = [_one_line(bookmark.get_title())]
        if target is not None and (page := target.get_index()) is not None:
            # The first of a page: text has no place on it by which the others could be told apart.
            starts.setdefault(page, " > ".join(title for title in above if title))
    parts, heading, characters = [], "", 0
    for number in range(len(document)):
        heading = starts.get(number, heading)
        # A word that a hyphen parts at the end of a line is one word.
        text = re.sub("[\x02\ufffe]\\s*", "", document[number].get_textpage().get_text_bounded())
        parts.append(Part(text.replace("\r\n", "\n"), number + 1, heading))
        _bounded(characters := characters + len(text))
    if not any(part.text.strip() for part in parts):
        raise UnreadableError("{} without text (scanned?)")
    return parts


def _html(data: bytes) -> list[Part]:
    try:
        text = decoded(data)
    except UnreadableError:
        # A page says its encoding at its beginning.
        charset = re.search(rb"<meta[^>]{0,200}charset=[\"']?([A-Za-z0-9_.:-]{2,40})", data[:4096], re.IGNORECASE)
        if charset is None:
            raise
        try:
            text = data.decode(charset[1].decode("ascii"))
        except (LookupError, ValueError):
            raise UnreadableError("{} in an encoding that is not known") from None
    return [_of_html(text)]


def _of_html(text: str) -> Part:
    from html_to_markdown import ConversionOptions, PreprocessingOptions, convert

    page = convert(
        text,
        ConversionOptions(
            skip_images=True,
            strip_tags=["a"],
            exclude_selectors=["nav", "footer", "script", "style", "template", ".headerlink"],
            # It would drop a <header> with the title in it.
            preprocessing=PreprocessingOptions(enabled=False),
        ),
    )
    if any(str(warning.kind) == "depth_limit_exceeded" for warning in page.warnings):
        raise UnreadableError("{} with tags nested too deeply")
    body = re.sub(r"\A---\n.*?\n---\n", "", page.content or "", count=1, flags=re.DOTALL)
    title = getattr(getattr(page.metadata, "document", None), "title", None) or ""
    return Part(body, heading="" if re.search(r"^# ", body, re.MULTILINE) else _one_line(title))


def _docx(data: bytes) -> list[Part]:
    import mammoth

    # Nothing but XML, since a part may have any name; what is unpacked of a member ends at the size that it says.
    texts, size = io.BytesIO(), 0
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive, zipfile.ZipFile(texts, "w") as kept:
            for member in archive.infolist():
                if member.filename.endswith((".xml", ".rels")):
                    size += member.file_size
                    if size > MOST_XML:
                        raise UnreadableError(f"{{}} unpacking to over {MOST_XML >> 20} MiB")
                    kept.writestr(member.filename, archive.read(member))
    except zipfile.BadZipFile:
        # Word's own encryption puts the archive into another container.
        raise UnreadableError("encrypted {}" if data.startswith(b"\xd0\xcf\x11\xe0") else "damaged {}") from None
    # Pictures would stand in the text as base64.
    no_pictures = mammoth.images.img_element(lambda _: {})
    return [_of_html(mammoth.convert_to_html(texts, convert_image=no_pictures).value)]


def _notebook(data: bytes) -> list[Part]:
    try:
        notebook = json.loads(decoded(data))
        language = notebook.get("metadata", {}).get("kernelspec", {}).get("language", "")
        cells = [(cell["cell_type"], "".join(cell["source"])) for cell in notebook["cells"]]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise UnreadableError("damaged {}") from None
    blocks = [f"```{language}\n{text}\n```" if kind == "code" else text for kind, text in cells if text.strip()]
    return [Part("\n\n".join(blocks))]


CONVERTED: dict[str, Callable[[bytes], list[Part]]] = {
    ".docx": _docx,
    ".htm": _html,
    ".html": _html,
    ".ipynb": _notebook,
    ".pdf": _pdf,
    ".xhtml": _html,
}
"""Converters by file ending; each runs in a process of its own."""


def _one_line(text: str) -> str:
    return " ".join(text.split())[:MOST_HEADING]
