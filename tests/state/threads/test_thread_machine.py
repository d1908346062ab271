"""Run, killed, resumed, forked and replayed in any order, a thread loses nothing and pays nothing twice."""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule
from redraft.graphs.loop import build_refine_graph
from redraft.models import ScriptedModel
from redraft.state import Critique, Thread, open_checkpointer
from redraft.state.events import broken_links, digest
from redraft.state.limits import limits_in_force
from redraft.state.stopping import STOP_REASONS, spent_budget
from redraft.state.summary import attempts, best_draft, current_run, usage_total

TOKENS = 10
"""Of each call."""


class Killed(BaseException):
    """The process ends here, as it were."""


limits = st.fixed_dictionaries(
    {"max_rounds": st.integers(0, 3)},
    optional={"max_tokens": st.integers(1, 12 * TOKENS), "patience": st.integers(1, 2)},
)
faults = st.none() | st.tuples(st.integers(0, 5), st.sampled_from(["error", "kill", "error after", "kill after"]))
"""Which call of the next run goes wrong and how; `after`: the call was answered, and what comes next goes wrong."""
worlds = st.sampled_from(["sync", "async"])
drafts = st.sampled_from(["poor", "fair", "good", "best", "odd"])
SCORES = {"poor": 0.1, "fair": 0.4, "good": 0.7, "best": 1.0, "odd": None}


class Threads(RuleBasedStateMachine):
    """Threads on one SQLite database, and what was known of each of them before."""

    threads: Any = Bundle("threads")
    checkpoints: Any = "step"

    @initialize()
    def opened(self) -> None:
        self.stack = ExitStack()
        folder = self.stack.enter_context(tempfile.TemporaryDirectory())
        self.saver = self.stack.enter_context(open_checkpointer(str(Path(folder) / "runs.sqlite")))
        self.known: dict[str, list[Any]] = {}
        self.fault: tuple[int, str] | None = None
        self.plan: list[str] = []
        self.calls = self.answered = self.unsaved = self.lost = 0
        self.changed = False
        writer, judge = ScriptedModel([self.write] * 9999), ScriptedModel([self.judge] * 9999)

        def critic(task: str, draft: str, history: Any) -> Critique:
            if not self.changed:  # else the limits in force are not in the record yet
                assert spent_budget(history, limits_in_force(history)) is None, "a critic is asked with a budget spent"
            judge.invoke(draft)
            self.after_call()
            score = SCORES[draft.split(maxsplit=1)[0]]
            return Critique("go on", accepted=score == 1.0, score=score)

        def written(state: Any) -> Any:
            assert spent_budget(state["events"], state["limits"]) is None, "a call begins with a budget spent"
            reply = writer.invoke(state["task"])
            self.after_call()
            return reply

        self.graph = build_refine_graph(
            generate=written, refine=written, critics=[critic], checkpointer=self.saver, checkpoints=self.checkpoints
        )

    def teardown(self) -> None:
        if hasattr(self, "stack"):
            self.stack.close()

    # what the models do

    def before_call(self) -> None:
        self.calls += 1
        if self.fault and self.calls > self.fault[0] and "after" not in self.fault[1]:
            kind, self.fault = self.fault[1], None
            if kind == "kill":
                self.lost += self.unsaved
                raise Killed
            raise ConnectionError("away")
        self.answered += 1
        self.unsaved += 1

    def after_call(self) -> None:
        if self.fault and self.calls > self.fault[0]:
            kind, self.fault = self.fault[1], None
            if kind == "kill after":
                self.lost += self.unsaved
                raise Killed
            raise ConnectionError("away")

    def write(self, messages: Any) -> Any:
        self.unsaved = 0
        self.before_call()
        text = f"{self.plan.pop(0) if self.plan else 'odd'} {self.answered}"
        return {"text": text, "input_tokens": TOKENS - 1, "output_tokens": 1}

    def judge(self, messages: Any) -> Any:
        if self.checkpoints == "step":  # else the draft is saved when it is judged
            self.unsaved = 0
        self.before_call()
        return {"text": "noted", "input_tokens": TOKENS - 1, "output_tokens": 1}

    def run(self, world: str, fault: Any, plan: list[str], sync: Any, later: Any = None) -> Any:
        """Run something until it ends or dies, and return what came out, if anything did."""
        self.fault, self.plan, self.calls, self.unsaved = fault, list(plan), 0, 0

        async def whole() -> Any:
            return await later()

        try:
            return sync() if world == "sync" else asyncio.run(whole())
        except (Killed, ConnectionError):
            return None
        finally:
            self.fault, self.changed = None, False

    # what a user does

    @rule(target=threads, given=limits, fault=faults, plan=st.lists(drafts, max_size=5), world=worlds)
    def start(self, given: Any, fault: Any, plan: list[str], world: str) -> Any:
        thread = Thread(self.graph, f"t{len(self.known)}")
        self.known[thread.thread_id] = []
        asked = {"task": "Write.", "limits": given}
        self.run(
            world,
            fault,
            plan,
            lambda: self.graph.invoke(asked, thread.config),
            lambda: self.graph.ainvoke(asked, thread.config),
        )
        return thread

    @rule(thread=threads, given=limits, fault=faults, plan=st.lists(drafts, max_size=5), world=worlds)
    def give_another_task(self, thread: Thread, given: Any, fault: Any, plan: list[str], world: str) -> None:
        asked = {"task": f"Write again {len(plan)}.", "limits": given}
        self.run(
            world,
            fault,
            plan,
            lambda: self.graph.invoke(asked, thread.config),
            lambda: self.graph.ainvoke(asked, thread.config),
        )

    @rule(thread=threads, given=st.none() | limits, fault=faults, plan=st.lists(drafts, max_size=5), world=worlds)
    def resume(self, thread: Thread, given: Any, fault: Any, plan: list[str], world: str) -> None:
        self.changed = given is not None
        output = self.run(world, fault, plan, lambda: thread.resume(given), lambda: thread.aresume(given))
        if output is not None:
            assert output["stop_reason"] in STOP_REASONS
            assert output["usage"] == usage_total(output["events"])

    @rule(thread=threads)
    def resume_of_an_ended_run_asks_nobody(self, thread: Thread) -> None:
        values = self.graph.get_state(thread.config).values
        if values.get("stop_reason") not in (None, "failed") and not self.graph.get_state(thread.config).next:
            before = self.answered
            thread.resume()
            assert self.answered == before

    @rule(
        target=threads,
        thread=threads,
        at=st.integers(0, 3),
        change=st.sampled_from([{}, {"feedback": "shorter"}, {"draft": "good by hand"}]),
        given=st.none() | limits,
        world=worlds,
    )
    def fork(self, thread: Thread, at: int, change: Any, given: Any, world: str) -> Any:
        events = self.events(thread)
        begun = events and events[-1]["kind"] != "task"
        if not begun or at not in [attempt.round for attempt in attempts(events)]:
            return multiple()
        changes = {**change, "limits": given, "thread_id": f"t{len(self.known)}"}
        branch = thread.fork(at=at, **changes) if world == "sync" else asyncio.run(thread.afork(at=at, **changes))
        self.known[branch.thread_id] = []
        assert self.events(thread) == events, "a fork changed its parent"
        return branch

    @rule(target=threads, thread=threads, fault=faults, plan=st.lists(drafts, max_size=5))
    def rerun(self, thread: Thread, fault: Any, plan: list[str]) -> Any:
        if not self.events(thread):
            return multiple()
        branch = Thread(self.graph, f"t{len(self.known)}")
        self.known[branch.thread_id] = []
        self.run("sync", fault, plan, lambda: thread.rerun(thread_id=branch.thread_id))
        return branch

    @rule(thread=consumes(threads))
    def forget(self, thread: Thread) -> None:
        """Leave a thread alone from here on: what becomes of the others is none of its business."""

    # what holds, always

    def events(self, thread: Thread) -> list[Any]:
        return list(self.graph.get_state(thread.config).values.get("events") or [])

    @invariant()
    def nothing_is_lost(self) -> None:
        counted: dict[str, int] = {}
        reused: dict[str, int] = {}
        for name, before in getattr(self, "known", {}).items():
            thread = Thread(self.graph, name)
            values = self.graph.get_state(thread.config).values
            events = list(values.get("events") or [])
            assert events[: len(before)] == before, "an event was changed or taken out"
            self.known[name] = events
            if not events:
                continue
            assert broken_links(events, values["head"]) == []
            replay = thread.replay()
            assert replay.matches, replay.differences
            self.check_run(current_run(events))
            counted |= {digest(event): event["usage"]["calls"] for event in events}
            reused |= {digest(event): event["usage"].get("reused_calls", 0) for event in events}
        if hasattr(self, "known"):
            again = sum(reused.values())
            assert again <= self.lost, "a reply was used again that no kill had cut off"
            assert sum(counted.values()) - again == self.answered - self.lost, "a paid call is not in a record"

    def check_run(self, run: Any) -> None:
        assert usage_total(run)["total_tokens"] == TOKENS * usage_total(run)["calls"]
        worth = (False, -1.0)
        for index, event in enumerate(run):
            tokens = limits_in_force(run).get("max_tokens")
            if event["kind"] == "verdict" and (best := best_draft(run[:index])) and best.judged:
                now = (best.accepted, -1.0 if best.score is None else best.score)
                assert now >= worth, "the best draft got worse"
                worth = now
            elif event["kind"] == "verdict" and event["stop_reason"] == "token_budget" and tokens is not None:
                assert usage_total(run[: index + 1])["total_tokens"] > 0


