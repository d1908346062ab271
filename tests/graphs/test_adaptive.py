"""Adaptive runs: what they choose, drafts side by side, and that they are resumed, replayed and forked."""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING, Any

import pytest
from redraft.graphs import build_adaptive_graph
from redraft.graphs.loop import build_refine_graph
from redraft.models import ScriptedModel, chat_model
from redraft.nodes import AdaptiveWriter, Arm, human_critic, uses_words, verifier_critic
from redraft.nodes.writing.prompts import PromptedModel
from redraft.state import Critique, Thread, open_checkpointer

if TYPE_CHECKING:
    from pathlib import Path

TASK = {"task": "Use river and lamp."}
ARMS = (Arm("sample", tries=1, drafts=2), Arm("revise", tries=1))


def evidence() -> Any:
    return verifier_critic(uses_words("river", "lamp"))


def pairs(model: Any, *, critic: Any = None, checkpointer: Any = None) -> Any:
    """A loop that asks for two samples side by side, then for a revision."""
    writers = {
        "sample": PromptedModel(model, "Write. {task}", what="sample"),
        "revise": PromptedModel(model, "Mend {draft}: {feedback}", what="revise"),
    }
    return build_refine_graph(
        model, refine=AdaptiveWriter(writers, ARMS), critics=[critic or evidence()], checkpointer=checkpointer
    )


def of(output: Any, kind: str) -> list[Any]:
    return [event for event in output["events"] if event["kind"] == kind]


def test_a_run_samples_then_revises_and_says_why(run: Any) -> None:
    """Each verdict says what is written next and why; a gain has its arm go on, and at the end the best draft stays."""
    model = ScriptedModel(["A boat.", "A boot.", "A river.", "A pond.", "A lake.", "A river, again.", "A river. Yes."])
    arms = [Arm("sample", tries=2), Arm("revise", tries=2)]
    output = run(build_adaptive_graph(model, critics=[evidence()], arms=arms), {**TASK, "limits": {"max_rounds": 9}})
    assert [verdict["text"] for verdict in of(output, "verdict")] == [
        "Next: sample, the first way to try.",
        "Next: sample, after sample (1 in vain).",
        "Next: sample, it brought the last gain.",
        "Next: sample, it brought the last gain.",
        "Next: revise, after sample (2 in vain).",
        "Next: revise, after sample (2 in vain), revise (1 in vain).",
        "No way to go on is left: sample (2), revise (2) brought nothing better.",
    ]
    assert [revision["refiner"] for revision in of(output, "revision")] == ["sample"] * 4 + ["revise"] * 2
    asked = [call[0].text for call in model.calls]
    assert asked[1:5] == asked[:1] * 4
    assert "These words are missing: lamp." in asked[5]
    assert ["base" in revision for revision in of(output, "revision")] == [False] * 4 + [True] * 2
    assert (output["answer"], output["stop_reason"]) == ("A river.", "no_progress")


def test_an_accepted_draft_and_one_that_nobody_can_judge_cost_one_call(run: Any) -> None:
    """Where the evidence accepts the first draft, or can't tell, nothing more is written and the draft stays."""
    model = ScriptedModel(["A river and a lamp."])
    assert run(build_adaptive_graph(model, critics=[evidence()]), TASK)["stop_reason"] == "accepted"
    model = ScriptedModel(["A river."])
    output = run(build_adaptive_graph(model, critics=[verifier_critic(lambda task, draft: None)]), TASK)
    assert (output["answer"], output["stop_reason"], len(model.calls)) == ("A river.", "no_progress", 1)
    assert "No critic could tell anything" in of(output, "verdict")[-1]["text"]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"critics": []}, "adaptive chooses by evidence: give"),
        ({"critics": [human_critic()]}, "adaptive chooses by evidence: give"),
        ({"arms": [Arm("guess", 1)]}, "arms are 'sample', 'mend' and 'rewrite' here, not 'guess'"),
        ({"arms": []}, "arms and writers must have the same names"),
        ({"arms": [Arm("sample", 1), Arm("sample", 2)]}, "each once"),
        ({"arms": [Arm("sample", 0)]}, "tries and drafts of an arm must be 1 or more"),
        ({"arms": [Arm("sample", 1, drafts=0)]}, "tries and drafts of an arm must be 1 or more"),
    ],
    ids=["no critics", "a person alone", "another arm", "no arm", "twice", "no tries", "no drafts"],
)
def test_what_could_choose_nothing_is_refused_at_build(given: Any, says: str) -> None:
    """A graph without evidence, or with arms that make no sense, is refused before anything is paid."""
    with pytest.raises(ValueError, match=says):
        build_adaptive_graph(ScriptedModel([]), **{"critics": [evidence()], **given})
    with pytest.raises(TypeError, match="the writer of 'a' must be a Runnable"):
        AdaptiveWriter({"a": len}, [Arm("a", 1)])  # type: ignore[dict-item]


