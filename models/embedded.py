"""Embedded GGUF model. Internal.

Served inside this process by llama.cpp, on a loopback port that only this process can use.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import os
import secrets
import socket
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from .control_tokens import gguf_control_tokens

__all__ = ["EmbeddedServer", "require_llama", "serve_gguf"]

SYSTEM_PACKAGES = {"libgomp.so.1": ("libgomp1", "libgomp"), "libstdc++.so.6": ("libstdc++6", "libstdc++")}
"""What xllamacpp's wheels for Linux don't bring along: the package of each library on Debian, and elsewhere."""


@dataclass(frozen=True)
class EmbeddedServer:
    """Address of a served model, and the key that it wants (kept out of `repr`)."""

    base_url: str
    api_key: str = field(repr=False)
    model_name: str
    control_tokens: tuple[str, ...] = ()


class Settings(NamedTuple):
    """How a model runs, by the environment variables `REDRAFT_LOCAL_SLOTS`, …."""

    slots: int = 2
    context: int = 4096
    cache_mb: int = 512
    threads: int = 0
    """0: as many as there are idle cores when it starts."""

    @classmethod
    def given(cls) -> Settings:
        """Return the settings from the environment.

        Raises:
            ValueError: A number makes no sense.
        """
        found = {}
        for setting in cls._fields:
            name = f"REDRAFT_LOCAL_{setting.upper()}"
            if given := os.environ.get(name, "").strip():
                if not (given.isascii() and given.isdecimal() and len(given) <= 6 and int(given)):
                    raise ValueError(f"{name} must be a whole number from 1 to 999999, not {given[:40]!r}")
                found[setting] = int(given)
        return cls(**found)


_lock = threading.Lock()
_servers: dict[tuple[Path, Settings], tuple[EmbeddedServer, Any]] = {}


def serve_gguf(path: str | os.PathLike[str], *, model_name: str | None = None) -> EmbeddedServer:
    """Return the server of one GGUF file, started at its first use and shared by the whole process until it ends.

    It listens on a free port of 127.0.0.1, wants a random key, lets no web page read its answers, and prints nothing.
    Environment variables say how it runs: `REDRAFT_LOCAL_SLOTS` (2) is how many calls are answered at once, each with
    memory for a context of its own and the last prompt in it, so that writer and critic don't push each other's out;
    `REDRAFT_LOCAL_CONTEXT` (4096) the tokens of each, prompt and reply together; `REDRAFT_LOCAL_CACHE_MB` (512) the
    memory for prompts that were pushed out, so that several runs at once find theirs again; `REDRAFT_LOCAL_THREADS`
    those that compute, by default as many as there are idle cores when it starts, and never all that there are.

    Args:
        path: The GGUF file.
        model_name: The name it answers to; the file's name in lower case when not given.

    Raises:
        ValueError: There is no such file, or it is no GGUF model that llama.cpp can load; or a setting makes no sense.
        ImportError: `xllamacpp` is not installed.
    """
    file = Path(path).expanduser().resolve()
    if not file.is_file():
        raise ValueError(f"no GGUF file at {str(path)!r}")
    with file.open("rb") as start:
        if start.read(4) != b"GGUF":
            raise ValueError(f"{str(path)!r} is not a GGUF file: it does not begin with the bytes b'GGUF'")
    require_llama()
    settings = Settings.given()
    with _lock:
        # Under the lock, so that two threads don't load one model twice.
        key = (file, settings)
        if key not in _servers:
            _servers[key] = _start(file, settings, name=model_name or file.stem.lower())
        return _servers[key][0]


def require_llama() -> None:
    """Raise ImportError unless `xllamacpp` can be loaded; the message says what to install."""
    if importlib.util.find_spec("xllamacpp") is None:
        raise ImportError(
            'a model inside the process needs an extra: pip install ".[local]" in a checkout', name="xllamacpp"
        )
    try:
        import xllamacpp  # noqa: F401  # a wheel that is there may need a library of the system that is not
    except ImportError as error:
        missing = next((library for library in SYSTEM_PACKAGES if library in str(error)), None)
        if missing is None:
            raise
        debian, others = SYSTEM_PACKAGES[missing]
        raise ImportError(
            f"a model inside the process needs {missing}, which this machine does not have. As root: apt-get install "
            f"{debian} (Debian, Ubuntu), or dnf install {others} (Fedora)",
            name="xllamacpp",
        ) from error


def _start(file: Path, settings: Settings, *, name: str) -> tuple[EmbeddedServer, Any]:
    import xllamacpp

    api_key = secrets.token_urlsafe(32)
    params = xllamacpp.CommonParams()
    params.model.path = str(file)
    params.model_alias = {name}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [api_key]
    # By default any web page's origin is echoed back as allowed. An empty one equals no origin at all.
    params.cors_origins, params.cors_origins_explicit, params.cors_credentials = "", True, False
    params.cors_methods = params.cors_headers = ""
    params.ui = params.endpoint_slots = params.endpoint_props = params.endpoint_metrics = False
    params.verbosity = 0
    params.n_ctx = settings.context * settings.slots  # llama.cpp divides what it is given among its slots
    params.n_parallel = settings.slots
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = settings.threads or _idle_cores()
    params.cache_ram_mib = settings.cache_mb
    # How often it looks whether a caller has gone, in seconds; the default of 30 is how long an exit could hang.
    params.sse_ping_interval = 1
    try:
        server = xllamacpp.Server(params)
    except RuntimeError as error:
        raise ValueError(
            f"llama.cpp can't load {str(file)!r}: the file is damaged or cut short, or its architecture is not known"
        ) from error
    if not _servers:
        atexit.register(_stop_all)
    tokens = gguf_control_tokens(file)
    return EmbeddedServer(f"{server.listening_address}/v1", api_key, model_name=name, control_tokens=tokens), server


def _idle_cores() -> int:
    """Return the number of idle cores, by the load of the last minute: at least one, and never all of them."""
    # Its threads wait for the slowest at each step: with every core taken, generation on a busy two-core machine fell
    # from 12 tokens a second to 0.1, and the load may come after the start.
    count = getattr(os, "process_cpu_count", None)
    if count is not None:
        cores = count()
    else:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    cores = cores or 1
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return max(1, min(cores - 1, round(cores - load)))


def _stop_all() -> None:
    """Stop the servers while Python still works: one destroyed later, in mid-answer, is a segmentation fault."""
    with _lock:
        _hang_up({int(server.base_url.rsplit(":", 1)[1].removesuffix("/v1")) for server, _ in _servers.values()})
        _servers.clear()


def _hang_up(ports: set[int]) -> None:
    """End this process's connections to its own servers; an answer still being waited for would block their end."""
    # First what listens, so that no call of another thread begins after the others have been ended.
    for address in (socket.socket.getsockname, socket.socket.getpeername):
        try:
            descriptors = [int(name) for name in os.listdir("/dev/fd")]
        except OSError:
            return
        for descriptor in descriptors:
            # A duplicate, since closing a socket object closes its descriptor, which is the client's.
            with contextlib.suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as end:
                place = address(end)
                if isinstance(place, tuple) and place[0] == "127.0.0.1" and place[1] in ports:
                    end.shutdown(socket.SHUT_RDWR)
