"""Critics as people write them: what is refused at once, what is mended, and what a person's word is worth."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from langchain_core.language_models import FakeListChatModel
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from redraft.graphs.loop import build_refine_graph
from redraft.models import ScriptedModel
from redraft.nodes import uses_words
from redraft.nodes.critics.critics import human_critic, model_critic, verifier_critic
from redraft.nodes.writing.replies import rejection
from redraft.state import Critique
from redraft.state.schema import RefineState

THREAD: Any = {"configurable": {"thread_id": "t"}}


def objects(task: str, draft: str, history: Any, /) -> Critique:
    return Critique("Not good enough.", accepted=False, score=0.2)


@pytest.mark.parametrize(
    "critic",
    [uses_words("river"), lambda task, draft: Critique(""), "strict"],
    ids=["a verifier", "a lambda", "a word"],
)
def test_what_is_no_critic_is_refused_at_build(critic: Any) -> None:
    """Whoever forgets `verifier_critic(…)` reads so before a model is paid."""
    with pytest.raises(TypeError, match=r"verifier_critic\(…\)"):
        build_refine_graph(ScriptedModel([]), critics=[critic])


async def waits(task: str, draft: str, /) -> Critique:
    return Critique("")


def test_an_async_verifier_is_refused_at_build() -> None:
    """A verifier is a plain function; an async check is told to be a critic."""
    with pytest.raises(TypeError, match="a verifier is a plain function"):
        verifier_critic(waits)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "critique",
    [
        lambda: Critique(None, accepted=False),  # type: ignore[arg-type]
        lambda: Critique("x", accepted="yes"),  # type: ignore[arg-type]
        lambda: Critique("x", score=7),
        lambda: Critique("x", score="high"),  # type: ignore[arg-type]
        lambda: Critique("x", by=5),  # type: ignore[arg-type]
        lambda: Critique("x", evidence={"seen": {1}}),
        lambda: "just words",
    ],
)
def test_an_odd_critique_ends_the_run_with_its_draft(critique: Any) -> None:
    """A critic with a bug ends the run with `failed`, the paid draft and the reason; nothing is lost."""
    graph = build_refine_graph(ScriptedModel(["a draft"]), critics=[lambda task, draft, history: critique()])
    output = graph.invoke({"task": "Write."})
    assert (output["answer"], output["stop_reason"]) == ("a draft", "failed")
    failures = [event for event in output["events"] if event["kind"] == "failure"]
    assert [event["error"] for event in failures] in (["ValueError"], ["TypeError"])


@pytest.mark.parametrize(
    ("verdict", "accepted", "score", "text"),
    [
        (True, True, 1.0, ""),
        (False, False, 0.0, "The draft does not pass 'check': It rhymes."),
        (0.5, False, 0.5, "The draft does not pass 'check': It rhymes."),
        (1, True, 1.0, ""),
        ((False, "Name the river."), False, 0.0, "Name the river."),
        ((0.25, "Name the river."), False, 0.25, "Name the river."),
        ((True, "Well done."), True, 1.0, "Well done."),
        (Fraction(1, 2), False, 0.5, "The draft does not pass 'check': It rhymes."),
    ],
)
def test_a_verifier_may_say_it_in_few_words(verdict: Any, accepted: bool, score: float, text: str) -> None:
    """A truth value or a score, alone or with what to mend, is a whole critique."""

    def check(task: str, draft: str) -> Any:
        """It rhymes."""
        return verdict

    critique = verifier_critic(check)("Write.", "A lamp.", ())
    assert isinstance(critique, Critique)
    assert (critique.accepted, critique.score, critique.text) == (accepted, score, text)


@pytest.mark.parametrize(
    ("verdict", "reason"), [(True, "accepted"), (0.5, "max_rounds"), ((False, "mend"), "max_rounds")]
)
def test_a_function_in_the_critics_place_may_say_it_in_few_words(verdict: Any, reason: str) -> None:
    """`feedback=` takes the verdicts of a verifier; one that takes no state is refused at build, and so is
    a model in place of a list of critics."""
    graph = build_refine_graph(ScriptedModel(["A lamp."]), feedback=lambda state: verdict, limits={"max_rounds": 0})
    output = graph.invoke({"task": "Write."})
    assert (output["stop_reason"], output["error"]) == (reason, None)
    with pytest.raises(TypeError, match="feedback is a callable that takes the state"):
        build_refine_graph(ScriptedModel([]), feedback=lambda: verdict)
    with pytest.raises(TypeError, match=r"critics must be a list, as in critics=\[…\], not ScriptedModel"):
        build_refine_graph(ScriptedModel([]), critics=ScriptedModel([]))  # type: ignore[arg-type]


@pytest.mark.parametrize("verdict", ["bad", 2, -0.1, float("nan"), (False, 3), ("no", "mend"), [True], {"ok": True}])
def test_a_verifier_that_says_something_else_ends_the_run_with_the_reason(
    verdict: Any, run: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """At its first call it raises; `out["error"]` and the log name it and say what it may return."""
    graph = build_refine_graph(ScriptedModel(["A lamp."]), verifiers=[verifier_named("rhymes", verdict)])
    output = run(graph, {"task": "Write."})
    assert (output["stop_reason"], output["answer"]) == ("failed", "A lamp.")
    assert output["error"].startswith("rhymes: TypeError: the verifier 'rhymes' must return True, False, a score")
    assert caplog.messages == [f"a run ended as failed: {output['error']}"]


def verifier_named(name: str, verdict: Any) -> Any:
    def check(task: str, draft: str) -> Any:
        return verdict

    check.__name__ = name
    return check


def test_numbers_of_other_kinds_are_read() -> None:
    """A score may be a Decimal, and usage may name only what it knows."""
    critique = Critique("x", score=Decimal("0.5"), usage={"calls": 1, "total_tokens": 9})  # type: ignore[arg-type, typeddict-item]
    assert critique.score == 0.5
    assert type(critique.score) is float
    assert critique.usage
    assert (critique.usage["calls"], critique.usage["input_tokens"]) == (1, 0)


def test_a_critic_that_runs_out_of_items_does_not_hang() -> None:
    """`next()` without a default in a critic fails the run, in async graphs too."""

    def first(task: str, draft: str, history: Any, /) -> Critique:
        return next(iter(()))

    graph = build_refine_graph(ScriptedModel(["a draft"] * 2), critics=[first])
    for output in (graph.invoke({"task": "Write."}), asyncio.run(graph.ainvoke({"task": "Write."}))):
        assert (output["answer"], output["stop_reason"]) == ("a draft", "failed")


def test_a_person_has_the_last_word() -> None:
    """What a person accepts is accepted, whatever the other critics said; their opinions are in the question."""
    graph = build_refine_graph(
        ScriptedModel(["a draft"]), critics=[objects, human_critic()], checkpointer=InMemorySaver()
    )
    asked = graph.invoke({"task": "Write."}, THREAD)["__interrupt__"][0].value
    assert asked["critiques"] == [{"by": "objects", "text": "Not good enough.", "accepted": False, "score": 0.2}]
    output = graph.invoke(Command(resume="accept"), THREAD)
    assert (output["stop_reason"], output["accepted_by"], output["rounds"]) == ("accepted", "human", 0)


@pytest.mark.parametrize("reply", [{"action": "agree"}, "", True, {"action": "feedback", "text": "x", "score": 7}])
def test_a_reply_that_can_not_be_read_is_asked_for_again(reply: Any) -> None:
    """A wrong reply costs nothing: the run goes on waiting, and the question says what was wrong."""
    graph = build_refine_graph(ScriptedModel(["a draft"]), critics=[human_critic()], checkpointer=InMemorySaver())
    graph.invoke({"task": "Write."}, THREAD)
    again = graph.invoke(Command(resume=reply), THREAD)["__interrupt__"][0].value
    assert again["draft"] == "a draft"
    assert again["error"]
    assert graph.invoke(Command(resume="accept"), THREAD)["stop_reason"] == "accepted"


@pytest.mark.parametrize(("most", "ends"), [(1000, ("max_rounds", 1)), (20, ("token_budget", 0))])
def test_a_model_that_reports_no_tokens_is_held_to_a_budget_all_the_same(most: int, ends: Any) -> None:
    """Its tokens are counted here, about one for four bytes, and the usage says of how many calls."""
    graph = build_refine_graph(FakeListChatModel(responses=["a" * 80, "b" * 80]), critics=[objects])
    output = graph.invoke({"task": "Write.", "limits": {"max_tokens": most, "max_rounds": 1}})
    assert (output["stop_reason"], output["rounds"]) == ends
    usage = output["usage"]
    assert usage["counted_here"] == usage["calls"] == 1 + ends[1]
    assert usage["uncounted_calls"] == 0
    assert 20 <= usage["output_tokens"] / usage["calls"] <= 30


def test_the_oracle_mark_and_the_evidence_reach_the_record() -> None:
    """A verifier that knows the gold answer marks the result, with a score of its own or without."""
    check = verifier_critic(
        lambda task, draft: Critique("", accepted=True, evidence={"rows": 3}), name="gold", oracle=True
    )
    output = build_refine_graph(ScriptedModel(["a draft"]), critics=[check]).invoke({"task": "Write."})
    assert (output["oracle"], output["accepted_by"], output["score"]) == (True, "gold (oracle)", 1.0)
    assert [event["evidence"] for event in output["events"] if event["kind"] == "critique"] == [{"rows": 3}]


def test_limits_written_in_part_are_filled_up() -> None:
    """LangGraph's own `update_state` may set one limit; the others keep their defaults."""
    graph = build_refine_graph(ScriptedModel(list("abcd")), critics=[objects], checkpointer=InMemorySaver())
    graph.invoke({"task": "Write."}, THREAD, interrupt_before=["check"])
    graph.update_state(THREAD, {"limits": {"max_tokens": 10_000}})
    assert graph.invoke(None, THREAD)["stop_reason"] == "max_rounds"


