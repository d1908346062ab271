"""Document loading: a folder of text files, split into passages. Internal."""

from __future__ import annotations

import hashlib
import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langchain_core.documents import Document

__all__ = ["SUFFIXES", "chunk_id", "load_folder", "passage"]

SUFFIXES = (".md", ".markdown", ".txt")

HEADINGS = [("#" * level, f"h{level}") for level in range(1, 5)]


def load_folder(folder: str | os.PathLike[str], *, chunk_size: int = 800, chunk_overlap: int = 100) -> list[Document]:
    """Return the passages of a folder's Markdown and text files, in the order of their paths.

    Markdown is cut at its headings first, then at paragraphs, lines and words. Each passage has in its metadata
    `source` (the file's path in the folder, with `/`), `heading` (the headings above it, outermost first) and `id`.
    Empty files, hidden ones, and links that lead out of the folder are left out.

    Args:
        folder: Read with its subfolders; files end in .md, .markdown or .txt and hold UTF-8.
        chunk_size: The most characters in one passage.
        chunk_overlap: How many characters a passage may share with the one before it.

    Raises:
        ValueError: There is no such folder, it holds no text, or the sizes make no sense.
        ImportError: The extra `retrieval` is not installed.

    Warns:
        UserWarning: Files that are not UTF-8 are left out; the warning names them.
    """
    root = Path(folder).expanduser()
    if not root.is_dir():
        raise ValueError(f"there is no folder {os.fspath(folder)!r}")
    if chunk_size < 1 or not 0 <= chunk_overlap < chunk_size:
        raise ValueError(
            f"chunk_size must be 1 or more and above chunk_overlap, not chunk_size={chunk_size!r}, "
            f"chunk_overlap={chunk_overlap!r}"
        )
    found: list[Document] = []
    unreadable = []
    for path in _text_files(root):
        source = path.relative_to(root).as_posix()
        try:
            text = path.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError:
            unreadable.append(source)
            continue
        found += _passages(text, source, chunk_size=chunk_size, chunk_overlap=chunk_overlap)
    if unreadable:
        warnings.warn(f"left out, since they are not UTF-8 text: {', '.join(unreadable)}", stacklevel=2)
    if not found:
        raise ValueError(f"the folder {os.fspath(folder)!r} holds no text in files that end in {', '.join(SUFFIXES)}")
    return found


def chunk_id(source: str, text: str) -> str:
    """Return what identifies a passage: a hash of where it stands and what it says, 16 hex digits."""
    said = f"{source}\0{' '.join(text.split())}"
    return hashlib.blake2b(said.encode("utf-8", "replace"), digest_size=8).hexdigest()


def passage(text: str, heading: str) -> str:
    """Return a passage as it is indexed and measured: below its headings."""
    return f"{heading}\n{text}" if heading else text


def _text_files(root: Path) -> list[Path]:
    inside = root.resolve()

    def walk() -> Iterator[Path]:
        for parent, folders, names in os.walk(root):
            folders[:] = [name for name in folders if not name.startswith(".")]
            for name in names:
                path = Path(parent) / name
                if not name.startswith(".") and path.suffix.casefold() in SUFFIXES and path.is_file():
                    yield path

    return sorted(path for path in walk() if path.resolve().is_relative_to(inside))


def _passages(text: str, source: str, *, chunk_size: int, chunk_overlap: int) -> list[Document]:
    try:
        from langchain_text_splitters import MarkdownHeaderTextSplitter, RecursiveCharacterTextSplitter
    except ImportError as error:
        raise ImportError(f'reading a folder needs an extra: pip install "redraft[retrieval]" ({error})') from None
    from langchain_core.documents import Document

    if source.casefold().endswith(".txt"):
        sections = [Document(text)]
    else:
        sections = MarkdownHeaderTextSplitter(HEADINGS).split_text(text)
    cut = RecursiveCharacterTextSplitter(chunk_size=chunk_size, chunk_overlap=chunk_overlap)
    passages = []
    for section in sections:
        heading = " > ".join(section.metadata[key] for _, key in HEADINGS if key in section.metadata)
        for piece in cut.split_text(section.page_content):
            metadata = {"source": source, "heading": heading, "id": chunk_id(source, piece)}
            passages.append(Document(piece, metadata=metadata))
    return passages
