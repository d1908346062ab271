"""Document loading: a folder, a file or a web page, split into passages that know where they stand. Internal."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import tempfile
import time
import unicodedata
import warnings
from collections import Counter, defaultdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from .converters import CONVERTED, MOST_BYTES, UnreadableError
from .cutting import CODE, TEXT, BusyError, pieces_of

if TYPE_CHECKING:
    from langchain_core.documents import Document

__all__ = [
    "MOST_CHARACTERS",
    "MOST_SECONDS",
    "SUFFIXES",
    "DocumentReader",
    "LeftOut",
    "chunk_id",
    "is_url",
    "load_folder",
    "load_page",
    "passage",
    "readable_files",
    "shown",
]

MARKDOWN = (".markdown", ".md", ".mdown", ".mdx", ".mkd", ".myst", ".qmd", ".rmd")
SUFFIXES = tuple(sorted({*MARKDOWN, *TEXT, ".rst", *CODE, *CONVERTED}))
"""File endings that are read; "" stands for a name without an ending."""
KINDS = "Markdown, text, reStructuredText, HTML, PDF, Word (.docx), notebooks and source code"

MADE_BY_TOOLS = ("__pycache__", "node_modules")
MOST_SECONDS = 600.0
"""Of reading, for all files of a folder."""
MOST_CHARACTERS = 200_000_000
"""Of the passages of a folder: some 250,000 of the usual size."""
MOST_NESTED = 100
"""Folders, one in the other."""
UNSHOWN = ("Cc", "Cs", "Zl", "Zp")
"""Categories of characters that no name may hold: control characters, stray bytes, line ends."""


class LeftOut:
    """A tally of files that were not read, by what they are."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._names: defaultdict[str, list[str]] = defaultdict(list)

    def add(self, what: str, name: str = "") -> None:
        """Count one.

        Args:
            what: Its kind, `.png` or `encrypted .pdf` say.
            name: Which it is; the first three are told.
        """
        what = shown(what)
        self.counts[what] += 1
        if name and len(self._names[what]) < 3:
            self._names[what].append(shown(name))

    def __str__(self) -> str:
        """Return `12 .png, 3 encrypted .pdf (a.pdf, b.pdf, c.pdf)`, the most frequent first."""
        entries = []
        for what, count in self.counts.most_common(20):
            names = ", ".join(self._names[what]) + (", …" if count > len(self._names[what]) else "")
            entries.append(f"{count:,} {what}" + (f" ({names})" if self._names[what] else ""))
        rest = sum(count for _, count in self.counts.most_common()[20:])
        return ", ".join([*entries, f"{rest:,} others"] if rest else entries)

    @property
    def told(self) -> str:
        """The tally as the end of a sentence; empty where nothing was left out."""
        return f"; left out: {self}" if self.counts else ""


def load_folder(
    folder: str | os.PathLike[str],
    *,
    chunk_size: int = 800,
    chunk_overlap: int = 100,
    most_seconds: float = MOST_SECONDS,
    most_characters: int = MOST_CHARACTERS,
) -> list[Document]:
    """Return the passages of a folder's documents, in the order of their paths.

    Markdown, text, reStructuredText, HTML, PDF, Word (.docx), notebooks and source code are read. They are cut at
    headings first, or at pages, or at what their programming language has, then at paragraphs, lines and words. Each
    passage has in its metadata `source` (the file's path in the folder, with `/`), `heading` (the headings above it,
    outermost first), `id`, and where they are known `page` (of a PDF, from 1) and `line` (its first, in source code).
    Empty files, hidden ones, and `__pycache__` and `node_modules` are passed over.

    Args:
        folder: Read with its subfolders.
        chunk_size: The most characters in one passage.
        chunk_overlap: How many characters a passage may share with the one before it.
        most_seconds: That reading may take; files for which no time is left are left out.
        most_characters: Of all passages; files after so many are left out.

    Raises:
        ValueError: There is no such folder, it holds no text, or the sizes make no sense.
        ImportError: The extra `retrieval` is not installed.

    Warns:
        UserWarning: Files are left out: of another kind, encrypted, damaged, too large, not text, links out of the
            folder, pipes, or under a name that is no UTF-8. One warning has them all, counted by kind.
    """
    root = Path(folder).expanduser()
    if not root.is_dir():
        raise ValueError(f"there is no folder {os.fspath(folder)!r}")
    left_out = LeftOut()
    passages: list[Document] = []
    reader = DocumentReader(
        chunk_size=chunk_size, chunk_overlap=chunk_overlap, most_seconds=most_seconds, most_characters=most_characters
    )
    for path, source in readable_files(root, left_out):
        try:
            passages += reader.passages(path, source)
        except UnreadableError as error:
            left_out.add(str(error), source)
    if not passages:
        raise ValueError(f"the folder {os.fspath(folder)!r} holds no text that can be read: {KINDS}{left_out.told}")
    if left_out.counts:
        warnings.warn(f"left out of {os.fspath(folder)}: {left_out}", stacklevel=2)
    return passages


