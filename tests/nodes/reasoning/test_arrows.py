"""Arrows from branch to branch: one step at a time, in loops, safe and side by side."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.runnables import Runnable, RunnableLambda
from redraft.graphs.reasoning import (
    InParallel,
    best_branch,
    critique,
    draft,
    improve,
    load_documents,
    refinement_loop,
    safe,
)
from redraft.models import ScriptedModel
from redraft.nodes.reasoning.arrows import ArrowError
from redraft.nodes.reasoning.branches import Branch, Draft, Final, ReasoningCritique
from redraft.state.summary import usage_total

if TYPE_CHECKING:
    from pathlib import Path

TOPIC = Branch("main").with_topic("Microservices")
NOTHING = "No draft or previous improvement found to "


def scored(text: str, score: float) -> str:
    return json.dumps({"feedback": text, "score": score})


@pytest.fixture(params=["invoke", "ainvoke"])
def go(request: pytest.FixtureRequest) -> Any:
    """Runs an arrow on a branch, synchronously and asynchronously."""

    def call(arrow: Runnable[Any, Any], given: Any) -> Any:
        return arrow.invoke(given) if request.param == "invoke" else asyncio.run(arrow.ainvoke(given))

    return call


def test_arrows_compose_with_a_bar_and_run_one_at_a_time(go: Any) -> None:
    """`draft | critique | improve` gives what the three steps give one after the other."""
    model = ScriptedModel(["a", "b", "c"] * 2)
    whole = go(draft(model) | critique(model) | improve(model), TOPIC)
    assert whole.reasoning_events() == [Draft("a"), ReasoningCritique("b"), Final("c")]

    one = go(draft(model), TOPIC)
    two = go(critique(model), one)
    assert (one.reasoning_events(), two.reasoning_events()) == ([Draft("a")], [Draft("a"), ReasoningCritique("b")])
    assert go(improve(model), two).reasoning_events() == whole.reasoning_events()
    assert len(model.calls) == 6


@pytest.mark.parametrize("iterations", [0, 1, 3])
def test_a_loop_of_n_makes_1_plus_2n_calls(go: Any, iterations: int) -> None:
    """N iterations are a draft and N times critique and final, for exactly 1 + 2N model calls."""
    model = ScriptedModel([f"text {number}" for number in range(20)])
    branch = go(refinement_loop(model, iterations=iterations), TOPIC)
    assert [event.kind for event in branch.reasoning_events()] == ["draft", *["critique", "final"] * iterations]
    assert len(model.calls) == 1 + 2 * iterations


def test_a_loop_goes_on_with_the_draft_there_is(go: Any) -> None:
    """A branch that has a draft is not drafted again: the loop criticises and improves it."""
    model = ScriptedModel(["a", "b", "c"])
    branch = go(draft(model) | refinement_loop(model, iterations=1), TOPIC)
    assert branch.reasoning_events() == [Draft("a"), ReasoningCritique("b"), Final("c")]


def test_each_step_works_on_the_most_recent_text(go: Any) -> None:
    """A critique and an improvement see the newest draft or final: never a critique, and no older draft."""
    model = ScriptedModel(["alpha", "flaw one", "beta", "flaw two", "gamma"])
    go(refinement_loop(model, iterations=2), TOPIC)
    asked = ["\n".join(message.text for message in call) for call in model.calls]
    assert all("alpha" in text for text in asked[1:3])
    assert "flaw one" in asked[2]
    assert all("beta" in text for text in asked[3:])
    assert "flaw two" in asked[4]
    assert not any("alpha" in text or "flaw one" in text for text in asked[3:])


def test_a_second_critique_is_asked_for_and_both_are_met(go: Any) -> None:
    """Whoever criticises a text twice gets two critiques, and the improvement is told both."""
    model = ScriptedModel(["a", "flaw one", "flaw two", "b"])
    branch = go(draft(model) | critique(model) | critique(model) | improve(model), TOPIC)
    assert [event.kind for event in branch.reasoning_events()] == ["draft", "critique", "critique", "final"]
    assert "flaw one\n\nflaw two" in model.calls[3][-1].text


@pytest.mark.parametrize("step", [critique, improve])
def test_with_nothing_to_work_on_the_branch_stays_as_it_is(go: Any, step: Any) -> None:
    """Without a draft a critique or an improvement changes nothing and asks nobody; the safe variant says why."""
    model = ScriptedModel([])
    assert go(step(model), TOPIC) == TOPIC
    result = go(safe(step(model)), TOPIC)
    assert (result.ok, result.message) == (False, NOTHING + step.__name__)


def test_an_improvement_needs_a_critique_of_that_very_text(go: Any) -> None:
    """A draft that nobody criticised, or that was improved since, is not improved by an old critique."""
    model = ScriptedModel(["a", "b", "c"])
    assert go(draft(ScriptedModel(["a"])) | improve(model), TOPIC).reasoning_events() == [Draft("a")]
    improved = go(draft(model) | critique(model) | improve(model), TOPIC)
    assert go(improve(ScriptedModel([])), improved) == improved
    assert "No critique of the most recent draft" in go(safe(improve(ScriptedModel([]))), improved).message


def test_safe_variants_compose_and_stop_at_the_first_failure(go: Any) -> None:
    """A safe chain never raises: the first failure comes out as a message, and no later step is asked."""
    model = ScriptedModel(["a", RuntimeError("no connection"), "c"])
    result = go(safe(draft(model)) | safe(critique(model)) | safe(improve(model)), TOPIC)
    assert result.match(lambda branch: branch.name, lambda message: message) == (
        "feedback failed: RuntimeError: no connection"
    )
    assert len(model.calls) == 2
    whole = go(safe(draft(model) | critique(ScriptedModel([ValueError("bad")])) | improve(model)), TOPIC)
    assert not whole.ok
    assert "bad" in whole.message


def test_a_safe_chain_that_succeeds_holds_the_branch(go: Any) -> None:
    """Where all goes well the result is the branch, also of a loop and from the result of another safe arrow."""
    model = ScriptedModel(["a", "b", "c", "d", "e"])
    result = go(safe(draft(model)) | safe(refinement_loop(model, iterations=2)), TOPIC)
    assert result.match(lambda branch: branch.latest.text, lambda message: message) == "e"


def test_a_step_that_fails_keeps_what_was_done_before_it(go: Any) -> None:
    """The error of a plain arrow carries the branch, with the draft that was paid for and the failure on record."""
    model = ScriptedModel(["a", RuntimeError("no connection")])
    with pytest.raises(ArrowError, match="no connection") as raised:
        go(draft(model) | critique(model), TOPIC)
    assert raised.value.branch.latest
    assert raised.value.branch.latest.text == "a"
    assert raised.value.branch.events[-1]["kind"] == "failure"


def test_a_branch_needs_a_topic_to_be_drafted(go: Any) -> None:
    """A draft about nothing is refused by the name of the branch, and is a failure in the safe variant."""
    with pytest.raises(ValueError, match=r"branch 'main' has no topic.*with_topic"):
        go(draft(ScriptedModel([])), Branch("main"))
    assert "has no topic" in go(safe(draft(ScriptedModel([]))), Branch("main")).message


def test_iteration_stops_early_at_the_threshold(go: Any) -> None:
    """A text that the critic scores at the threshold or above is not improved any further."""
    model = ScriptedModel(["a", scored("meh", 0.4), "b", scored("good", 0.8), "c"])
    branch = go(refinement_loop(model, iterations=3, threshold=0.8), TOPIC)
    assert [event.text for event in branch.reasoning_events()] == ["a", "meh", "b", "good"]
    assert branch.best is not None
    assert (branch.best.accepted, branch.best.score, len(model.calls)) == (True, 0.8, 4)


@pytest.mark.parametrize("reply", ["I would give it 0.95, no issues", '{"feedback": "", "score": 7}', "{}", ""])
def test_a_score_that_can_not_be_read_accepts_nothing(go: Any, reply: str) -> None:
    """Praise without a readable score ends nothing: iteration goes on, and the record says that it was unreadable."""
    model = ScriptedModel(["a", {"text": reply}, "b"])
    branch = go(refinement_loop(model, iterations=1, threshold=0.5), TOPIC)
    assert [event.kind for event in branch.reasoning_events()] == ["draft", "critique", "final"]
    assert "could not be read" in branch.reasoning_events()[1].text


@pytest.mark.parametrize("praise", ["No issues.", "Looks good to me!", "Accepted."])
def test_no_words_of_praise_end_a_loop_without_a_threshold(go: Any, praise: str) -> None:
    """Where nobody gave a threshold all iterations run, whatever the critic says."""
    model = ScriptedModel(["a", praise, "b", praise, "c"])
    assert len(go(refinement_loop(model, iterations=2), TOPIC).reasoning_events()) == 5


def test_prompts_differ_by_iteration(go: Any) -> None:
    """Several prompts are used one an iteration, and the last one from then on."""
    model = ScriptedModel([f"text {number}" for number in range(7)])
    arrow = refinement_loop(
        model,
        iterations=3,
        critique_prompt=["be kind: {draft}", "be strict: {draft}"],
        improve_prompt=["mend: {draft} {feedback}", "polish: {draft} {feedback}"],
    )
    go(arrow, TOPIC)
    assert [call[0].text.split(":")[0] for call in model.calls[1:]] == [
        "be kind", "mend", "be strict", "polish", "be strict", "polish",
    ]  # fmt: skip


def test_passages_are_looked_up_once_and_stand_in_every_prompt(go: Any) -> None:
    """Three iterations on one query ask the retriever once; every prompt and the record hold what it found."""
    asked = []
    model = ScriptedModel([f"text {number}" for number in range(7)])

    def look(query: str) -> list[str]:
        asked.append(query)
        return ["services are small", "and many"]

    branch = go(refinement_loop(model, k=1), TOPIC.with_documents(look))
    assert asked == ["Microservices"]
    assert all("[1] services are small" in call[0].text and "and many" not in call[0].text for call in model.calls)
    assert [event["kind"] for event in branch.events[:3]] == ["task", "retrieval", "draft"]


def test_another_query_is_looked_up_between_two_steps(go: Any) -> None:
    """A query set between two steps brings other passages for the steps after it, and only for those."""
    model = ScriptedModel(["a", "b"])
    drafted = go(draft(model), TOPIC.with_documents(lambda query: [f"about {query}"]))
    go(critique(model), drafted.with_query("queues"))
    assert "about Microservices" in model.calls[0][0].text
    assert "about queues" in model.calls[1][0].text


def test_branches_run_at_the_same_time_and_the_best_is_selected(go: Any) -> None:
    """Independent branches are refined side by side; the best by score, or by your criterion, goes on."""
    meeting = threading.Barrier(2, timeout=20)  # passes only when both are under way

    def wait(branch: Branch) -> Branch:
        meeting.wait()
        return branch

    def arrows() -> list[Any]:
        weak = ScriptedModel(["weak but long", scored("bad", 0.2), "weaker still and longer"])
        strong = ScriptedModel(["strong", scored("fine", 0.9)])
        return [RunnableLambda(wait) | refinement_loop(one, iterations=1, threshold=0.8) for one in (weak, strong)]

    best = go(InParallel(*arrows()), TOPIC)
    assert (best.name, best.latest and best.latest.text) == ("main/2", "strong")
    longest = go(InParallel(*arrows(), by=lambda branch: len(branch.latest.text if branch.latest else "")), TOPIC)
    assert longest.name == "main/1"
    assert TOPIC.latest is None


def test_a_branch_that_fails_is_left_out_and_all_failing_is_an_error(go: Any) -> None:
    """One broken branch costs its own work only; where every one fails, all the reasons are told."""
    good, bad = draft(ScriptedModel(["a"])), draft(ScriptedModel([RuntimeError("down")]))
    assert go(InParallel(bad, good), TOPIC).name == "main/2"
    with pytest.raises(ArrowError, match=r"down; .*down"):
        go(InParallel(draft(ScriptedModel([RuntimeError("down")])), draft(ScriptedModel([OSError("down")]))), TOPIC)


def test_several_branches_run_through_one_arrow_with_batch() -> None:
    """LangChain's own `batch` refines a list of branches; `best_branch` selects one, the first of equals."""
    model = ScriptedModel([lambda messages: messages[0].text.split("Topic:\n")[1].split("\n")[0]] * 2)
    branches = draft(model).batch([Branch("a").with_topic("rain"), Branch("b").with_topic("hail")])
    assert [branch.latest and branch.latest.text for branch in branches] == ["rain", "hail"]
    assert best_branch(branches).name == "a"
    with pytest.raises(ValueError, match="no branch"):
        best_branch([])


