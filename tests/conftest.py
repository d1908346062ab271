"""What the tests share: a throwaway PostgreSQL, a server that speaks OpenAI's protocol, and nobody's keys."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import uuid
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from hypothesis import settings

# As in our own processes, and before langgraph is imported: a checkpoint is data, and names no class to be built.
os.environ.setdefault("LANGGRAPH_STRICT_MSGPACK", "true")

# A job in the background ignores SIGINT, and so would each process that a test starts and interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

from redraft.state import open_checkpointer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from redraft.nodes.sandbox import Sandbox

# The same examples each time, and no clock. By hand, to look for more: --hypothesis-profile=long
SAME: dict[str, Any] = {"deadline": None, "database": None, "print_blob": True}
settings.register_profile("same", derandomize=True, max_examples=60, stateful_step_count=10, **SAME)
settings.register_profile("long", max_examples=3000, stateful_step_count=25, **SAME)
settings.load_profile("same")

SERVER_FILE = Path(__file__).with_name("openai_server.py")
FAULTS_FILE = Path(__file__).parents[1] / "benchmarks" / "fault_server.py"
BACKENDS = ("memory", "sqlite", "postgres")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse a case whose name holds an address in memory: each worker of a run would know it by another name."""
    if unstable := [item.nodeid for item in items if " at 0x" in item.nodeid]:
        raise pytest.UsageError(f"give these cases ids: {unstable}")


@pytest.fixture(scope="session", autouse=True)
def _state_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The tests' recipes are marked with a key of their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """URL of a PostgreSQL server where databases can be made: REDRAFT_TEST_POSTGRES, or one started for this session.

    Without PostgreSQL the test is skipped; with REDRAFT_REQUIRE_POSTGRES=1, as in CI, it fails instead.
    """
    given = os.environ.get("REDRAFT_TEST_POSTGRES")
    if given:
        yield given
        return
    missing = _missing_for_postgres()
    if missing:
        if os.environ.get("REDRAFT_REQUIRE_POSTGRES") == "1":
            pytest.fail(f"REDRAFT_REQUIRE_POSTGRES=1, but {missing}", pytrace=False)
        pytest.skip(f"{missing}; install it or set REDRAFT_TEST_POSTGRES to a server's URL")
    with _throwaway_postgres() as url:
        yield url


@pytest.fixture
def own_postgres() -> Iterator[tuple[str, Callable[[], None]]]:
    """URL of a server of one test's own, which keeps what it committed, and what switches it off and on again."""
    if missing := _missing_for_postgres():
        if os.environ.get("REDRAFT_REQUIRE_POSTGRES") == "1":
            pytest.fail(f"REDRAFT_REQUIRE_POSTGRES=1, but {missing}", pytrace=False)
        pytest.skip(missing)
    with _restartable_postgres(keeps="on") as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    """URL of an empty database, dropped after the test."""
    import psycopg

    name = f"redraft_{uuid.uuid4().hex}"
    with psycopg.connect(postgres_server, autocommit=True) as admin:
        admin.execute(f'CREATE DATABASE "{name}"')
    yield urlsplit(postgres_server)._replace(path=f"/{name}").geturl()
    with psycopg.connect(postgres_server, autocommit=True) as admin:
        admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@pytest.fixture(params=BACKENDS, ids=BACKENDS)
def checkpointer_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """What `open_checkpointer` takes: each kind of database in turn, always empty."""
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return {"memory": "memory", "sqlite": str(tmp_path / "runs.sqlite")}[request.param]


@pytest.fixture
def saver(checkpointer_url: str) -> Iterator[Any]:
    """An open saver over each kind of database in turn."""
    with open_checkpointer(checkpointer_url) as opened:
        yield opened


@pytest.fixture(scope="session")
def sandbox() -> Sandbox:
    """The sandbox as users have it; without a layer that runs the test is skipped, in CI it fails."""
    from redraft.nodes.sandbox import Sandbox, SandboxUnavailableError

    try:
        return Sandbox(timeout_s=10)
    except SandboxUnavailableError as error:
        if os.environ.get("REDRAFT_REQUIRE_SANDBOX"):
            pytest.fail(f"REDRAFT_REQUIRE_SANDBOX is set, but {error}", pytrace=False)
        pytest.skip(str(error))


