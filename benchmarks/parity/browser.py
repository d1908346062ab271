"""Sessions of a page made with `@langchain/react` and of LangGraph's JavaScript client, in Chromium.

The page is the one that the tests build (`tests/server/react_app`), served from a folder of this machine.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from chromium import Chromium, started
from test_react_app import AT_REST, ask, page_served, text

if TYPE_CHECKING:
    from sessions import See

__all__ = ["SESSIONS", "Browser"]

TASK = "{task: 'Write about autumn.'}"
UNDER_WAY = re.compile("running|pending")
ENDED = "document.getElementById('reason').textContent === 'accepted'"


class Browser:
    """A page on a site, which talks to the server at an address."""

    def __init__(self, page: Chromium, site: str) -> None:
        self.page, self.site = page, site

    @classmethod
    @contextmanager
    def opened(cls, port: int) -> Iterator[Browser]:
        """Serve the built page, and open a browser."""
        with tempfile.TemporaryDirectory() as home, page_served(port) as site, started(Path(home)) as page:
            yield cls(page, site)

    def visit(self, url: str, assistant: str) -> None:
        self.page.visit(f"{self.site}/?api={url}&assistant={assistant}")

    def until(self, expression: str, holds: Callable[[str], bool]) -> str:
        """Return the value of a promise once it is as wanted, or as it is after a minute."""
        value = ""
        for _ in range(600):
            if holds(value := str(self.page.run(expression))):
                break
            time.sleep(0.1)
        return value

    def click(self, name: str) -> None:
        self.page.run(f"document.getElementById({name!r}).click()")


def a_page_runs_and_forks(browser: Browser, url: str, see: See) -> None:
    browser.visit(url, "refine")
    ask(browser.page, "Write about autumn.")
    browser.page.wait_for(ENDED)
    browser.page.wait_for(AT_REST)
    see("answer", text(browser.page, "answer"))
    see("error", text(browser.page, "error"))
    see("messages", browser.page.run("[...document.querySelectorAll('#messages li')].map((one) => one.textContent)"))
    thread = text(browser.page, "thread")
    browser.click("place")
    browser.page.wait_for("document.getElementById('place-found').textContent")
    browser.click("fork")
    runs = f"window.client.runs.list({thread!r}).then((runs) => runs.map((run) => run.status).join())"
    see("runs", browser.until(runs, lambda found: "," in found and not UNDER_WAY.search(found)))
    browser.page.wait_for(AT_REST)
    see("answer of the fork", text(browser.page, "answer"))
    browser.page.visit(f"{browser.page.run('location.href')}&thread={thread}")
    browser.page.wait_for("document.getElementById('answer').textContent")
    see("answer after a reload", text(browser.page, "answer"))


def a_page_answers_a_question(browser: Browser, url: str, see: See) -> None:
    browser.visit(url, "refine-with-a-person")
    ask(browser.page, "Write about autumn.")
    browser.page.wait_for("document.getElementById('draft')?.textContent")
    browser.page.wait_for(AT_REST)
    see("draft", text(browser.page, "draft"))
    browser.click("accept")
    browser.page.wait_for(ENDED)
    see("answer", text(browser.page, "answer"))


def a_page_shows_a_failure(browser: Browser, url: str, see: See) -> None:
    browser.visit(url, "zero-shot")
    ask(browser.page, "FAIL")
    browser.page.wait_for("document.getElementById('error').textContent")
    see("an error is shown", bool(text(browser.page, "error")))
    see("error", text(browser.page, "error"))


def a_page_stops_a_run(browser: Browser, url: str, see: See) -> None:
    browser.visit(url, "refine")
    ask(browser.page, "Write SLOWLY about autumn.")
    browser.page.wait_for("document.getElementById('run').textContent")
    browser.page.wait_for("document.getElementById('state').textContent === 'at work'")
    time.sleep(1.5)  # the first draft is written
    browser.click("stop")
    browser.page.wait_for(AT_REST)
    thread = text(browser.page, "thread")
    status = f"window.client.runs.list({thread!r}).then((runs) => runs[0].status)"
    see("the run", browser.until(status, lambda found: not UNDER_WAY.search(found)))
    standing = f"window.client.threads.get({thread!r}).then((found) => found.status)"
    see("the thread", browser.until(standing, lambda found: found != "busy"))
    see("error", text(browser.page, "error"))


def the_javascript_client(browser: Browser, url: str, see: See) -> None:
    browser.visit(url, "refine")
    modes = ["values", "updates", "debug", "tasks", "checkpoints", "messages-tuple", "custom"]
    see("kinds of a stream", sorted(browser.page.run(f"window.streamed('refine', {TASK}, {modes})")))
    thread = browser.page.run("window.client.threads.create().then((made) => made.thread_id)")
    asked = f"{{input: {TASK}, streamMode: ['values', 'updates']}}"
    run = browser.page.run(f"window.client.runs.create({thread!r}, 'refine', {asked})")
    where = f"{run['thread_id']!r}, {run['run_id']!r}"
    see("kinds of a joined stream", sorted(set(browser.page.run(f"window.joined({where}, ['updates'])"))))
    see("joined", browser.page.run(f"window.client.runs.join({where}).then((found) => found.answer)"))
    for title, wanted in (
        ("history", f"window.client.threads.getHistory({run['thread_id']!r}).then((found) => found.length)"),
        ("no such thread", "window.client.threads.get(crypto.randomUUID()).catch((error) => error.status)"),
        ("assistants", "window.client.assistants.search({limit: 1}).then((found) => found.length)"),
        ("store", "window.client.store.getItem(['parity'], crypto.randomUUID()).catch((error) => error.status)"),
    ):
        see(title, browser.page.run(wanted))


SESSIONS: dict[str, Callable[[Browser, str, See], None]] = {
    one.__name__.replace("_", " "): one
    for one in (
        a_page_runs_and_forks,
        a_page_answers_a_question,
        a_page_shows_a_failure,
        a_page_stops_a_run,
        the_javascript_client,
    )
}
