"""A page made with `@langchain/react`, served by another site, runs unchanged against the server in a browser."""

from __future__ import annotations

import fcntl
import functools
import hashlib
import http.server
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from redraft.models import ScriptedModel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SOURCE = Path(__file__).with_name("react_app")
INSTALL = ("install", "--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund")  # all versions are exact
BUNDLE = ("app.jsx", "--bundle", "--minify", "--jsx=automatic", "--outfile=app.js", "--log-level=warning",
          '--define:process.env.NODE_ENV="production"')  # fmt: skip
AT_REST = "document.getElementById('state')?.textContent === 'at rest'"


def built() -> Path:
    """The folder of the built page. It is kept beside the packages of the tests, and built anew when it has changed."""
    told = b"".join(part.read_bytes() for part in sorted(SOURCE.iterdir()) if part.is_file())
    kept = Path(sys.prefix) / "react_app"
    folder = kept / hashlib.sha256(told).hexdigest()[:16]
    kept.mkdir(exist_ok=True)
    with (kept / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another process of the tests may build it
        if (folder / "index.html").exists():
            return folder
        if not (npm := shutil.which("npm")):
            why = "npm is missing; on Debian: apt-get install npm"
            if os.environ.get("REDRAFT_REQUIRE_NPM"):
                pytest.fail(f"REDRAFT_REQUIRE_NPM is set, but {why}", pytrace=False)
            pytest.skip(why)
        with tempfile.TemporaryDirectory(dir=kept) as given:
            work = Path(given) / "app"
            shutil.copytree(SOURCE, work)
            installed = subprocess.run([npm, *INSTALL], cwd=work, capture_output=True, text=True, check=False)
            if installed.returncode:
                pytest.skip(f"npm could not install the packages of the page: {installed.stderr[-500:]}")
            subprocess.run([work / "node_modules/.bin/esbuild", *BUNDLE], cwd=work, check=True)
            folder.mkdir(exist_ok=True)
            for name in ("app.js", "index.html"):
                shutil.move(work / name, folder / name)
    return folder


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files, and says nothing about it."""

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def page_served(port: int = 0) -> Iterator[str]:
    """The origin of the site that has the page."""
    handler = functools.partial(Quiet, directory=str(built()))
    with http.server.ThreadingHTTPServer(("127.0.0.1", port), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    """The origin of the site that has the page."""
    with page_served() as origin:
        yield origin


@pytest.fixture
def opened(chromium: Any, site: str, start_server: Callable[..., Any], tokens: Any) -> Callable[..., Any]:
    """Open the page for an assistant of a server that allows its site; the browser, and the server."""

    def open_page(assistant: str, **settings: Any) -> Any:
        server = start_server(allow_origins=(site,), tokens=tokens, **settings)
        chromium.visit(f"{site}/?api={server.url}&key={tokens[0]}&assistant={assistant}")
        return server

    return open_page


def text(page: Any, name: str) -> str:
    found: str = page.run(f"document.getElementById({name!r}).textContent")
    return found


def ask(page: Any, task: str) -> None:
    page.run("document.getElementById('task').focus(); document.getElementById('task').select()")
    page.type(task)
    page.run("document.getElementById('go').click()")


@pytest.mark.slow
def test_use_stream_runs_a_thread(opened: Any, chromium: Any) -> None:
    """The page of another site begins a run, shows its answer and its messages, forks at an earlier step, and finds the
    thread again after it is loaded anew."""
    server = opened("refine")
    ask(chromium, "Write about autumn.")
    chromium.wait_for("document.getElementById('reason').textContent === 'accepted'")
    chromium.wait_for(AT_REST)
    assert text(chromium, "answer") == "second draft"
    shown = chromium.run("[...document.querySelectorAll('#messages li')].map((one) => one.textContent)")
    assert shown == ["first draft", "Name the month.", "second draft", "no issues"]
    calls = len(server.engine.presets.model("local").calls)
    chromium.run("document.getElementById('place').click()")
    chromium.wait_for("document.getElementById('place-found').textContent")
    chromium.run("document.getElementById('fork').click()")
    thread = text(chromium, "thread")
    while chromium.run(f"window.client.runs.list({thread!r}).then((runs) => runs.map((run) => run.status).join())") != (
        "success,success"
    ):
        pass
    chromium.wait_for(AT_REST)
    assert text(chromium, "answer") == "second draft"
    # What was said about the first draft is kept, so the fork pays for nothing again.
    assert len(server.engine.presets.model("local").calls) == calls
    url = chromium.run("location.href")
    chromium.visit(f"{url}&thread={thread}")
    chromium.wait_for("document.getElementById('answer').textContent === 'second draft'")
    assert text(chromium, "error") == ""


def test_use_stream_answers_a_question(opened: Any, chromium: Any) -> None:
    """A question to a person is shown on the page, and its answer ends the run."""
    opened("refine-with-a-person")
    ask(chromium, "Write about autumn.")
    chromium.wait_for("document.getElementById('draft')?.textContent === 'first draft'")
    chromium.wait_for(AT_REST)
    chromium.run("document.getElementById('accept').click()")
    chromium.wait_for("document.getElementById('reason').textContent === 'accepted'")
    assert text(chromium, "answer") == "first draft"


def test_use_stream_shows_a_failure(opened: Any, chromium: Any) -> None:
    """A run that fails is shown as failed, and one that the page stops is cancelled on the server."""
    gate = threading.Event()

    def fail(messages: Any) -> str:
        raise OSError("/etc/secret")

    def wait(messages: Any) -> str:
        assert gate.wait(20)
        return "too late"

    server = opened("zero-shot", build_model=lambda spec: ScriptedModel([fail, wait]))
    ask(chromium, "Write about autumn.")
    chromium.wait_for("document.getElementById('error').textContent")
    assert text(chromium, "error") == "the run failed; the server's log says why"
    ask(chromium, "Write about spring.")
    chromium.wait_for("document.getElementById('state').textContent === 'at work'")
    thread = text(chromium, "thread")
    running = f"window.client.runs.list({thread!r}).then((runs) => runs[0].status)"
    while chromium.run(running) != "running":
        pass
    run = chromium.run(f"window.client.runs.list({thread!r}).then((runs) => runs[0].run_id)")
    chromium.wait_for(f"document.getElementById('run').textContent === {run!r}")
    chromium.run("document.getElementById('stop').click()")
    while chromium.run(running) != "interrupted":
        pass
    gate.set()
    assert server.engine.queue.running == 0


def test_the_javascript_client_streams_and_joins(opened: Any, chromium: Any) -> None:
    """The newest JavaScript client streams every mode, and joins a run with a list of modes."""
    opened("refine")
    modes = ["values", "updates", "debug", "tasks", "checkpoints", "events", "messages-tuple"]
    told = chromium.run(f"window.streamed('refine', {{task: 'Write about autumn.'}}, {modes})")
    assert set(told) >= {"metadata", "values", "updates", "debug", "tasks", "checkpoints", "events", "messages"}
    asked = "{input: {task: 'Write about spring.'}, streamMode: ['values', 'updates'], onCompletion: 'keep'}"
    run = chromium.run(f"window.client.runs.create(null, 'refine', {asked})")
    joined = chromium.run(f"window.joined({run['thread_id']!r}, {run['run_id']!r}, ['updates'])")
    assert set(joined) == {"metadata", "updates"}
    assert chromium.run("window.client.assistants.search({limit: 1}).then((found) => found.length)") == 1