def _binaries() -> Path | None:
    """Where Debian keeps the newest server's programs, or where PATH finds them."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda found: int(found.parts[-3]))
    found = str(debian[-1]) if debian else shutil.which("initdb")
    return Path(found).resolve().parent if found else None


def _missing_for_postgres() -> str | None:
    try:
        import langgraph.checkpoint.postgres  # noqa: F401
    except ImportError as error:
        return f"the postgres extra is not installed ({error})"
    return None if _binaries() else "PostgreSQL is not installed (no initdb found)"


@contextmanager
def _throwaway_postgres() -> Iterator[str]:
    """Starts a server on loopback that writes nothing durably, and stops it."""
    with _restartable_postgres(keeps="off") as (url, _):
        yield url


@contextmanager
def _restartable_postgres(*, keeps: str) -> Iterator[tuple[str, Callable[[], None]]]:
    """Starts a server on loopback, gives its URL and what restarts it, and stops it by its own data directory.

    Args:
        keeps: Its `synchronous_commit`: `"on"` where a restart must find what was committed.
    """
    binaries = _binaries()
    assert binaries is not None
    home = Path(tempfile.mkdtemp(prefix="redraft-pg-"))
    data = home / "data"
    user = _unprivileged_user()
    if user:
        shutil.chown(home, user)

    def run(program: str, *arguments: str) -> None:
        as_user: dict[str, Any] = {"user": user, "group": _group_of(user), "extra_groups": []} if user else {}
        command = [str(binaries / program), *arguments]
        # into a file: the server keeps what it is started with open, and a pipe would never end
        with (home / "commands.log").open("a+") as log:
            done = subprocess.run(
                command, cwd=home, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False, **as_user
            )
            if done.returncode:
                log.seek(0)
                details = log.read() + "".join(path.read_text() for path in home.glob("server.log"))
                raise RuntimeError(f"{program} failed with {done.returncode}:\n{details}")

    try:
        run("initdb", "-D", str(data), "-U", "redraft", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "-N")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        options = (
            f"-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories={home} "
            f"-c fsync=off -c full_page_writes=off -c synchronous_commit={keeps} -c max_connections=100"
        )
        run("pg_ctl", "-D", str(data), "-o", options, "-l", str(home / "server.log"), "-w", "start")
        try:
            again = ("-D", str(data), "-m", "immediate", "-o", options, "-l", str(home / "again.log"), "-w", "restart")
            yield f"postgresql://redraft@127.0.0.1:{port}/postgres", lambda: run("pg_ctl", *again)
        finally:
            run("pg_ctl", "-D", str(data), "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _unprivileged_user() -> str | None:
    """Whom to start the server as when we are root, which PostgreSQL refuses."""
    if os.name == "nt" or os.geteuid() != 0:
        return None
    import pwd

    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def _group_of(user: str) -> int:
    import pwd

    return pwd.getpwnam(user).pw_gid


def _module_of(path: Path) -> Any:
    # The tests are no package, so that none of their modules can be imported under two names.
    name = f"redraft_tests_{path.stem}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec
        assert spec.loader
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


@pytest.fixture
def serve() -> Iterator[Callable[..., Any]]:
    """Start an OpenAI-compatible server with the given replies; it ends with the test."""
    with ExitStack() as stack:
        server = _module_of(SERVER_FILE).OpenAIServer
        yield lambda replies, **options: stack.enter_context(server(replies, **options))


@pytest.fixture
def fail(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """Start a server that fails on purpose (`benchmarks/fault_server.py`); who is told no time to wait retries soon."""
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.001)
    with ExitStack() as stack:
        server = _module_of(FAULTS_FILE).FaultServer
        yield lambda **options: stack.enter_context(server(**{"retry_after_s": 0.01, "drip_s": 0.02, **options}))


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_BASE", "OPENAI_PROXY", "REDRAFT_API_KEY"):
        monkeypatch.delenv(name, raising=False)
