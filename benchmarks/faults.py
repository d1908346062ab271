"""Outcomes of many runs when one request in five fails, in every way that a model's server can fail.

A server on loopback (`benchmarks/fault_server.py`) answers a share of all requests with a fault drawn by seed: 429 with
and without Retry-After, 500, 503, no answer, resets and ends in the middle, cut JSON, no choice, refusals, HTML, and
bytes that drip. Runs of the preset loop go against it through `chat_model` and `open_checkpointer`, many at once, every
second one watched as it streams. An error in the first draft is raised, by redraft's rule, and the thread resumed then
and there, the faults still on. Afterwards a second pass resumes what failed, with the faults off.

Prints what was sent and what became of it, and a row for each promise; exits with 1 when one is not kept.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import re
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fault_server import KINDS, Attempt, FaultServer
from rows import Row, add_options, at_least, at_most, finish

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["main"]

PACKAGES = ("langgraph", "langchain-openai", "openai", "httpx2", "aiohttp")
HANGS_AFTER_S = 300.0
MOST_RESUMES = 50
WORDS = {
    **dict.fromkeys(("429", "429_retry_after"), "429"),
    **{"500": "500", "503": "503"},
    **dict.fromkeys(("timeout", "drip", "drip_headers"), "timed out: no whole reply within"),
    "reset": r"Connection error: \S",
    "truncated": r"Connection error: \S|stream ended before the reply did",
    "invalid_json": "sent no chat completion: .*JSON",
    "empty_choices": "sent no chat completion: there is no choice|stream ended before the reply did",
    "refusal": "was refused: This request is against the rules",
    "wrong_type": "sent no chat completion: .*Sign in to this network",
}
"""What the error of each fault must say; a sound reply that is asked for again came too late."""


@dataclass
class Run:
    """The outcome of one run."""

    number: int
    output: Any = None
    hung: bool = False
    raised: list[tuple[str | None, Exception]] = field(default_factory=list)
    """Errors of the first draft, each with the fault that was met last."""


async def run(graph: Any, server: FaultServer, number: int, *, streamed: bool) -> Run:
    """Run once, and again from where it stands as long as the first draft fails."""
    from redraft import Thread

    found = Run(number)
    config: Any = {"configurable": {"thread_id": f"run-{number}"}}
    given: Any = {"task": f"Say how a lamp works. This is run {number}."}
    for _ in range(MOST_RESUMES):
        try:
            async with asyncio.timeout(HANGS_AFTER_S) as clock:
                if streamed:
                    given = await Thread(graph, f"run-{number}").aready() if given is None else given
                    async for mode, part in graph.astream(given, config, stream_mode=["messages", "values"]):
                        found.output = part if mode == "values" else found.output
                else:
                    work = Thread(graph, f"run-{number}").aresume() if given is None else graph.ainvoke(given, config)
                    found.output = await work
                return found
        except Exception as error:
            if clock.expired():
                found.hung = True
                return found
            found.raised.append((last_fault(server, number), error))
            given = None
    return found


@dataclass
class Found:
    """The outcome of both passes."""

    server: FaultServer
    runs: list[Run]
    calls: list[list[Attempt]]
    """Of the first pass; so are the `unnamed`, errors that do not say what happened."""
    unnamed: list[str]
    took_s: float
    failed: int
    mended: int = 0


def last_fault(server: FaultServer, number: int) -> str | None:
    """Return the fault that a run met last."""
    mine = re.compile(rf"run {number}\b")
    return next(one.fault for one in reversed(server.attempts) if mine.search(one.asked))


async def measure(given: argparse.Namespace, server: FaultServer, path: Path) -> list[Row]:
    """Run both passes, and return the rows."""
    from redraft import Thread, build_refine_graph, chat_model, open_checkpointer

    gate = asyncio.Semaphore(given.at_once)
    async with open_checkpointer(str(path)) as saver:
        model = chat_model(server.spec, max_retries=given.retries, timeout_s=given.timeout_s)
        graph = build_refine_graph(model, checkpointer=saver)

        async def one(number: int) -> Run:
            async with gate:
                return await run(graph, server, number, streamed=number % 2 == 1)

        began = time.perf_counter()
        runs = await asyncio.gather(*map(one, range(given.runs)))
        took_s = time.perf_counter() - began
        left = [one.number for one in runs if reason(one) in ("failed", None)]
        found = Found(server, runs, list(server.calls().values()), list(nameless(runs, server)), took_s, len(left))

        server.rate = 0.0
        patient = build_refine_graph(chat_model(server.spec, timeout_s=60), checkpointer=saver)
        for number in left:
            out = await Thread(patient, f"run-{number}").aresume()
            found.mended += out["stop_reason"] not in ("failed", None)
    print(told(found))
    for text in found.unnamed:
        print(f"says not why: {text}", file=sys.stderr)
    return list(rows_of(found, given))


def reason(one: Run) -> str | None:
    """Return why a run stopped."""
    return (one.output or {}).get("stop_reason")


def nameless(runs: list[Run], server: FaultServer) -> Iterator[str]:
    """Yield what was said of a fault that does not name it."""
    for one in runs:
        said = [(fault, f"{type(error).__name__}: {error}") for fault, error in one.raised]
        if reason(one) == "failed":
            failure = next(event for event in reversed(one.output["events"]) if event["kind"] == "failure")
            said.append((last_fault(server, one.number), f"{failure['error']}: {failure['text']}"))
        for fault, text in said:
            # on a busy machine any reply may come too late
            if not re.search(f"{WORDS[fault or 'timeout']}|{WORDS['timeout']}", text):
                yield f"{fault}: {text}"


def accepted_on_a_fault(runs: list[Run], server: FaultServer) -> int:
    """Return how many runs accepted a draft, or by a verdict, that no sound reply held."""
    drafts = {tuple(text.split()) for text in server.said}
    verdicts = "\n".join(text for text in server.said if text.startswith("{"))
    wrong = 0
    for one in runs:
        if reason(one) == "accepted":
            critiques = [event for event in one.output["events"] if event["kind"] == "critique"]
            by = next(event["text"] for event in reversed(critiques) if event["accepted"])
            wrong += tuple(one.output["answer"].split()) not in drafts or not by or by not in verdicts
    return wrong


def told(found: Found) -> str:
    """Return the tables of what was sent and of how runs ended."""
    answered = Counter[tuple[str | None, str]]()
    for attempts in found.calls:
        for attempt, later in itertools.zip_longest(attempts, attempts[1:]):
            answered[attempt.fault, "sent again" if later else "the last"] += 1
    lines = [f"{'reply':<18}{'requests':>9}{'sent again':>12}{'given up':>10}  what it is"]
    for kind in KINDS:
        again, last = answered[kind, "sent again"], answered[kind, "the last"]
        lines.append(f"{kind:<18}{again + last:>9}{again:>12}{last:>10}  {KINDS[kind]}")
    again, last = answered[None, "sent again"], answered[None, "the last"]
    lines.append(f"{'sound':<18}{again + last:>9}{again:>12}{'':>10}  sent again where it came too late")
    lines.append("")
    for why, times in Counter(reason(one) or "did not end" for one in found.runs).most_common():
        lines.append(f"{why:<18}{times:>9}")
    tries = Counter(len(attempts) for attempts in found.calls)
    lines.append(f"\n{found.took_s:.0f} s; calls by attempts: {', '.join(f'{n}: {tries[n]}' for n in sorted(tries))}\n")
    return "\n".join(lines)


def rows_of(found: Found, given: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for each promise."""
    import openai
    from redraft.models import BrokenReplyError
    from redraft.nodes.generate import EmptyDraftError

    server, runs, calls = found.server, found.runs, found.calls
    known = (openai.APIError, BrokenReplyError, EmptyDraftError)
    name = f"{given.rate:.0%} faults"
    errors = [error for one in runs for _, error in one.raised]
    resumed = sum(bool(one.raised) for one in runs)
    ended = sum(reason(one) is not None for one in runs)
    note = f"{resumed} of them raised {len(errors)} errors in the first draft, and were resumed"
    yield at_least(f"{name}: runs that end with a stop reason", ended, len(runs), unit="runs", n=len(runs), note=note)
    yield at_most(f"{name}: runs that hang", sum(one.hung for one in runs), 0, unit="", n=len(runs))
    strange = [error for error in errors if not isinstance(error, known)]
    what = f"{name}: errors raised that are not the model's"
    yield at_most(what, len(strange), 0, unit="", n=len(errors), note="; ".join(map(repr, strange[:3])))
    ends = Counter(map(reason, runs))
    what = f"{name}: errors that do not say what happened"
    yield at_most(what, len(found.unnamed), 0, unit="", n=len(errors) + ends["failed"])
    what = f"{name}: runs that accept what is not whole"
    yield at_most(what, accepted_on_a_fault(runs, server), 0, unit="", n=ends["accepted"])
    over = sum(len(attempts) > given.retries + 1 for attempts in calls)
    note = f"max_retries={given.retries}; most {max(map(len, calls))}"
    yield at_most(f"{name}: calls tried more often than allowed", over, 0, unit="", n=len(calls), note=note)
    sent = sum(map(len, calls))
    yield at_most(f"{name}: requests sent ÷ calls made", sent / len(calls), None, n=len(calls))
    waits = [
        again.began - refused.ended
        for attempts in calls
        for refused, again in itertools.pairwise(attempts)
        if refused.fault == "429_retry_after" and again.number == refused.number + 1
    ]
    early = sum(wait < server.retry_after_s for wait in waits)
    note = f"Retry-After: {server.retry_after_s:g}; the soonest after {min(waits, default=0):.3f} s"
    yield at_most(f"{name}: retried before Retry-After said", early, 0, unit="", n=len(waits), note=note)
    what = f"{name}: failed runs that end when resumed without faults"
    yield at_least(what, found.mended, found.failed, unit="runs", n=found.failed)


def main() -> int:
    """Print the tables; 1 when a promise is not kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--runs", type=int, metavar="N", help="default: 1000; --quick: 200")
    parser.add_argument("--rate", type=float, default=0.2, help="share of requests that fail (default: 0.2)")
    parser.add_argument("--seed", type=int, default=1, help="of the faults (default: 1)")
    parser.add_argument("--at-once", type=int, default=48, metavar="N", help="runs at once (default: 48)")
    parser.add_argument("--retries", type=int, default=2, metavar="N", help="of the model (default: 2)")
    parser.add_argument("--timeout-s", type=float, default=0.8, metavar="S", help="of the model (default: 0.8)")
    given = parser.parse_args()
    given.runs = given.runs or (200 if given.quick else 1000)
    os.environ.setdefault("LANGGRAPH_STRICT_MSGPACK", "true")
    with tempfile.TemporaryDirectory() as folder, FaultServer(rate=given.rate, seed=given.seed) as server:
        found = asyncio.run(measure(given, server, Path(folder) / "runs.sqlite"))
    return finish(found, given.json, packages=PACKAGES)


if __name__ == "__main__":
    sys.exit(main())