def test_a_model_in_a_wrapper_judges_by_text() -> None:
    """`with_retry()` hides structured output; the critic then reads the stop phrase."""
    model = ScriptedModel(["no issues"]).with_retry()
    verdict = model_critic(model)("Write.", "a draft", ())  # type: ignore[arg-type]
    assert verdict.accepted is True


class WithDocuments(RefineState):
    documents: list[str]


def test_nodes_of_ones_own_keep_their_keys() -> None:
    """With `state_schema=` what `prepare` finds reaches the writer."""

    def write(state: Any) -> str:
        return f"From {state['documents'][0]}."

    graph = build_refine_graph(
        generate=write,
        refine=write,
        critics=[verifier_critic(uses_words("atlas"))],
        prepare=lambda state: {"documents": ["the atlas"]},
        state_schema=WithDocuments,
    )
    assert graph.invoke({"task": "Write."})["answer"] == "From the atlas."


@pytest.mark.parametrize(
    "text",
    [
        "I can't help falling in love with you.",
        "The answer is correct because 2 + 2 = 4.",
        "I can't help it, she said.",
    ],
)
def test_a_text_that_only_begins_like_a_refusal_is_a_draft(text: str) -> None:
    """A lyric and a short verdict are drafts, and no refusals."""
    assert not rejection(text, earlier=[])


@pytest.mark.parametrize("text", ["I'm sorry, but I can't help with that.", "I cannot assist.", "I can't help you."])
def test_refusals_are_still_seen(text: str) -> None:
    """What says that it won't do the task is no draft."""
    assert rejection(text, earlier=[]) == "refused"
