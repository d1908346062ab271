"""File conversion: PDF, HTML, Word, notebooks and reStructuredText become Markdown, part by part. Internal.

What others wrote may be made to harm a reader: each file is read in a process of its own, with bounded time and memory,
by `python -m redraft.retrieval.converters`. Nothing but the standard library is imported for it, and the one
converter that the file needs.
"""

from __future__ import annotations

import codecs
import io
import json
import re
import subprocess
import sys
import threading
import zipfile
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["CONVERTED", "Converter", "Part", "UnreadableError", "decoded", "markdown_of_rst"]

MOST_SECONDS = 120.0
"""For one file; what takes longer is left out."""
MOST_MEMORY = 3 << 30
"""Bytes of address space of the process that converts."""
MOST_TEXT = 20_000_000
"""Characters of one file."""
MOST_XML = 64 << 20
"""Bytes of a Word file's XML when it is unpacked."""


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


class Converter(AbstractContextManager["Converter", None]):
    """Converts files in another process, which is started when it is first needed and again after it was ended.

    A file that takes too long, asks for too much memory or crashes its converter costs that process, and nothing else.
    For one thread at a time; used in a `with` block.

    Args:
        seconds: For one file.
    """

    def __init__(self, *, seconds: float = MOST_SECONDS) -> None:
        self._seconds = seconds
        self._process: subprocess.Popen[str] | None = None

    def __exit__(self, *_: object) -> None:
        self._end()

    def parts(self, path: Path, suffix: str) -> list[Part]:
        """Return the parts of a file.

        Args:
            path: Where it is.
            suffix: One of `CONVERTED`.

        Raises:
            UnreadableError: It can't be read.
            ImportError: Its converter is not installed.
        """
        if self._process is None:
            command = [sys.executable, "-m", __name__]
            self._process = subprocess.Popen(  # noqa: S603  # this Python, and this module
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8"
            )
        process, late = self._process, threading.Event()
        assert process.stdin is not None  # noqa: S101  # it was given a pipe
        assert process.stdout is not None  # noqa: S101  # as above

        def expire() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(self._seconds, expire)
        timer.start()
        try:
            # A process that is gone is noticed by the empty answer.
            with suppress(BrokenPipeError):
                process.stdin.write(json.dumps([str(path), suffix]) + "\n")
                process.stdin.flush()
            line = process.stdout.readline()
        finally:
            timer.cancel()
        if not line.endswith("\n"):
            self._end()
            raise UnreadableError(
                f"{{}} taking over {self._seconds:g} s" if late.is_set() else "{} crashing the converter"
            )
        answer = json.loads(line)
        if "missing" in answer:
            raise ImportError(
                f'reading {suffix} needs an extra: pip install "redraft[retrieval]" ({answer["missing"]})'
            )
        if "unreadable" in answer:
            raise UnreadableError(answer["unreadable"])
        return [Part(*fields) for fields in answer["parts"]]

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()


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
    parts, heading = [], ""
    for number in range(len(document)):
        heading = starts.get(number, heading)
        # A word that a hyphen parts at the end of a line is one word.
        text = re.sub("[\x02\ufffe]\\s*", "", document[number].get_textpage().get_text_bounded())
        parts.append(Part(text.replace("\r\n", "\n"), number + 1, heading))
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

    options = ConversionOptions(
        skip_images=True,
        strip_tags=["a"],
        exclude_selectors=["nav", "footer", "script", "style", "template", ".headerlink"],
        # It would drop a <header> with the title in it.
        preprocessing=PreprocessingOptions(enabled=False),
    )
    page = convert(text, options)
    if any(str(warning.kind) == "depth_limit_exceeded" for warning in page.warnings):
        raise UnreadableError("{} with tags nested too deeply")
    body = re.sub(r"\A---\n.*?\n---\n", "", page.content or "", count=1, flags=re.DOTALL)
    title = getattr(getattr(page.metadata, "document", None), "title", None) or ""
    return Part(body, heading="" if re.search(r"^# ", body, re.MULTILINE) else _one_line(title))


def _docx(data: bytes) -> list[Part]:
    import mammoth

    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            # What `ZipFile` unpacks of a member ends at the size that the archive says.
            size = sum(member.file_size for member in archive.infolist() if member.filename.endswith((".xml", ".rels")))
    except zipfile.BadZipFile:
        # Word's own encryption puts the archive into another container.
        raise UnreadableError("encrypted {}" if data.startswith(b"\xd0\xcf\x11\xe0") else "damaged {}") from None
    if size > MOST_XML:
        raise UnreadableError(f"{{}} unpacking to over {MOST_XML >> 20} MiB")
    # Pictures would stand in the text as base64.
    no_pictures = mammoth.images.img_element(lambda _: {})
    return [_of_html(mammoth.convert_to_html(io.BytesIO(data), convert_image=no_pictures).value)]


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
    return " ".join(text.split())


def _answered(path: str, suffix: str) -> dict[str, Any]:
    """Return the reply for a file, as JSON can hold it."""
    try:
        with open(path, "rb") as file:
            parts = CONVERTED[suffix](file.read())
    except UnreadableError as error:
        return {"unreadable": str(error)}
    except ImportError as error:
        return {"missing": str(error)}
    except MemoryError:
        return {"unreadable": "{} needing too much memory"}
    except Exception:  # a converter may raise anything over a damaged file
        return {"unreadable": "damaged {}"}
    if sum(len(part.text) for part in parts) > MOST_TEXT:
        return {"unreadable": f"{{}} of over {MOST_TEXT:,} characters"}
    return {"parts": parts}


if __name__ == "__main__":
    with suppress(ImportError, ValueError, OSError):  # not on Windows
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    answers, sys.stdout = sys.stdout, sys.stderr  # what a converter prints is no answer
    for request in sys.stdin:
        answers.write(json.dumps(_answered(*json.loads(request))) + "\n")
        answers.flush()