class ThreadsByRound(Threads):
    """The same with a checkpoint a round."""

    checkpoints = "round"


TestThreads, TestThreadsByRound = Threads.TestCase, ThreadsByRound.TestCase
FEWER = settings(max_examples=max(1, settings.default.max_examples // 10))  # type: ignore[union-attr]
TestThreads.settings = TestThreadsByRound.settings = FEWER
TestThreadsByRound.pytestmark = pytest.mark.slow  # type: ignore[attr-defined]


@pytest.mark.one_of_each("machine", "number")
@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("rerun", [False, True])
@pytest.mark.parametrize("given", [None, {"max_rounds": 3}])
@pytest.mark.parametrize("machine", [Threads, ThreadsByRound])
def test_a_reply_that_a_kill_cut_off_is_paid_once(machine: Any, number: int, rerun: bool, given: Any) -> None:
    """Whichever call it was: resumed, the run takes it from the journal, and the record says so."""
    world = machine()
    world.opened()
    try:
        thread = world.start(fault=None, given={"max_rounds": 0}, plan=["poor"], world="sync") if rerun else None
        if thread is None:
            thread = world.start(fault=(number, "kill after"), given={"max_rounds": 2}, plan=["poor"], world="sync")
        else:
            thread = world.rerun(fault=(min(number, 1), "kill after"), plan=["poor"], thread=thread)
        world.nothing_is_lost()
        before = world.answered
        world.resume(fault=None, given=given, plan=[], thread=thread, world="async")
        world.nothing_is_lost()
        again = 2 if machine is ThreadsByRound and (number == 1 or (rerun and number)) else 1  # a draft, judged
        assert sum(event["usage"].get("reused_calls", 0) for event in world.events(thread)) == again
        assert world.answered > before or rerun
    finally:
        world.teardown()
