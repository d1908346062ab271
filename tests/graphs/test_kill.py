"""A run killed with SIGKILL at any moment is resumed, and nothing that was finished is paid again."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from redraft.graphs.loop import build_refine_graph
from redraft.models import chat_model
from redraft.state import Thread, open_checkpointer

HERE = Path(__file__).parent
CALLS = 4
"""generate, feedback, refine, feedback"""


class Judge:
    """Answers by what is asked, so that a call's answer does not depend on how often it is made."""

    def __init__(self) -> None:
        self.kill_at_call = 0
        self.victim: Any = None
        self.calls = 0

    def __call__(self, request: dict[str, Any]) -> str | dict[str, Any]:
        self.calls += 1
        if self.calls == self.kill_at_call:
            while self.victim is None:
                pass
            os.kill(self.victim.pid, signal.SIGKILL)
            return {"drop": True}
        asked = str(request["messages"][-1]["content"])
        judged = '{"feedback": "%s", "score": %s, "accepted": %s}'
        if asked.startswith("You check"):
            good = "river, a lamp" in asked
            return judged % (("", 1, "true") if good else ("The lamp is missing.", 0.5, "false"))
        return "a river, a lamp" if "The lamp is missing." in asked else "a river"


@pytest.fixture
def check_resume(serve: Any, forking: Any) -> Any:
    """Run until killed at a moment, resume, and compare with a run that was never killed."""
    return functools.partial(_check_resume, serve, forking)


MOMENTS = [
    *(f"node:{node}" for node in ("prepare", "generate", "feedback", "check", "refine")),
    *(f"put:{number}" for number in (2, 3, 4, 5, 6, 7, 9)),
    *(f"call:{number}" for number in range(1, CALLS + 1)),
]
OF_EACH_KIND = ("node:check", "put:5", "call:2")


@pytest.mark.parametrize(
    "moment", [pytest.param(moment, marks=[] if moment in OF_EACH_KIND else pytest.mark.slow) for moment in MOMENTS]
)
def test_on_sqlite_a_killed_run_ends_as_if_never_killed(moment: str, tmp_path: Path, check_resume: Any) -> None:
    """After SIGKILL inside a node, or between its writes and the next checkpoint, resume ends the run; the model
    server's log shows that no finished call was made again."""
    check_resume(str(tmp_path / "runs.sqlite"), moment)


@pytest.mark.one_of_each("begun")
@pytest.mark.parametrize("begun", ["round", "round to step"])
@pytest.mark.parametrize("moment", ["node:feedback", "node:check", "put:4", "put:5", "call:2", "call:4"])
def test_a_run_killed_with_a_checkpoint_a_round_goes_on(
    begun: str, moment: str, tmp_path: Path, check_resume: Any, request: pytest.FixtureRequest
) -> None:
    """Nothing is paid again either, and a thread of one setting goes on with the other: the journal has each reply."""
    if begun == "round":
        request.getfixturevalue("a_checkpoint_a_round")
    check_resume(str(tmp_path / "runs.sqlite"), moment, checkpoints="round")


@pytest.mark.one_of_each
@pytest.mark.parametrize("moment", ["node:check", "put:4", "call:3"])
def test_on_postgres_a_killed_run_ends_as_if_never_killed(moment: str, postgres_url: str, check_resume: Any) -> None:
    """The same on PostgreSQL."""
    check_resume(postgres_url, moment)


@pytest.mark.one_of_each
@pytest.mark.parametrize("moment", ["put:4", "call:3"])
def test_an_asynchronous_run_is_resumed_asynchronously(moment: str, tmp_path: Path, check_resume: Any) -> None:
    """The same with `ainvoke` and `aresume`."""
    check_resume(str(tmp_path / "runs.sqlite"), moment, "async")


@pytest.mark.one_of_each
@pytest.mark.parametrize("moment", ["put:4", "put:9", "node:refine"])
def test_a_killed_run_can_be_resumed_with_other_limits(moment: str, tmp_path: Path, check_resume: Any) -> None:
    """New limits on a run killed in mid-step lose nothing that was saved."""
    check_resume(str(tmp_path / "runs.sqlite"), moment, limits={"max_rounds": 7})


@pytest.mark.one_of_each
@pytest.mark.parametrize("how", ["sync", "async"])
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_no_tool_call_that_was_finished_is_made_again(durability: str, how: str, tmp_path: Path, forking: Any) -> None:
    """Of four charges in one message, a kill in the last makes only that one again, and with the key that it had."""
    charges = tmp_path / "charges"
    words = [HERE / "killed_tools.py", tmp_path / "runs.sqlite", charges, durability, how]
    with forking.start([*words, "yes"]) as victim:
        assert victim.wait(60) == -signal.SIGKILL
    with forking.start([*words, "no"], stdout=subprocess.PIPE) as again:
        output = json.loads(again.communicate(timeout=60)[0])
    assert output == {"answer": "All charged.", "calls": 3}
    made = [line.split() for line in charges.read_text().splitlines()]
    assert sorted(amount for amount, _ in made) == ["1", "2", "2", "3", "3"]
    keys = {key for _, key in made}
    assert len(keys) == 4
    assert "None" not in keys
    assert made[-1] == made[-2]


def _check_resume(
    serve: Any,
    forking: Any,
    database: str,
    moment: str,
    *asynchronous: str,
    limits: dict[str, Any] | None = None,
    checkpoints: str = "step",
) -> None:
    judge = Judge()
    if moment.startswith("call:"):
        judge.kill_at_call = int(moment.partition(":")[2])
    server = serve(judge)
    words = [HERE / "killed_run.py", database, server.spec, moment, checkpoints, *asynchronous]
    with forking.start(words) as judge.victim:
        assert judge.victim.wait(60) == -signal.SIGKILL
    with open_checkpointer(database) as saver:
        thread = Thread(build_refine_graph(chat_model(server.spec), checkpointer=saver), "killed")
        output: Any = asyncio.run(thread.aresume(limits)) if asynchronous else thread.resume(limits)
        assert thread.replay().matches

    assert (output["answer"], output["stop_reason"], output["rounds"]) == ("a river, a lamp", "accepted", 1)
    assert output["usage"]["calls"] == CALLS
    in_flight = 1 if moment.startswith("call:") else 0
    assert judge.calls == CALLS + in_flight
    kinds = [event["kind"] for event in output["events"]]
    assert kinds == ["task", "draft", "critique", "verdict", "revision", "critique", "verdict"]
