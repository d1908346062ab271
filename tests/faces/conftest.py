"""The shell, called as a user calls it, in an empty folder."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from redraft.faces.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@dataclass(frozen=True)
class Shown:
    """What a command printed, and the code that it ended with."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Shown]:
    """Call `redraft` with words as the shell would have split them."""
    monkeypatch.chdir(tmp_path)
    for name in ("REDRAFT_MODEL", "REDRAFT_DB", "REDRAFT_DEBUG"):
        monkeypatch.delenv(name, raising=False)

    def call(*words: str) -> Shown:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(words)
        shown = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return Shown(ended.value.code, shown.out, shown.err)

    return call


@pytest.fixture
def scripted(tmp_path: Path) -> Callable[..., str]:
    """Write a script of replies; its spec."""
    written = 0

    def write(*replies: str | dict[str, Any]) -> str:
        nonlocal written
        written += 1
        path = tmp_path / f"replies-{written}.jsonl"
        path.write_text("".join(json.dumps(reply) + "\n" for reply in replies), encoding="utf-8")
        return f"scripted:{path}"

    return write