def load_page(url: str, *, chunk_size: int = 800, chunk_overlap: int = 100) -> list[Document]:
    """Return the passages of a web page, or of a file in the web; nothing that it links to is read.

    Their metadata is that of `load_folder`, with the address as `source` and as `url`.

    Args:
        url: Its address, http or https.
        chunk_size: The most characters in one passage.
        chunk_overlap: How many characters a passage may share with the one before it.

    Raises:
        ValueError: The address is none, can't be read, or what is there is too large, of no kind that can be read, or
            without text.
        ImportError: The extra `retrieval` is not installed.
    """
    from .web_pages import fetched

    passages = DocumentReader(chunk_size=chunk_size, chunk_overlap=chunk_overlap).page(
        url, *fetched(url, known=SUFFIXES)
    )
    if not passages:
        raise ValueError(f"there is no text at {url}")
    return passages


def is_url(source: object) -> bool:
    """Return True if a source is a web address, and no path."""
    return isinstance(source, str) and source.lower().startswith(("http://", "https://"))


def chunk_id(source: str, text: str) -> str:
    """Return the id of a passage: a hash of its source and its text, 16 hex digits."""
    identity = f"{source}\0{' '.join(text.split())}"
    return hashlib.blake2b(identity.encode("utf-8", "replace"), digest_size=8).hexdigest()


def passage(text: str, heading: str) -> str:
    """Return a passage as it is indexed and measured: below its headings."""
    return f"{heading}\n{text}" if heading else text


def shown(name: str) -> str:
    """Return a name with what no line of text can hold written as an escape: bytes that are no UTF-8, line ends."""
    return "".join(
        character.encode("unicode_escape").decode() if unicodedata.category(character) in UNSHOWN else character
        for character in name
    )


def readable_files(root: Path, left_out: LeftOut) -> list[tuple[Path, str]]:
    """Return the files of a folder that are of a kind that is read, with their paths in it, in order.

    Args:
        root: The folder.
        left_out: The others are counted there, but for hidden ones.
    """
    inside = Path(os.path.realpath(root))

    def closed(error: OSError) -> None:
        left_out.add("folder that can't be opened", os.path.relpath(error.filename, root))

    files = []
    for parent, folders, names in os.walk(root, onerror=closed):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in MADE_BY_TOOLS]
        if len(Path(parent).relative_to(root).parts) >= MOST_NESTED and folders:
            left_out.add(f"folder nested over {MOST_NESTED} deep", os.path.relpath(parent, root))
            folders.clear()
        for name in sorted((*folders, *names)):
            path = Path(parent, name)
            source, suffix = path.relative_to(root).as_posix(), path.suffix.casefold()
            why = "folder" if name.startswith(".") else _no_file(path, inside)
            if why == "folder":
                continue
            if why:
                left_out.add(why, source)
            elif suffix not in SUFFIXES:
                left_out.add(suffix if len(suffix) <= 12 else "of another kind")
            elif shown(source) != source:
                left_out.add("name that is no line of UTF-8", source)
            else:
                files.append((path, source))
    return sorted(files)


