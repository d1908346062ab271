"""What the tests share: a throwaway PostgreSQL, a server that speaks OpenAI's protocol, and nobody's keys."""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import json
import os
import signal
import sys
import tempfile
import uuid
import zlib
from contextlib import ExitStack
from dataclasses import dataclass
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

from redraft.faces.cli.main import main
from redraft.state import collector, open_checkpointer

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from redraft.sandbox import Sandbox

# A database on a disk waits for it after each commit, a quarter of the suite's time by the clock: files go into memory
# where it holds files of that size and programs in them may run (in a container it seldom does).
MEMORY = "/dev/shm"
if "TMPDIR" not in os.environ and os.access(MEMORY, os.W_OK | os.X_OK):
    mounted = os.statvfs(MEMORY)
    if mounted.f_bavail * mounted.f_frsize > 2 << 30 and not mounted.f_flag & os.ST_NOEXEC:
        os.environ.setdefault("RAY_TMPDIR", tempfile.gettempdir())  # it leaves its logs there
        os.environ["TMPDIR"] = tempfile.tempdir = MEMORY

# The same examples each time, and no clock. By hand, to look for more: --hypothesis-profile=long
SAME: dict[str, Any] = {"deadline": None, "database": None, "print_blob": True}
settings.register_profile("same", derandomize=True, max_examples=60, stateful_step_count=10, **SAME)
settings.register_profile("long", max_examples=3000, stateful_step_count=25, **SAME)
settings.load_profile("same")

SERVER_FILE = Path(__file__).with_name("openai_server.py")
FAULTS_FILE = Path(__file__).parents[1] / "benchmarks" / "fault_server.py"
BACKENDS = ("memory", "sqlite", "postgres")

