"""Cutting: the parts of a file become passages that know where they stand. Internal.

It takes time that grows with the text and no faster. All but small texts are read and cut in a helper process.
"""

from __future__ import annotations

from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..nodes.runtime.killable import run_job
from .converters import CONVERTED, MOST_HEADING, Part, UnreadableError, markdown_of_rst, parts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from langchain_core.documents import Document

__all__ = ["CODE", "TEXT", "BusyError", "Piece", "pieces_of"]

TEXT = ("", ".adoc", ".asciidoc", ".org", ".text", ".txt")
"""Without an ending there are README, LICENSE and the like."""
CODE = {
    ".bash": "", ".c": "c", ".cc": "cpp", ".cfg": "", ".cjs": "js", ".cpp": "cpp", ".cs": "csharp", ".css": "",
    ".ex": "elixir", ".exs": "elixir", ".go": "go", ".h": "c", ".hpp": "cpp", ".hs": "haskell", ".ini": "",
    ".java": "java", ".jl": "", ".js": "js", ".jsx": "js", ".kt": "kotlin", ".lua": "lua", ".mjs": "js", ".php": "php",
    ".proto": "proto", ".ps1": "powershell", ".py": "python", ".pyi": "python", ".r": "", ".rb": "ruby", ".rs": "rust",
    ".scala": "scala", ".sh": "", ".sol": "sol", ".sql": "", ".swift": "swift", ".tex": "latex", ".toml": "",
    ".ts": "ts", ".tsx": "ts", ".yaml": "", ".yml": "",
}  # fmt: skip
"""Source code, with its language where the splitter knows one."""
HEADINGS = [("#" * level, f"h{level}") for level in range(1, 5)]

QUICK_BYTES = 100_000
"""A text up to this is cut in this process: a tenth of a second at most."""
MOST_CPU_S = 60.0
"""For one file, and five times that of wall time; what takes longer is left out."""
MOST_MEMORY = 1 << 30
"""Bytes of address space of the process that reads a file."""
MOST_OUTPUT = 128 << 20
"""Bytes of a file's passages."""


class Piece(NamedTuple):
    """A passage of a file, in its order."""

    text: str
    heading: str
    """The headings above it, outermost first."""
    place: dict[str, Any]
    """Its page, or its first line, where they are known."""


class BusyError(UnreadableError):
    """A file was not read this time, which says nothing about it."""


def pieces_of(path: Path, suffix: str, size: int, **sizes: int) -> list[Piece]:
    """Return the passages of a file.

    Args:
        path: Where it is.
        suffix: Its kind, as its name ends.
        size: Its bytes.
        sizes: `chunk_size` and `chunk_overlap`.

    Raises:
        UnreadableError: It can't be read.
        OSError: It can't be opened.
        ImportError: A package that it needs is not installed.
    """
    if suffix not in CONVERTED and size <= QUICK_BYTES:
        return _cut(parts_of(path, suffix), suffix, **sizes)
    job, limits = f"{__name__}:pieces_in", {"memory": MOST_MEMORY, "most_output": MOST_OUTPUT}
    try:
        answer = run_job(job, str(path.absolute()), suffix, sizes, cpu_s=MOST_CPU_S, **limits)
    except MemoryError:
        raise UnreadableError("{} needing too much memory") from None
    except ChildProcessError:
        raise UnreadableError("{} crashing its reader") from None
    except TimeoutError as error:
        if (took := str(error).removeprefix("it took ")) == str(error):
            raise BusyError(f"{{}} for which {error}") from None
        raise UnreadableError(f"{{}} taking {took}") from None
    except ValueError:
        raise UnreadableError(f"{{}} with over {MOST_OUTPUT >> 20} MiB of passages") from None
    if isinstance(answer, str):
        raise UnreadableError(answer)
    return [Piece(*fields) for fields in answer]


def pieces_in(path: str, suffix: str, sizes: dict[str, int]) -> list[Piece] | str:
    """Return the passages of a file, or why it is left out; a job of a helper process."""
    try:
        return _cut(parts_of(Path(path), suffix), suffix, **sizes)
    except UnreadableError as error:
        return str(error)


def _cut(parts: Sequence[Part], suffix: str, **sizes: Any) -> list[Piece]:
    from langchain_text_splitters import Language, MarkdownHeaderTextSplitter, RecursiveCharacterTextSplitter

    cut = RecursiveCharacterTextSplitter(**sizes)
    sections = MarkdownHeaderTextSplitter(HEADINGS)
    sections.aggregate_lines_to_chunks = _joined  # type: ignore[method-assign]
    pieces = []
    for part in parts:
        if suffix in CODE:
            make: Callable[..., RecursiveCharacterTextSplitter] = RecursiveCharacterTextSplitter
            if CODE[suffix]:
                make = partial(RecursiveCharacterTextSplitter.from_language, Language(CODE[suffix]))
            line, counted = 1, 0
            for piece in make(**sizes, add_start_index=True).create_documents([part.text]):
                # Counted from one piece to the next: pieces stand in order.
                start = max(counted, piece.metadata["start_index"])
                line, counted = line + part.text.count("\n", counted, start), start
                pieces.append(Piece(piece.page_content, part.heading, {"line": line}))
        elif suffix in TEXT or part.page is not None:
            place = {} if part.page is None else {"page": part.page}
            pieces += [Piece(text, part.heading, place) for text in cut.split_text(part.text)]
        else:
            text = markdown_of_rst(part.text) if suffix == ".rst" else part.text
            for section in sections.split_text(text):
                above = [section.metadata[key][:MOST_HEADING] for _, key in HEADINGS if key in section.metadata]
                heading = " > ".join(title for title in (part.heading, *above) if title)
                pieces += [Piece(each, heading, {}) for each in cut.split_text(section.page_content)]
    return pieces


def _joined(lines: list[Any]) -> list[Document]:
    """Return the sections of lines with the same headings; the splitter's own copies all that came before with each."""
    from langchain_core.documents import Document

    sections = groupby(lines, key=lambda line: line["metadata"])
    return [Document("  \n".join(line["content"] for line in those), metadata=above) for above, those in sections]