def _no_file(path: Path, inside: Path) -> str:
    """Return the kind of an entry that is no regular file of the folder `inside`; empty for one that is."""
    link = path.is_symlink()
    try:
        mode = path.stat().st_mode
    except OSError as error:
        looping = "link in a circle" if error.errno == errno.ELOOP else "link to nothing"
        return looping if link else "file that can't be opened"
    if link and not Path(os.path.realpath(path)).is_relative_to(inside):
        return "link out of the folder"
    if stat.S_ISDIR(mode):
        return "folder"
    return "" if stat.S_ISREG(mode) else "pipe, socket or device"


class DocumentReader:
    """Reads files and cuts them into passages.

    Args:
        chunk_size: The most characters in one passage.
        chunk_overlap: How many characters a passage may share with the one before it.
        most_seconds: For all files together; begins no file once they are spent.
        most_characters: Of all passages together, in the same way.

    Raises:
        ValueError: The sizes make no sense.
        ImportError: The extra `retrieval` is not installed.
    """

    def __init__(
        self,
        *,
        chunk_size: int = 800,
        chunk_overlap: int = 100,
        most_seconds: float = MOST_SECONDS,
        most_characters: int = MOST_CHARACTERS,
    ) -> None:
        if chunk_size < 1 or not 0 <= chunk_overlap < chunk_size:
            raise ValueError(
                f"chunk_size must be 1 or more and above chunk_overlap, not chunk_size={chunk_size!r}, "
                f"chunk_overlap={chunk_overlap!r}"
            )
        if find_spec("langchain_text_splitters") is None:
            raise ImportError('reading a folder needs an extra: pip install ".[retrieval]" in a checkout')
        self._sizes = {"chunk_size": chunk_size, "chunk_overlap": chunk_overlap}
        self._most_seconds, self._most_characters = most_seconds, most_characters
        self._seconds, self._characters = 0.0, 0

    def passages(self, path: Path, source: str, *, suffix: str | None = None, url: str = "") -> list[Document]:
        """Return the passages of a file; none where it is empty.

        Args:
            path: Where it is.
            source: What it is called.
            suffix: Its kind, one of `SUFFIXES`; default: as its name ends.
            url: Where it came from.

        Raises:
            UnreadableError: It can't be read; the message says what it is. `BusyError`: not this time, since too much
                was read before it, say.
            ImportError: The extra `retrieval` is not installed.
        """
        from langchain_core.documents import Document

        suffix = path.suffix.casefold() if suffix is None else suffix
        kind, begun = suffix or "files without an ending", time.monotonic()
        if self._seconds >= self._most_seconds:
            raise BusyError(f"{kind} after the {self._most_seconds:g} s that reading may take (most_seconds)")
        if self._characters >= self._most_characters:
            raise BusyError(f"{kind} after the {self._most_characters:,} characters that are read (most_characters)")
        try:
            if (size := path.stat().st_size) > MOST_BYTES:
                raise UnreadableError(f"{{}} of over {MOST_BYTES // 10**6} MB")  # noqa: TRY301  # told like the others
            pieces = pieces_of(path, suffix, size, **self._sizes)
        except UnreadableError as error:
            raise type(error)(str(error).replace("{}", kind)) from None
        except ImportError as error:
            raise ImportError(
                f'reading {kind} needs an extra: pip install ".[retrieval]" in a checkout ({error})'
            ) from None
        except OSError:
            raise UnreadableError(f"{kind} that can't be opened") from None
        finally:
            self._seconds += time.monotonic() - begun
        self._characters += sum(len(piece.text) for piece in pieces)
        about = {"source": source, **({"url": url} if url else {})}
        return [
            Document(text, metadata={**about, "heading": heading, **place, "id": chunk_id(source, text)})
            for text, heading, place in pieces
        ]

    def page(self, url: str, data: bytes, suffix: str) -> list[Document]:
        """Return the passages of what was fetched from an address.

        Raises:
            ValueError: It can't be read.
        """
        with tempfile.TemporaryDirectory(prefix="redraft-") as folder:
            path = Path(folder, "page")
            path.write_bytes(data)
            try:
                return self.passages(path, url, suffix=suffix, url=url)
            except UnreadableError as error:
                raise ValueError(f"what is at {url} can't be read: {error}") from None
