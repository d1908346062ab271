"""PostgreSQL servers for tests, on loopback: each ends with the last process that uses it, however that one ended.

A keeper starts the server and holds a socket that every user of the server is connected to. The kernel closes a
connection with its process, so a test run that is killed leaves no server behind. This file is the keeper's program
too.
"""

from __future__ import annotations

import fcntl
import os
import pwd
import secrets
import selectors
import shutil
import socket
import subprocess
import sys
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SOCKET = "keeper"
SETTINGS = {  # nothing here outlives the tests, so that no time goes into keeping it
    "fsync": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_connections": "300",
}


@dataclass(frozen=True)
class Server:
    """A server that runs as long as this connection to its keeper is open."""

    url: str
    connection: socket.socket

    def restart(self) -> None:
        """Restart it as a crash does: no session is ended in order, and it recovers from its log."""
        self.connection.sendall(b"restart\n")
        assert self.connection.recv(100) == b"restarted\n"


def missing() -> str | None:
    """Return why no server can be started here, or None."""
    try:
        import langgraph.checkpoint.postgres  # noqa: F401
    except ImportError as error:
        return f"the postgres extra is not installed ({error})"
    return None if _binaries() else "PostgreSQL is not installed (no initdb found)"


@contextmanager
def started(*, durable: bool = False) -> Iterator[Server]:
    """Start a server of one's own, which ends with the block.

    Args:
        durable: Keep what was committed over a restart.
    """
    server = _start(Path(tempfile.mkdtemp(prefix="redraft-pg-")), durable=durable)
    with server.connection:
        yield server
        server.connection.shutdown(socket.SHUT_WR)
        server.connection.recv(100)  # until it has ended


@contextmanager
def joined(folder: Path) -> Iterator[Server]:
    """Use the server that belongs to a folder, for all processes that name it; the first of them starts it."""
    with (folder / "postgres.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        place = folder / "postgres"
        server = _connect(Path(place.read_text())) if place.exists() else None
        if server is None:
            home = Path(tempfile.mkdtemp(prefix="redraft-pg-"))
            server = _start(home, durable=False)
            place.write_text(str(home))
    with server.connection:
        yield server


def _start(home: Path, *, durable: bool) -> Server:
    connection = socket.socket(socket.AF_UNIX)
    with socket.socket(socket.AF_UNIX) as listener, (home / "keeper.log").open("w") as log:
        listener.bind(str(home / SOCKET))
        listener.listen(100)
        connection.connect(str(home / SOCKET))  # before the keeper starts: it never waits for a user who is dead
        subprocess.run(
            [sys.executable, __file__, str(home), str(listener.fileno()), "on" if durable else "off"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=[listener.fileno()],
            check=True,
        )
    if not (url := connection.recv(1000)):
        connection.close()
        raise RuntimeError((home / "keeper.log").read_text())
    return Server(url.decode(), connection)


def _connect(home: Path) -> Server | None:
    """Join the server in `home`; None where its keeper has ended or is about to."""
    connection = socket.socket(socket.AF_UNIX)
    with suppress(OSError):
        connection.connect(str(home / SOCKET))
        if url := connection.recv(1000):
            return Server(url.decode(), connection)
    connection.close()
    return None


def _binaries() -> Path | None:
    """Where Debian keeps the newest server's programs, or where PATH finds them."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda found: int(found.parts[-3]))
    found = str(debian[-1]) if debian else shutil.which("initdb")
    return Path(found).resolve().parent if found else None


def keep(home: Path, listener: socket.socket, synchronous_commit: str) -> None:
    """Start a server in `home`, and stop it once nobody is connected to `listener` any more."""
    binaries = _binaries()
    assert binaries is not None
    as_user = _unprivileged()
    if as_user:
        shutil.chown(home, as_user["user"])

    def run(program: str, *arguments: str) -> None:
        # into a file: the server keeps what it is started with open, and a pipe would never end
        subprocess.run([str(binaries / program), *arguments], cwd=home, check=True, **as_user)

    def control(verb: str, port: int) -> None:
        settings = {"listen_addresses": "127.0.0.1", "port": port, "unix_socket_directories": home, **SETTINGS}
        settings["synchronous_commit"] = synchronous_commit
        options = " ".join(f"-c {name}={value}" for name, value in settings.items())
        run("pg_ctl", verb, "-D", str(home / "data"), "-m", "immediate", "-o", options, "-l", str(home / "log"), "-w")

    try:
        run("initdb", "-D", str(home / "data"), "-U", "redraft", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "-N")
        for tries_left in reversed(range(5)):
            # None that the kernel gives to a client, who would have it while the server is started again.
            port = 20_000 + secrets.randbelow(12_000)
            try:
                control("restart", port)
                break
            except subprocess.CalledProcessError:  # somebody has it
                if not tries_left:
                    raise
        try:
            _attend(
                listener, f"postgresql://redraft@127.0.0.1:{port}/postgres".encode(), lambda: control("restart", port)
            )
        finally:
            control("stop", port)
    finally:
        print(*(path.read_text() for path in home.glob("log")))
        shutil.rmtree(home, ignore_errors=True)


def _attend(listener: socket.socket, url: bytes, restart: Callable[[], None]) -> None:
    """Tell each who connects the URL, restart the server when one of them says so, and return when all have left."""
    with selectors.DefaultSelector() as selector:
        selector.register(listener, selectors.EVENT_READ)
        users = 0
        while True:
            for key, _ in selector.select():
                if key.fileobj is listener:
                    user = listener.accept()[0]
                    user.sendall(url)
                    selector.register(user, selectors.EVENT_READ)
                    users += 1
                    continue
                user = cast("socket.socket", key.fileobj)
                if _heard(user):
                    restart()
                    user.sendall(b"restarted\n")
                else:
                    selector.unregister(user)
                    users -= 1
                    if not users:
                        listener.close()
                        return


def _heard(user: socket.socket) -> bytes:
    try:
        return user.recv(100)
    except ConnectionError:
        return b""


def _unprivileged() -> dict[str, Any]:
    """Whom to run PostgreSQL as when we are root, which it refuses, as arguments of `subprocess.run`."""
    if os.geteuid() != 0:
        return {}
    names = {entry.pw_name for entry in pwd.getpwall()}
    user = pwd.getpwnam("postgres" if "postgres" in names else "nobody")
    return {"user": user.pw_name, "group": user.pw_gid, "extra_groups": []}


if __name__ == "__main__":
    if os.fork():
        os._exit(0)  # who started this is no parent that must wait for it
    os.setsid()  # Ctrl-C is for the tests, which need the server until they have ended
    keep(Path(sys.argv[1]), socket.socket(fileno=int(sys.argv[2])), sys.argv[3])
