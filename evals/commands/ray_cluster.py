"""Ray cluster of an evaluation: one that is there, or one on this machine for as long as it takes. Internal."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["ray_cluster"]


@contextmanager
def ray_cluster(address: str | None, *, workers: int) -> Iterator[None]:
    """Connect this process to Ray within the block. Nothing is reported to anyone.

    A cluster that is started here ends with the block; of one that was there, only the connection does. Workers on this
    machine inherit the environment and with it the models' keys; on a cluster, each machine has its own.

    Args:
        address: `HOST:PORT` of a cluster's head, or `auto` for the one that this machine belongs to; `None` starts one
            here, reachable from here only.
        workers: How many processes a cluster that is started here is to have room for.

    Raises:
        ImportError: The extra `ray` is not installed.
        ConnectionError: There is no cluster at `address`, or none can be started.
        ValueError: `address` is none.
    """
    if address is not None:
        _check_address(address)
    os.environ.update(SETTINGS)
    try:
        import ray
    except ImportError as error:
        raise ImportError(f'--engine ray needs an extra: pip install ".[ray]" in a checkout ({error})') from None
    if ray.is_initialized():
        yield
        return
    local: dict[str, Any] = {"num_cpus": workers, "include_dashboard": False, "object_store_memory": OBJECT_STORE_BYTES}
    here = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(address or "local", logging_level=logging.ERROR, log_to_driver=False, **({} if address else local))
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        ray.shutdown()
        what = f"can't reach a Ray cluster at {address!r}" if address else "can't start Ray here"
        raise ConnectionError(f"{what}: {' '.join(str(error).split())[:500]}") from None
    finally:
        if here:
            # Ray's own would end the process at once.
            signal.signal(signal.SIGTERM, before)
    # Ray prints about a worker that it starts again to standard output, whatever it is told about logs.
    printing = vars(ray._private.worker)
    printing["_worker_logs_enabled"] = False
    try:
        yield
    finally:
        ray.shutdown()
        printing["_worker_logs_enabled"] = True


def _check_address(address: str) -> None:
    """Raise ConnectionError unless a server listens at the address: Ray itself tries for minutes."""
    if address == "auto":
        return
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdecimal() or int(port) > LAST_PORT:
        raise ValueError(f"a Ray cluster is named HOST:PORT (of its head, port 6379) or auto, not {address!r}")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_TIMEOUT_S).close()
    except OSError as error:
        raise ConnectionError(f"can't reach a Ray cluster at {address!r}: {error}") from None


SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # Else what a worker raises is printed, and then raised here once more.
    "RAY_IGNORE_UNHANDLED_ERRORS": "1",
    # Else under `uv run` Ray would upload the working folder to the cluster.
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
}
"""Read by Ray when it is imported."""

OBJECT_STORE_BYTES = 100 * 2**20
"""Little is shared: the problems. By default it is a third of the memory."""

CONNECT_TIMEOUT_S = 10
LAST_PORT = 65535
