"""Files of a deep agent as parts of its answers. Internal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from ..writing.prompt_injection import fence, opens_part

__all__ = ["files_in", "restored", "with_files"]


def files_in(state: Mapping[str, Any], patterns: Sequence[str]) -> dict[str, Any]:
    """Return the files in an agent's state whose paths fit a pattern, by path."""
    files: Mapping[str, Any] = state.get("files") or {}
    return {path: files[path] for path in sorted(files) if any(fnmatchcase(path, one) for one in patterns)}


def with_files(answer: str, files: Mapping[str, Any]) -> str:
    """Return an answer with files after it, each under its path."""
    return "\n\n".join([answer, *(f"{FILE.format(path=path)}\n{_content(file)}" for path, file in files.items())])


def restored(now: Mapping[str, Any], then: Mapping[str, Any]) -> dict[str, Any]:
    """Return the update of an agent's files that brings back those of an earlier draft; `None` takes one away."""
    return {path: then.get(path) for path in {**now, **then} if now.get(path) != then.get(path)}


def _content(file: Any) -> str:
    """Return the text of a file, which deepagents keeps as lines or whole."""
    content = file.get("content", "") if isinstance(file, Mapping) else file
    text = "\n".join(map(str, content)) if isinstance(content, list) else str(content)
    return fence(text) if opens_part(text, [FILE.partition("{")[0].strip()]) else text


FILE = "(The file {path}:)"