def test_tools_of_the_branch_are_offered_to_the_model(go: Any) -> None:
    """A model that asks for a tool gets its result before it answers, and what that cost is counted."""
    from langchain_core.language_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage

    class Calling(GenericFakeChatModel):
        def bind_tools(self, tools: Any, **_: Any) -> Any:
            offered.append([tool.name for tool in tools])
            return self

    def add(one: int, other: int) -> int:
        """Add two numbers."""
        return one + other

    offered: list[list[str]] = []
    wants = AIMessage("", tool_calls=[{"name": "add", "args": {"one": 2, "other": 3}, "id": "1"}])

    def replies() -> Any:
        yield wants
        yield AIMessage("It is 5.")

    branch = go(draft(Calling(messages=replies())), TOPIC.with_tools(add))
    assert (offered[-1], branch.latest.text) == (["add"], "It is 5.")
    assert branch.events[-1]["usage"]["calls"] == 2


def test_a_model_without_tools_is_refused(go: Any) -> None:
    """Tools for a model that can't call any are an error that says so, not a draft without them."""
    with pytest.raises(NotImplementedError, match="ScriptedModel can't call tools"):
        go(draft(ScriptedModel(["a"])), TOPIC.with_tools(len))


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda model: refinement_loop(model, iterations=-1), "iterations must be a whole number from 0 up, not -1"),
        (lambda model: critique(model, threshold=1.5), "threshold=1.5"),
        (lambda model: draft(model, prompt="{nothing}"), "draft_prompt uses unknown variables"),
        (lambda model: InParallel(), "give the arrows"),
        (
            lambda model: draft(model, k=0).invoke(TOPIC.with_documents(list)),
            "k must be a whole number from 1 up, not 0",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_at_build(build: Any, says: str) -> None:
    """A wrong number or prompt is named before any model is asked."""
    with pytest.raises(ValueError, match=says):
        build(ScriptedModel([]))


def test_a_branch_is_loaded_from_its_folder(go: Any, tmp_path: Path) -> None:
    """A folder of Markdown files is cut into passages; from then on the branch's prompts show those that fit."""
    pytest.importorskip("bm25s")
    pytest.importorskip("wordllama")
    (tmp_path / "bread.md").write_text("# Bread\n\nSourdough bread rises with wild yeast over night.\n")
    (tmp_path / "boats.txt").write_text("A keel keeps a sailing boat upright in the wind.\n")
    model = ScriptedModel(["a", "b"])
    branch = Branch("main", source=tmp_path).with_topic("How does a keel help a boat?")
    loaded = go(load_documents(k=1) | draft(model), branch)
    assert loaded.source == tmp_path
    assert "[1] boats.txt\nA keel keeps" in model.calls[0][0].text


def test_without_a_folder_nothing_is_loaded(go: Any, tmp_path: Path) -> None:
    """A branch without a folder comes back as it is; the safe variant says so, and names a folder that is not there."""
    assert go(load_documents(), TOPIC) == TOPIC
    assert go(safe(load_documents()), TOPIC).message == "No folder found to load documents from"
    assert "none" in go(safe(load_documents(tmp_path / "none")), TOPIC).message


def test_a_spent_budget_is_named_and_not_passed_over(go: Any) -> None:
    """Once a branch's budget is spent no arrow pretends to have worked; a safe one fails with the branch."""
    model = ScriptedModel(["a text of some words", "flaw", "b"])
    branch = Branch("main").with_topic("x", limits={"max_tokens": 3})
    with pytest.raises(ArrowError, match=r"^token_budget: ") as raised:
        go(refinement_loop(model, iterations=1), branch)
    assert (raised.value.branch.latest and raised.value.branch.latest.text, len(model.calls)) == (
        "a text of some words", 1,
    )  # fmt: skip
    result = go(safe(draft(ScriptedModel(["a"]))) | safe(critique(model)), branch)
    assert (result.ok, result.message.split(":")[0], result.partial.latest.text) == (False, "token_budget", "a")
    assert len(model.calls) == 1


def test_a_retriever_with_a_model_is_held_to_the_budget_too(go: Any) -> None:
    """What looks passages up asks no model once the tokens are spent, and what it cost until then is on record."""
    inner, model = ScriptedModel(["q"] * 9), ScriptedModel(["a", "b"])

    def look(query: str) -> list[str]:
        return [inner.invoke(query).text, inner.invoke(query).text]

    branch = Branch("main").with_topic("x", limits={"max_tokens": 2}).with_documents(look)
    with pytest.raises(ArrowError, match=r"^token_budget: ") as raised:
        go(draft(model), branch)
    assert (len(inner.calls), len(model.calls)) == (1, 0)
    assert usage_total(raised.value.branch.events)["calls"] == 1


def test_a_failure_keeps_what_was_done_and_can_be_tried_again(go: Any) -> None:
    """The partial branch of a safe loop goes on with the step that failed."""
    result = go(safe(refinement_loop(ScriptedModel(["a", RuntimeError("lost")]))), TOPIC)
    assert (result.ok, result.partial.latest.text) == (False, "a")
    passed = go(safe(critique(ScriptedModel([]))), result)
    assert (passed.ok, passed.partial) == (False, result.partial)
    branch = go(critique(ScriptedModel(["flaw"])) | improve(ScriptedModel(["b"])), result.partial)
    assert branch.reasoning_events() == [Draft("a"), ReasoningCritique("flaw"), Final("b")]


def test_an_error_of_the_retriever_after_the_draft_keeps_the_branch(go: Any) -> None:
    """What breaks outside the model breaks off the chain in the same way."""

    def away(query: str) -> list[str]:
        raise ConnectionError("the index is away")

    drafted = go(draft(ScriptedModel(["a"])), TOPIC)
    with pytest.raises(ArrowError, match="critique failed: ConnectionError: the index is away") as raised:
        go(critique(ScriptedModel([])), drafted.with_documents(away))
    assert raised.value.branch.latest


def test_what_all_branches_cost_goes_on_with_the_best(go: Any) -> None:
    """Losers and failures are told in the record of the winner, which can be worked on."""
    good, other = ScriptedModel(["d1", "c1", "f1"]), ScriptedModel(["d2", "c2", "f2"])
    bad = ScriptedModel(["d3", "c3", RuntimeError("boom")])
    arrows = [refinement_loop(one, iterations=1) for one in (good, other, bad)]
    branch = go(InParallel(*arrows), TOPIC)
    assert (branch.name, usage_total(branch.events)["calls"]) == ("main/1", 3 + 3 + 2)
    assert [event["text"] for event in branch.events if event["kind"] == "failure"] == [
        "main/3: refine failed: RuntimeError: boom"
    ]
    assert branch.events[-1]["text"] == "main/1 goes on; the others are main/2."
    assert go(critique(ScriptedModel(["more"])), branch).reasoning_events()[-1] == ReasoningCritique("more")


def test_where_all_branches_break_off_the_best_of_what_they_did_is_kept(go: Any) -> None:
    """A budget that ends every branch costs no text: the error holds the best, and what all of them cost."""
    models = [ScriptedModel([f"a draft of {number}"]) for number in (1, 2)]
    branch = Branch("main").with_topic("x", limits={"max_tokens": 3})
    with pytest.raises(ArrowError, match="token_budget: ") as raised:
        go(InParallel(*(refinement_loop(one, iterations=1) for one in models)), branch)
    kept = raised.value.branch
    assert (kept.name, kept.latest and kept.latest.text) == ("main/1", "a draft of 1")
    assert usage_total(kept.events)["calls"] == 2


def test_a_loop_asks_nobody_twice_about_one_text(go: Any) -> None:
    """An improvement that repeats the text ends the loop; an empty one is asked for again, without another critique."""
    model = ScriptedModel(["same", "flaw", "same"])
    go(refinement_loop(model, iterations=3), TOPIC)
    assert len(model.calls) == 3
    model = ScriptedModel(["a", "flaw", "", "b"])
    assert go(refinement_loop(model, iterations=2), TOPIC).reasoning_events()[-1] == Final("b")
    assert len(model.calls) == 4


def test_documents_that_were_taken_away_are_not_shown_any_more(go: Any) -> None:
    """Neither those of a branch that has none now, nor those before others that found nothing."""
    for later in (None, lambda query: []):
        model = ScriptedModel(["a", "b"])
        branch = go(draft(model), TOPIC.with_documents(lambda query: ["a secret passage"]))
        go(critique(model), branch.with_documents(later))
        assert ["secret" in call[0].text for call in model.calls] == [True, False]


@pytest.mark.parametrize(
    ("build", "error", "says"),
    [
        (
            lambda model: refinement_loop(model, iterations="3"),
            ValueError,
            "iterations must be a whole number from 0 up, not '3'",
        ),
        (
            lambda model: refinement_loop(model, iterations=2.5),
            ValueError,
            "iterations must be a whole number from 0 up, not 2.5",
        ),
        (
            lambda model: refinement_loop(model, iterations=True),
            ValueError,
            "iterations must be a whole number from 0 up, not True",
        ),
        (lambda model: critique(model, threshold="0.8"), ValueError, "threshold='0.8'"),
        (lambda model: draft(model, k="4"), ValueError, "k must be a whole number from 1 up, not '4'"),
        (lambda model: draft(model, prompt=[]), ValueError, "draft_prompt is empty"),
        (lambda model: draft(7), TypeError, "model is a chat model, .* not 7"),
        (lambda model: safe(draft(model)).invoke("text"), TypeError, "takes a Branch, or the Result"),
    ],
)
def test_what_is_of_another_kind_is_refused_by_name(build: Any, error: Any, says: str) -> None:
    """The message says what was given and what would be right."""
    with pytest.raises(error, match=says):
        build(ScriptedModel([]))