ROOMS = {  # by the beginning of a path below tests/; the longest that fits counts
    "": "whole",
    "state/": "core",
    "models/": "core",
    "nodes/": "core",
    "graphs/": "core",
    "faces/": "core",
    "evals/": "evals",
    "retrieval/": "retrieval",
    "sandbox/": "sandbox",
    "server/": "server",
    "travel/": "travel",
    "folders/": "folders",
    # The core's own, of what needs a room to run.
    "faces/test_extension": "server",
    "graphs/test_code_problems": "sandbox",
    "nodes/critics/test_program_critic": "sandbox",
    "nodes/verify/test_code_checks": "sandbox",
}
STARTED = pytest.StashKey[int]()
IN_TURN = ("run", "checkpointer_url")
"""Parameters that are alike to most tests: `make test` gives each test one value of them, in turn, unless it is marked
`every`."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Which tests run, and which of their cases."""
    rooms = sorted(set(ROOMS.values()))
    parser.addoption("--room", choices=rooms, help=f"run the tests of one room only: {', '.join(rooms)}")
    parser.addoption(
        "--cases",
        choices=("some", "rest", "all"),
        default="some",
        help="some (make test): without those marked `slow` and one of each class where a test is marked so; "
        "rest: the others; all: both. A test named by `::` has all its cases",
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave the files of other rooms than `--room` unread."""
    room = config.getoption("--room")
    if room is None or not collection_path.name.startswith("test_"):
        return None
    path = collection_path.relative_to(Path(__file__).parent).as_posix()
    return ROOMS[max(filter(path.startswith, ROOMS), key=len)] != room or None


class _KeepsFrozen:
    """The module `gc`, with what is frozen left so: `tuned_gc` would thaw all when it ends."""

    def __getattr__(self, name: str) -> Any:
        return getattr(gc, name)

    def unfreeze(self) -> None:
        """Leave it to the hook below."""


def pytest_collection_finish() -> None:
    """Let no collection of garbage look at what was collected and imported, and stays: a quarter of the suite's time.

    Commands collect whenever they begin, statsmodels with each correction, and Python at any time.
    """
    gc.collect()
    gc.freeze()
    collector.gc = _KeepsFrozen()  # type: ignore[assignment]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Freeze what was imported since, and at times collect what was garbage when it was frozen: it may be open."""
    item.session.stash[STARTED] = started = item.session.stash.get(STARTED, 0) + 1
    if started % 500 == 0:
        gc.unfreeze()
    if started % 20 == 0:
        gc.collect()
        gc.freeze()


@pytest.hookimpl(tryfirst=True)  # so that `-k` and `-m` choose among what is left
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the cases that `--cases` asks for.

    Refuse a case whose name holds an address in memory: each worker of a run would know it by another name.
    """
    if unstable := [item.nodeid for item in items if " at 0x" in item.nodeid]:
        raise pytest.UsageError(f"give these cases ids: {unstable}")
    cases = config.getoption("--cases")
    if cases == "all" or any("::" in argument for argument in config.args):
        return
    some = _some(items)
    chosen = [item for item in items if (item in some) is (cases == "some")]
    config.hook.pytest_deselected(items=[item for item in items if (item in some) is not (cases == "some")])
    # Those of the whole first: they take longest, and no worker is left with them at the end.
    items[:] = sorted(chosen, key=lambda item: item.path.parent != Path(__file__).parent)
    option = config.option
    if cases == "some" and not (option.room or option.keyword or option.markexpr) and config.args == ["tests"]:
        most = json.loads(Path(__file__).with_name("budgets.json").read_text(encoding="utf-8"))["suite"]["cases"]
        if len(items) > most:
            raise pytest.UsageError(
                f"`make test` has {len(items)} cases, budget {most}: mark some `slow` or `one_of_each`, or raise it in "
                "tests/budgets.json and say why"
            )


def _some(items: list[pytest.Item]) -> set[pytest.Item]:
    """Return one case of each class, none of them slow."""
    classes: dict[Hashable, list[pytest.Item]] = {}
    for item in items:
        if not item.get_closest_marker("slow"):
            classes.setdefault(_class_of(item), []).append(item)
    # Which case stands for its class depends on the name of the first one alone, so that tests beside each other take
    # different ones, and each run the same.
    return {alike[zlib.crc32(alike[0].nodeid.encode()) % len(alike)] for alike in classes.values()}


def _class_of(item: pytest.Item) -> Hashable:
    """Return what the cases have in common of which `make test` runs one: the test, and the values that tell."""
    if not (callspec := getattr(item, "callspec", None)):
        return item.nodeid
    if marker := item.get_closest_marker("one_of_each"):
        telling = marker.args
    else:
        every = {name for marker in item.iter_markers("every") for name in marker.args}
        telling = tuple(name for name in callspec.params if name not in IN_TURN or name in every)
    # By identity: not every value can be compared or hashed, and the cases of a matrix share theirs.
    return item.nodeid.partition("[")[0], *(id(callspec.params[name]) for name in telling)


@pytest.fixture(scope="session", autouse=True)
def _state_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The tests' recipes are marked with a key of their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a PostgreSQL server where databases can be made: REDRAFT_TEST_POSTGRES, or one that all workers share.

    Without PostgreSQL the test is skipped; with REDRAFT_REQUIRE_POSTGRES=1, as in CI, it fails instead.
    """
    given = os.environ.get("REDRAFT_TEST_POSTGRES")
    if given:
        yield given
        return
    _require_postgres()
    folder = tmp_path_factory.getbasetemp()
    with _postgres().joined(folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) as server:
        yield server.url


@pytest.fixture
def own_postgres() -> Iterator[tuple[str, Callable[[], None]]]:
    """URL of a server of one test's own, which keeps what it committed, and what switches it off and on again."""
    _require_postgres()
    with _postgres().started(durable=True) as server:
        yield server.url, server.restart


@pytest.fixture(scope="session")
def _postgres_database(postgres_server: str) -> Iterator[str]:
    """URL of this worker's database."""
    import psycopg

    name = f"redraft_{uuid.uuid4().hex}"
    with psycopg.connect(postgres_server, autocommit=True) as admin:
        admin.execute(f'CREATE DATABASE "{name}"')
    yield urlsplit(postgres_server)._replace(path=f"/{name}").geturl()
    with psycopg.connect(postgres_server, autocommit=True) as admin:
        admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@pytest.fixture
def postgres_url(_postgres_database: str) -> Iterator[str]:
    """URL of an empty database, emptied again after the test, whoever is still connected to it."""
    import psycopg

    yield _postgres_database
    with psycopg.connect(_postgres_database, autocommit=True) as admin:
        admin.execute(
            "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        admin.execute("SET client_min_messages = warning; DROP SCHEMA public CASCADE; CREATE SCHEMA public")


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


@pytest.fixture
def a_checkpoint_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loops that the test builds save a checkpoint a round, and not one a step."""
    from redraft.graphs.loop import build_refine_graph

    monkeypatch.setitem(build_refine_graph.__kwdefaults__, "checkpoints", "round")


@pytest.fixture(scope="session")
def sandbox() -> Sandbox:
    """The sandbox as users have it; without a layer that runs the test is skipped, in CI it fails."""
    from redraft.sandbox import Sandbox, SandboxUnavailableError

    try:
        return Sandbox(timeout_s=10)
    except SandboxUnavailableError as error:
        if os.environ.get("REDRAFT_REQUIRE_SANDBOX"):
            pytest.fail(f"REDRAFT_REQUIRE_SANDBOX is set, but {error}", pytrace=False)
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def forking() -> Iterator[Any]:
    """Start Python processes that have imported redraft: `forking.start(["-c", …])`, `forking.run([…])`."""
    with _module_of(Path(__file__).with_name("forked_python.py")).started() as found:
        yield found


def _postgres() -> Any:
    return _module_of(Path(__file__).with_name("postgres_server.py"))


def _require_postgres() -> None:
    if missing := _postgres().missing():
        if os.environ.get("REDRAFT_REQUIRE_POSTGRES") == "1":
            pytest.fail(f"REDRAFT_REQUIRE_POSTGRES=1, but {missing}", pytrace=False)
        pytest.skip(f"{missing}; install it or set REDRAFT_TEST_POSTGRES to a server's URL")


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


@pytest.fixture(scope="session")
def batch_server() -> Any:
    """The class of servers with the batch interfaces of OpenAI and Anthropic: `with batch_server(answer) as server`."""
    return _module_of(Path(__file__).with_name("batch_server.py")).BatchServer


@pytest.fixture
def record() -> Iterator[Callable[..., Any]]:
    """Start a server that answers in JSON by `METHOD path`, and keeps what it was asked; it ends with the test."""
    with ExitStack() as stack:
        server = _module_of(Path(__file__).with_name("recording_server.py")).recording_server
        yield lambda answers: stack.enter_context(server(answers))


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


@pytest.fixture(autouse=True)
def _same_short_replies(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The embedded model's replies are short, and the same each time: sampled, one in twenty is talk and no draft."""
    if request.node.get_closest_marker("embedded"):
        from redraft.models import openai_chat

        def greedy(*address: str, **options: Any) -> Any:
            return served_model(*address, **{**options, "temperature": options["temperature"] or 0})

        served_model = openai_chat.served_model
        monkeypatch.setattr(openai_chat, "served_model", greedy)
        monkeypatch.setattr("redraft.models.specs._LOCAL_MAX_OUTPUT_TOKENS", 24)


@pytest.fixture(params=["invoke", "ainvoke"])
def run(request: pytest.FixtureRequest) -> Any:
    """Runs a graph on an input, synchronously and asynchronously."""

    def call(graph: Any, given: Any, config: Any = None) -> Any:
        if request.param == "invoke":
            return graph.invoke(given, config)
        return asyncio.run(graph.ainvoke(given, config))

    return call


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
    for name in ("REDRAFT_MODEL", "REDRAFT_DB", "REDRAFT_DEBUG", "REDRAFT_ENCRYPTION_KEY", "REDRAFT_SEAL_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("REDRAFT_WATCHDOG", "0")  # it would fork this process

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


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One Chromium for all tests; where there is none they are skipped, in CI they fail."""
    module = _module_of(Path(__file__).with_name("chromium.py"))
    with ExitStack() as stack:
        try:
            found = stack.enter_context(module.started(tmp_path_factory.mktemp("chromium")))
        except LookupError as missing:
            if os.environ.get("REDRAFT_REQUIRE_CHROMIUM"):
                pytest.fail(f"REDRAFT_REQUIRE_CHROMIUM is set, but {missing}", pytrace=False)
            pytest.skip(str(missing))
        yield found


@pytest.fixture
def chromium(browser: Any) -> Any:
    """The browser, as a desk has it."""
    browser.looks(1400)
    return browser
