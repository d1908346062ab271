"""Runs the same client sessions on `redraft serve` and on LangGraph's own development server, and compares them.

    python benchmarks/parity/compare.py --langgraph /venv/bin/langgraph --page docs/parity.md

`--langgraph` is the command of an environment with `langgraph-cli[inmem]` and redraft. Both servers have the graphs of
`langgraph.json` and ask one scripted model. `sessions.py` says what is looked at; `differences.json` says what may
differ, and why. Exit code 0: nothing else differs, and each of those does; else 1.
"""

from __future__ import annotations

import argparse
import asyncio
import fnmatch
import importlib.metadata
import json
import os
import re
import shlex
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from langgraph_sdk import get_client
from sessions import SESSIONS

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / folder) for folder in ("benchmarks", "tests", "tests/server")]
import browser  # noqa: E402
from openai_server import OpenAIServer  # noqa: E402
from serving import free_port, process  # noqa: E402

DIFFERENCES = Path(__file__).with_name("differences.json")
PAGE = Path(__file__).with_name("page.md")
ID = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[\d.]*(Z|\+00:00)?")
NOTHING = "not there"

Seen = dict[str, Any]


def reply(request: dict[str, Any]) -> str | dict[str, Any]:
    """Find fault with a first draft, and be content with a second."""
    asked = "\n".join(str(message["content"]) for message in request["messages"])
    if "FAIL" in asked:
        return {"status": 400}
    text = "second draft" if "Name the month." in asked else "first draft"
    if "response_format" in request:
        is_good = "second draft" in asked
        verdict = {
            "feedback": "" if is_good else "Name the month.",
            "score": 1.0 if is_good else 0.2,
            "accepted": is_good,
        }
        text = json.dumps(verdict)
    return {"text": text, "delay_s": 1.0 if "SLOWLY" in asked else 0.0}


@asynccontextmanager
async def servers(langgraph: str, site: int) -> AsyncIterator[dict[str, str]]:
    """Yield the addresses of the two servers, which the pages at some port may use."""
    async with AsyncExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        model = stack.enter_context(OpenAIServer(reply))
        environment = os.environ | {"REDRAFT_MODEL": model.spec, "OPENAI_API_KEY": "none"}
        config = json.loads((ROOT / "langgraph.json").read_text(encoding="utf-8")) | {"dependencies": [str(scratch)]}
        (scratch / "langgraph.json").write_text(json.dumps(config), encoding="utf-8")
        urls = {name: f"http://127.0.0.1:{free_port()}" for name in ("redraft", "langgraph")}
        redraft = Path(sys.executable).with_name("redraft")
        commands = {
            "redraft": f"{redraft} serve --db runs.sqlite --allow-origin http://127.0.0.1:{site}",
            "langgraph": f"{langgraph} dev --no-browser --no-reload --n-jobs-per-worker 8",
        }
        for name, url in urls.items():
            words = shlex.split(f"{commands[name]} --port {url.rpartition(':')[2]}")
            log = stack.enter_context((scratch / f"{name}.log").open("w"))
            await stack.enter_async_context(
                process(*words, ready=f"{url}/ok", cwd=scratch, env=environment, stderr=log)
            )
        yield urls


async def observed(name: str, url: str, page: browser.Browser | None) -> Seen:
    """Return what a session saw on a server."""
    seen: Seen = {}

    def see(what: str, value: Any) -> None:
        seen[what] = plain(value)

    try:
        if page is not None:
            await asyncio.to_thread(browser.SESSIONS[name], page, url, see)
        else:
            async with get_client(url=url) as client:
                await asyncio.wait_for(SESSIONS[name](client, see, url), 120)
    except Exception as error:  # what a session dies of is what it saw
        seen["died of"] = plain(f"{type(error).__name__}: {str(error)[:300]}")
    return seen


def plain(value: Any) -> Any:
    """Return a value without ids and times."""
    if isinstance(value, str):
        return ID.sub("<id>", TIME.sub("<time>", value))
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, list | tuple) else value


def compared(ours: Any, theirs: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield each place where two values differ."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted(ours.keys() | theirs.keys()):
            yield from compared(ours.get(key, NOTHING), theirs.get(key, NOTHING), f"{path}/{key}")
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for index, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from compared(one, other, f"{path}/{index}")
    elif ours != theirs:
        yield path, ours, theirs


def page_of(counts: dict[str, tuple[int, int]], known: list[dict[str, Any]], versions: str) -> str:
    """Return the page that shows the comparison."""
    rows = [f"| {name} | {seen} | {differing} |" for name, (seen, differing) in counts.items()]
    reasons = [f"| {one['what']} | {one['redraft']} | {one['langgraph']} | {one['reason']} |" for one in known]
    text = PAGE.read_text(encoding="utf-8")
    return text.format(versions=versions, sessions="\n".join(rows), differences="\n".join(reasons))


async def main(args: argparse.Namespace) -> int:
    """Compare, print, and return the exit code."""
    known = json.loads(DIFFERENCES.read_text(encoding="utf-8"))
    places = [place for one in known for place in one["where"]]
    used, counts, unknown = set[str](), dict[str, tuple[int, int]](), 0
    async with AsyncExitStack() as stack:
        site = free_port()
        urls = await stack.enter_async_context(servers(args.langgraph, site))
        async with httpx.AsyncClient() as http:
            version = (await http.get(f"{urls['langgraph']}/info")).json()["version"]
        page = stack.enter_context(browser.Browser.opened(site)) if args.browser else None
        wanted = [(name, None) for name in SESSIONS] + [(name, page) for name in browser.SESSIONS if page]
        for name, shown in [one for one in wanted if args.only in one[0]]:
            ours, theirs = [await observed(name, urls[server], shown) for server in ("redraft", "langgraph")]
            found = list(compared(ours, theirs, name))
            for path, one, other in found:
                place = next((place for place in places if fnmatch.fnmatch(path, place)), None)
                used |= {place} if place else set()
                unknown += not place
                if not place or args.verbose:
                    print(f"{'known' if place else 'DIFFERS'} {path}\n  redraft:   {json.dumps(one)[:400]}\n"
                          f"  langgraph: {json.dumps(other)[:400]}", flush=True)  # fmt: skip
            counts[name] = (len(ours.keys() | theirs.keys()), len({path.split("/")[1] for path, _, _ in found}))
            print(f"{name}: {counts[name][0]} looked at, {counts[name][1]} differ", flush=True)
    idle = [] if args.only or not args.browser else sorted(set(places) - used)
    for place in idle:
        print(f"no longer differs: {place}")
    if args.page:
        packages = [f"{package} {importlib.metadata.version(package)}" for package in ("redraft", "langgraph-sdk")]
        args.page.write_text(page_of(counts, known, ", ".join([*packages, f"langgraph-api {version}"])), "utf-8")
    return 1 if unknown or idle else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--langgraph", required=True, help="the command of LangGraph's development server")
    parser.add_argument("--browser", action="store_true", help="also a page and the JavaScript client, in Chromium")
    parser.add_argument("--only", default="", help="sessions with this in their name")
    parser.add_argument("--page", type=Path, help="write the comparison as a page")
    parser.add_argument("--verbose", action="store_true", help="print known differences too")
    sys.exit(asyncio.run(main(parser.parse_args())))
