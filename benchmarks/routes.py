"""Length of the routes through the code: how many files a command enters, and how often it changes from one to another.

Every call of a Python function is counted by `sys.setprofile`, in all threads. A *file* is one of redraft's in which a
function is called; a *change* is a call in another file of redraft's than the last call in the same thread. Each route
is made once before it is counted, so that imports don't count.

- `run`: `redraft run` on SQLite with a scripted model: a draft that a verifier rejects, and a revision that it accepts
- `resume`: `redraft resume` of a run whose model failed in its first revision
- `fork`, `replay`: `redraft fork --at 0 --feedback …` and `redraft replay` of the thread that `run` made
- `generate`: one `generate` step of the loop, from the update of `prepare` to its own, without a saver

The budgets stand in `tests/budgets.json`, and a test holds them. A count varies by a few from run to run, since the
writer's thread takes what is there when it looks.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
from collections import Counter
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rows import Row, add_options, at_most, finish

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["ROUTES", "Route", "count", "main"]

ROOT = Path(__file__).resolve().parents[1]
BUDGETS = ROOT / "tests" / "budgets.json"
ROUTES = ("run", "resume", "fork", "replay", "generate")
REJECTED, ACCEPTED = "A cold night.", "The river shone under the lamp."
RUN = ("--model", "scripted:replies.json", "--verify", "uses_words:river,lamp", "--db", "runs.sqlite")


class Route(NamedTuple):
    """One route: by file, the calls in it and the changes to it."""

    calls: Counter[str]
    changes: Counter[str]


@contextmanager
def counted() -> Iterator[Route]:
    """Count the calls of a block, also in the threads that it starts."""
    route, last, files = Route(Counter(), Counter()), threading.local(), dict[str, str | None]()

    def file_of(path: str) -> str | None:
        real = os.path.realpath(path)  # an editable install links to the files of the checkout
        return os.path.relpath(real, ROOT) if real.startswith(f"{ROOT}{os.sep}") and "/.venv" not in real else None

    def called(frame: Any, event: str, _: object) -> None:
        if event != "call":
            return
        path = frame.f_code.co_filename
        if path not in files:
            files[path] = file_of(path)
        file = files[path]
        if file is None or file.startswith("benchmarks"):
            return
        route.calls[file] += 1
        if getattr(last, "file", None) != file:
            route.changes[file] += 1
            last.file = file

    threading.setprofile(called)
    sys.setprofile(called)
    try:
        yield route
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def shell(*words: str) -> None:
    """Run a command of redraft's in this process.

    Raises:
        RuntimeError: It did not end with 0.
    """
    from redraft.faces.cli.main import main as redraft

    output = StringIO()
    with redirect_stdout(output), redirect_stderr(output):
        try:
            redraft(words)
        except SystemExit as end:
            if end.code:
                raise RuntimeError(f"redraft {' '.join(words)} ended with {end.code}: {output.getvalue()}") from None


def script(*replies: Any) -> None:
    """Write what the model says next."""
    Path("replies.json").write_text(json.dumps(replies), encoding="utf-8")


def run(thread: str) -> Callable[[], None]:
    """Return what runs a new thread."""
    script(REJECTED, ACCEPTED)
    return lambda: shell("run", "Write one sentence.", "--thread", thread, *RUN)


def resume(thread: str) -> Callable[[], None]:
    """Return what resumes a thread whose model failed in its first revision."""
    script(REJECTED, {"error": "the model is down"})
    try:
        shell("run", "Write one sentence.", "--thread", thread, *RUN)
    except RuntimeError:  # as it should
        script(ACCEPTED)
    return lambda: shell("resume", thread, "--db", "runs.sqlite")


def fork(thread: str) -> Callable[[], None]:
    """Return what forks a finished thread."""
    run(thread)()
    feedback = ("--at", "0", "--feedback", "Make it about winter.", "--as", f"{thread}-winter")
    return lambda: shell("fork", thread, *feedback, "--db", "runs.sqlite")


def replay(thread: str) -> Callable[[], None]:
    """Return what replays a finished thread."""
    run(thread)()
    return lambda: shell("replay", thread, "--db", "runs.sqlite")


def generate(_: str) -> Callable[[], None]:
    """Return what makes the first draft of a loop that has prepared its task."""
    from redraft import build_refine_graph, uses_words, verifier_critic
    from redraft.models import ScriptedModel

    graph = build_refine_graph(ScriptedModel([REJECTED, ACCEPTED]), critics=[verifier_critic(uses_words("river"))])
    steps = graph.stream({"task": "Write one sentence."}, stream_mode="updates")
    assert "prepare" in next(steps)

    def step() -> None:
        assert "generate" in next(steps)

    return step


def count(name: str) -> Route:
    """Return the calls and changes of one route, made once before it is counted."""
    prepare = {"run": run, "resume": resume, "fork": fork, "replay": replay, "generate": generate}[name]
    here = Path.cwd()
    home = os.environ.get("XDG_STATE_HOME")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ["XDG_STATE_HOME"] = folder
        try:
            prepare("first")()
            step = prepare("second")
            with counted() as route:
                step()
        finally:
            os.chdir(here)
            os.environ.pop("XDG_STATE_HOME")
            if home is not None:
                os.environ["XDG_STATE_HOME"] = home
    return route


def measure(names: tuple[str, ...] = ROUTES, *, verbose: bool = False) -> list[Row]:
    """Return two rows a route: files entered, and changes of file."""
    budgets = json.loads(BUDGETS.read_text(encoding="utf-8"))["routes"] if BUDGETS.exists() else {}
    rows = []
    for name in names:
        route = count(name)
        limits = budgets.get(name, {})
        by_room = Counter[str]()
        for file, changes in route.changes.items():
            by_room[file.rpartition("/")[0]] += changes
        note = ", ".join(f"{room} {changes}" for room, changes in by_room.most_common(6))
        rows += [
            at_most(f"{name}: files entered", len(route.calls), limits.get("files"), unit="files"),
            at_most(
                f"{name}: changes of file", route.changes.total(), limits.get("changes"), unit="changes", note=note
            ),
        ]
        if verbose:
            for file, changes in route.changes.most_common():
                print(f"{name:9} {changes:5} {route.calls[file]:6}  {file}")
    return rows


def main() -> int:
    """Print the table; 1 when a budget is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--route", choices=ROUTES, action="append", help="this one alone; may be repeated")
    parser.add_argument("--files", action="store_true", help="print each file: changes to it, and calls in it")
    parser.add_argument("--counts", action="store_true", help="print the counts of one route as JSON, and nothing else")
    given = parser.parse_args()
    if given.counts:
        route = count(*given.route)
        print(json.dumps({"files": len(route.calls), "changes": route.changes.total()}))
        return 0
    return finish(measure(tuple(given.route or ROUTES), verbose=given.files), given.json)


if __name__ == "__main__":
    sys.exit(main())