def test_samples_of_one_step_are_asked_side_by_side(run: Any, serve: Any) -> None:
    """Both requests are open at once, each with a seed of its own and its own tokens, and each draft is judged."""
    together, counting = threading.Barrier(2, timeout=60), threading.Lock()
    seeds: list[int] = []

    def reply(request: Any) -> dict[str, Any]:
        with counting:
            seeds.append(request["seed"])
            number = len(seeds)
        if number > 1:
            together.wait()
        return {"text": f"A river, {number} times.", "input_tokens": number, "output_tokens": 10 * number}

    server = serve(reply)
    output = run(pairs(chat_model(server.spec, seed=40, temperature=1)), {**TASK, "limits": {"max_rounds": 2}})
    assert len(set(seeds)) == 3
    drafts = [(one["text"], one["usage"]["input_tokens"], one["usage"]["calls"]) for one in of(output, "revision")]
    assert sorted(drafts) == [("A river, 2 times.", 2, 1), ("A river, 3 times.", 3, 1)]
    assert [critique["round"] for critique in of(output, "critique")] == [0, 1, 2]
    assert output["usage"]["total_tokens"] == 1 + 2 + 3 + 10 + 20 + 30


def test_the_first_accepted_draft_of_a_step_ends_the_judging(run: Any) -> None:
    """Of two drafts side by side the second is judged only where the first is not accepted."""
    both = {"A river, a lamp.", "A lamp, a river."}
    output = run(pairs(ScriptedModel(["A boat.", *both])), TASK)
    assert (output["stop_reason"], output["rounds"]) == ("accepted", 2)
    assert {revision["text"] for revision in of(output, "revision")} == both
    assert [(critique["round"], critique["accepted"]) for critique in of(output, "critique")] == [(0, False), (1, True)]
    assert output["answer"] == of(output, "revision")[0]["text"]


def test_a_sample_that_fails_leaves_the_other_paid_once(run: Any, checkpointer_url: str) -> None:
    """Where one of two requests breaks, resume asks for that one alone, and the step counts as one try."""
    model = ScriptedModel(["A boat.", "A river.", ConnectionError("lost"), "A lamp.", "A river, a lamp."])
    with open_checkpointer(checkpointer_url) as saver:
        graph = pairs(model, checkpointer=saver)
        thread = Thread(graph, "t")
        assert run(graph, TASK, thread.config)["stop_reason"] == "failed"
        output = thread.resume()
        assert (output["stop_reason"], output["answer"]) == ("accepted", "A river, a lamp.")
        assert {revision["text"] for revision in of(output, "revision")} >= {"A river.", "A lamp."}
        assert len(model.calls) == 5
        assert thread.replay().matches


KILLED = """
import os, signal, sys
sys.path.insert(0, {here!r})
from redraft.models import chat_model
from redraft.state import Critique, open_checkpointer
from test_adaptive import TASK, pairs, scored, verifier_critic

def judge(task, draft):
    if draft == "D":
        os.kill(os.getpid(), signal.SIGKILL)
    return scored(task, draft)

with open_checkpointer({url!r}) as saver:
    graph = pairs(chat_model({spec!r}), critic=verifier_critic(judge), checkpointer=saver)
    graph.invoke(TASK, {{"configurable": {{"thread_id": "t"}}}})
"""


def scored(task: str, draft: str) -> Critique:
    return Critique("More.", accepted=draft == "C", score=0.1 * "DBAC".index(draft))


def test_a_run_killed_while_it_judges_drafts_side_by_side_is_resumed(serve: Any, forking: Any, tmp_path: Path) -> None:
    """After SIGKILL between the judgements of two drafts, both are judged on resuming, and no reply is paid again."""
    asked: list[str] = []

    def reply(request: Any) -> str:
        text = str(request["messages"][-1]["content"])
        asked.append(text)
        return "C" if text.startswith("Mend") else "ABD"[len(asked) - 1]

    server, url = serve(reply), str(tmp_path / "runs.sqlite")
    code = KILLED.format(here=os.path.dirname(__file__), url=url, spec=server.spec)
    assert forking.run(["-c", code]).returncode == -signal.SIGKILL
    with open_checkpointer(url) as saver:
        thread = Thread(
            pairs(chat_model(server.spec), critic=verifier_critic(scored, name="judge"), checkpointer=saver), "t"
        )
        output = thread.resume()
        assert thread.replay().matches
    assert (output["answer"], output["stop_reason"], len(asked)) == ("C", "accepted", 4)


def test_a_fork_keeps_what_was_said_about_the_drafts_side_by_side() -> None:
    """Forked at either draft of a step, with words or a text of one's own or as it is, nothing is judged twice, the
    draft of the same step still counts, and a person's word is followed."""
    replies = ["A boat.", "A river.", "A lake.", *(f"Text {number}." for number in range(30))]
    with open_checkpointer("memory") as saver:
        model = ScriptedModel(replies)
        graph = pairs(model, checkpointer=saver)
        thread = Thread(graph, "t")
        first = of(graph.invoke({**TASK, "limits": {"max_rounds": 3}}, thread.config), "revision")
        for at, change in ((1, {}), (2, {}), (2, {"feedback": "Shorter."}), (1, {"draft": "My lake."}),
                           (2, {"draft": "My lake."})):  # fmt: skip
            fork = thread.fork(at=at, **change)
            output = fork.resume()
            assert fork.replay().matches
            judged = [critique["round"] for critique in of(output, "critique") if critique["round"] <= at]
            assert judged == [*range(at + 1)]
            texts = [revision["text"] for revision in of(output, "revision")][:at]
            expected = [revision["text"] for revision in first][:at]
            assert texts == [*expected[:-1], change.get("draft", expected[-1])]
            if "feedback" in change:
                told = f"Mend {expected[-1]}: These words are missing: river, lamp.\n\nShorter.\n\n"
                assert any(call[0].text.startswith(told) for call in model.calls)
