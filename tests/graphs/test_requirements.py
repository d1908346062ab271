"""What a person or a fork asks for: a requirement that stands until somebody who can tell says that it is met."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from redraft import (
    Critique,
    Thread,
    build_branching_graph,
    build_reasoning_graph,
    build_refine_graph,
    human_critic,
    model_critic,
    open_checkpointer,
    uses_words,
    verifier_critic,
)
from redraft.models import ScriptedModel
from redraft.nodes import from_runnable

if TYPE_CHECKING:
    from collections.abc import Iterator

TASK = {"task": "Write about a night."}
WINTER = "Make it about winter."
CONFIG: Any = {"configurable": {"thread_id": "t"}}
LISTED = f"The text must meet all of these:\n- {WINTER}"


@pytest.fixture
def saver() -> Iterator[Any]:
    """A saver that needs no server."""
    with open_checkpointer("memory") as opened:
        yield opened


def forked(saver: Any, *replies: str, fork: Any = None, **options: Any) -> tuple[Thread, ScriptedModel]:
    """Return a fork with feedback on the first draft, and the model, which wrote that draft."""
    model = ScriptedModel(list(replies))
    graph = build_refine_graph(model, checkpointer=saver, **options)
    graph.invoke(TASK, CONFIG)
    return Thread(graph, "t").fork(**{"at": 0, "feedback": WINTER, **(fork or {})}), model


def asked(model: ScriptedModel, since: int = 1) -> list[str]:
    """Return the prompts after the first ones."""
    return [call[-1].text for call in model.calls[since:]]


def states(output: Any) -> list[tuple[str, str]]:
    return [(one["text"], one["status"]) for one in output["requirements"]]


def test_a_wish_that_nobody_here_can_tell_is_worked_on_and_ends_undecided_until_it_is_withdrawn(saver: Any) -> None:
    """The run goes through a revision for it, says what would decide it, and accepts once it is withdrawn."""
    thread, model = forked(saver, "A river.", "A river in snow.", verifiers=[uses_words("river")])
    output = thread.resume()
    assert (output["answer"], output["stop_reason"], output["accepted_by"]) == ("A river in snow.", "undecided", None)
    assert states(output) == [(WINTER, "open")]
    assert WINTER in output["events"][-1]["text"]
    assert "withdraw" in output["events"][-1]["text"]
    assert len(asked(model)) == 1
    assert thread.replay().matches
    with pytest.raises(ValueError, match=r"'Make it about summer.' is no requirement that stands; there is 'Make it"):
        thread.withdraw("Make it about summer.")
    thread.withdraw(WINTER)
    output = thread.resume()
    assert (output["stop_reason"], states(output), len(asked(model))) == ("accepted", [(WINTER, "withdrawn")], 1)
    assert thread.replay().matches
    with pytest.raises(ValueError, match="there is none"):
        thread.graph.update_state(thread.config, {"withdraw": WINTER})


def test_a_wish_stands_with_the_task_on_every_rung_and_what_a_verifier_said_is_still_told(saver: Any) -> None:
    """Mended, written anew or sampled: each prompt lists it; the first one has the verifier's own words too."""
    replies = ["A night.", "A hill.", "A lake.", "A road.", "A moon.", "A star.", "A sky."]
    thread, model = forked(saver, *replies, verifiers=[uses_words("river")])
    begun = len(model.calls)
    output = thread.resume()
    assert [one["refiner"] for one in output["events"] if one["kind"] == "revision"] == ["mend", "rewrite", "sample"]
    for prompt in asked(model, begun):
        assert f'- It has the word "river", exactly as written.\n- {WINTER}' in prompt
    assert (
        f"Feedback on the current draft:\nThese words are missing: river.\n\n{WINTER}\n\nRewrite"
        in asked(model, begun)[0]
    )


def test_a_prompt_without_the_task_lists_the_wish_with_what_there_is_to_do(saver: Any) -> None:
    """With `memory="last"` and a prompt of one's own the second revision still knows it."""
    options = {"refine_prompt": "{draft}|{feedback}", "memory": "last", "verifiers": [uses_words("river")]}
    thread, model = forked(saver, "A river.", "A night.", "A river in snow.", **options)
    thread.resume()
    assert asked(model)[0] == f"A river.|{WINTER}\n\n{LISTED}"
    assert asked(model)[1].endswith(f"\n\n{LISTED}")


def test_its_own_verifier_decides_beside_those_of_the_graph(saver: Any) -> None:
    """It looks at the forked draft and those after it; all must pass, and the writer is told what it wants."""
    fork = {"verifiers": ["uses_words:winter"]}
    replies = ["A river.", "Snow fell.", "A river in winter."]
    thread, model = forked(saver, *replies, verifiers=[uses_words("river")], fork=fork)
    output = thread.resume()
    assert (output["answer"], output["stop_reason"]) == ("A river in winter.", "accepted")
    assert asked(model)[0].startswith("Text:\nA river.\n\nWrite ")  # the ladder has what it lacks added first
    assert output["accepted_by"] == "uses_words:winter, uses_words"
    assert states(output) == [(WINTER, "satisfied")]
    assert output["requirements"][0]["verifiers"] == ["uses_words:winter"]
    assert f'- {WINTER}\n- It has the word "winter", exactly as written.' in asked(model)[0]
    judged = [(one["round"], one["accepted"]) for one in output["events"] if one["by"] == "uses_words:winter"]
    assert judged[:2] == [(0, False), (1, False)]
    assert thread.replay().matches


def test_a_wish_with_a_verifier_is_looked_at_in_the_last_text_of_reasoning(saver: Any) -> None:
    """Whoever judges the last improvement otherwise, a program tells if the wish is met in it."""
    model = ScriptedModel(["A river.", "More.", "A long river.", "A river in winter.", "Fine."])
    graph = build_reasoning_graph(model, iterations=1, checkpointer=saver)
    graph.invoke({"task": "A river."}, {"configurable": {"thread_id": "one"}})
    fork = Thread(graph, "one").fork(at=0, feedback=WINTER, verifiers=["uses_words:winter"])
    output = fork.resume()
    assert (output["answer"], states(output)) == ("A river in winter.", [(WINTER, "satisfied")])


@pytest.mark.parametrize(
    ("fork", "message"),
    [
        ({"verifiers": ["use_words:winter"]}, "is not a verifier"),
        ({"verifiers": "uses_words:winter"}, "verifiers are names"),
        ({"verifiers": ["json_schema:recipe.json"]}, "opens a file"),
        ({"verifiers": ["uses_words:winter"], "feedback": None}, "there is none"),
    ],
)
def test_verifiers_that_make_no_sense_are_refused_before_anything_is_written(
    saver: Any, fork: Any, message: str
) -> None:
    """A typo, a text, a file and a verifier of nothing are named."""
    with pytest.raises(ValueError, match=message):
        forked(saver, "A river.", verifiers=[uses_words("river")], fork={"thread_id": "new", **fork})
    assert saver.runs.get("new") is None


def test_where_programs_decide_a_judge_is_asked_about_the_wish_by_its_name(saver: Any) -> None:
    """It judges nothing else, and only a draft that is right apart from it; what it says is worked on."""
    judge = ScriptedModel(["No snow in it.", "no issues"])
    critics = [verifier_critic(uses_words("river")), model_critic(judge, name="judge")]
    thread, _ = forked(saver, "A river.", "A night.", "The river.", "A river in snow.", critics=critics)
    output = thread.resume()
    assert (output["answer"], output["stop_reason"]) == ("A river in snow.", "accepted")
    assert output["accepted_by"] == f"uses_words, judge: {WINTER}"
    assert states(output) == [(WINTER, "satisfied")]
    assert len(judge.calls) == 2
    assert all(f"\nRequirement:\n{WINTER}\n" in prompt for prompt in asked(judge, 0))
    assert thread.replay().matches


@pytest.mark.parametrize(("prompt", "calls"), [(None, 1), ("Any issues in “{draft}”?", 2)])
def test_a_judge_that_is_shown_the_wish_with_the_task_tells_it(saver: Any, prompt: str | None, calls: int) -> None:
    """Its acceptance is one of the wish; a judge whose prompt does not show the task is asked about it besides."""
    judge = ScriptedModel(["no issues"] * 4)
    critics = [model_critic(judge, name="judge", prompt=prompt)]
    thread, model = forked(saver, "A river.", "A river in snow.", critics=critics)
    output = thread.resume()
    assert (output["stop_reason"], states(output), len(asked(judge))) == ("accepted", [(WINTER, "satisfied")], calls)
    assert f"\n\n{LISTED}\n" in asked(judge)[-1]
    assert f"\n\n{LISTED}\n" in asked(model)[0]


def test_what_a_person_asks_for_stands_until_that_person_accepts_a_draft(saver: Any) -> None:
    """Each later prompt of the writer lists it, another wish beside it; verifiers alone accept nothing meanwhile."""
    model = ScriptedModel(["A river.", "A river, again.", "A river in snow."])
    graph = build_refine_graph(
        model, critics=[verifier_critic(uses_words("river")), human_critic()], checkpointer=saver
    )
    graph.invoke(TASK, CONFIG)
    thread = Thread(graph, "t")
    assert thread.answer(feedback=WINTER)["stop_reason"] is None
    output = thread.answer(feedback="Longer.")
    assert states(output) == [(WINTER, "open"), ("Longer.", "open")]
    assert f"- {WINTER}\n- Longer." in asked(model)[-1]
    output = thread.answer(accept=True)
    assert output["stop_reason"] == "accepted"
    assert states(output) == [(WINTER, "satisfied"), ("Longer.", "satisfied")]
    assert thread.replay().matches


def test_a_fork_of_the_best_draft_never_answers_with_an_older_and_worse_one(saver: Any) -> None:
    """The answer is the forked draft or a later one, though the model only repeats itself from there on."""
    words = uses_words("river", "lamp", "boat", "moon", "hill")
    replies = ["A river.", "A river, a lamp, a boat, a moon, a hill.", "A river."]
    thread, _ = forked(
        saver, *replies, verifiers=[words], refine_prompt="{draft} {feedback}", fork={"at": 1, "feedback": "Shorter."}
    )
    output = thread.resume()
    assert (output["answer"], output["score"]) == (replies[1], 1.0)
    assert output["stop_reason"] != "accepted"
    assert thread.replay().matches


def test_a_fork_carries_what_its_parent_was_asked_and_what_was_withdrawn(saver: Any) -> None:
    """A fork of the fork has both wishes; one of a thread whose wish was withdrawn has it as such."""
    thread, _ = forked(saver, "A river.", "A river in snow.", "A short river in snow.", verifiers=[uses_words("river")])
    thread.resume()
    second = thread.fork(at=1, feedback="Shorter.")
    assert states(second.resume()) == [(WINTER, "open"), ("Shorter.", "open")]
    again = thread.fork(at=0, feedback="Longer.", thread_id="again")
    assert states(saver_values(again)) == [(WINTER, "open"), ("Longer.", "open")]
    thread.withdraw(WINTER)
    assert thread.resume()["stop_reason"] == "accepted"
    assert states(saver_values(thread.fork(at=1))) == [(WINTER, "withdrawn")]


def saver_values(thread: Thread) -> Any:
    return thread.graph.get_state(thread.config).values


def test_a_check_of_ones_own_accepts_nothing_over_an_open_wish(saver: Any) -> None:
    """A custom check that says `accepted` ends the run as `undecided` while the wish is open."""
    graph = build_refine_graph(
        ScriptedModel(["A river.", "A river in snow."]),
        verifiers=[uses_words("river")],
        check=lambda state: "accepted" if state["events"][-1].get("accepted") else None,
        checkpointer=saver,
    )
    assert graph.invoke(TASK, CONFIG)["stop_reason"] == "accepted"
    assert Thread(graph, "t").fork(at=0, feedback=WINTER).resume()["stop_reason"] == "undecided"


def test_a_chain_that_writes_is_given_the_wish_with_the_task(saver: Any) -> None:
    """A Runnable in a writer's place sees it in `task`, and a critic of one's own in the task that it is given."""
    tasks: list[str] = []

    def chain(values: Any) -> str:
        tasks.append(values["task"])
        return "A river in snow."

    def critic(task: str, draft: str, history: Any) -> Critique:
        tasks.append(task)
        return Critique("", accepted=True)

    from langchain_core.runnables import RunnableLambda

    graph = build_refine_graph(
        generate=lambda state: "A river.",
        refine=from_runnable(RunnableLambda(chain), given="values"),
        critics=[critic],
        checkpointer=saver,
    )
    graph.invoke(TASK, CONFIG)
    output = Thread(graph, "t").fork(at=0, feedback=WINTER).resume()
    assert tasks == [TASK["task"], *[f"{TASK['task']}\n\n{LISTED}"] * 2]
    assert output["stop_reason"] == "undecided"  # that critic may not have looked at it


ROOF = {"text": "Name the roof.", "verifiers": ["uses_words:roof"]}


def test_what_is_required_with_a_task_is_told_judged_and_asked_again(saver: Any) -> None:
    """A caller's own list: its programs decide beside the graph's, `rerun` has it too, and it ends with its task."""
    model = ScriptedModel(["Rain.", "Rain on a roof.", "Rain on the roof.", "Rain."])
    graph = build_refine_graph(model, verifiers=[uses_words("rain")], checkpointer=saver)
    output = graph.invoke({"task": "Write about rain.", "require": [ROOF]}, CONFIG)
    assert (output["answer"], output["stop_reason"]) == ("Rain on a roof.", "accepted")
    assert [(one["by"], one["status"], one["verifiers"]) for one in output["requirements"]] == [
        ("caller", "satisfied", ["uses_words:roof"])
    ]
    assert '- Name the roof.\n- It has the word "roof", exactly as written.' in model.calls[0][-1].text
    again = graph.get_state(Thread(graph, "t").rerun().config).values
    assert (again["answer"], states(again)) == ("Rain on the roof.", [("Name the roof.", "satisfied")])
    assert graph.invoke({"task": "Write about rain."}, CONFIG)["requirements"] == []


def test_each_path_of_a_search_is_to_meet_it() -> None:
    """A search gives it to all of its drafts, and the answer says that it is met."""
    graph = build_branching_graph(ScriptedModel(["Rain.", "A roof."]), critics=[uses_roof], branching_factor=2, depth=0)
    output = graph.invoke({"task": "Write.", "require": [ROOF]})
    assert (output["answer"], states(output)) == ("A roof.", [("Name the roof.", "satisfied")])


def uses_roof(task: str, draft: str, history: Any, /) -> Critique:
    return Critique("", accepted=True)


def test_a_list_that_makes_no_sense_is_refused_before_anything_is_written() -> None:
    """The error says what would be right, and no model is asked."""
    model = ScriptedModel([])
    for given, says in (
        ("Be brief.", "require is a list"),
        ([5], "what is required is a text"),
        ([" "], "not blank"),
        ([{"text": "Be brief.", "verifiers": "length:-3"}], "verifiers are names"),
        ([{"text": "As a schema.", "verifiers": ["json_schema:/etc/passwd"]}], "opens a file"),
        ([{"text": "Be brief.", "verifiers": ["brief"]}], "'brief' is not a verifier"),
    ):
        with pytest.raises(ValueError, match=says):
            build_refine_graph(model).invoke({"task": "Write.", "require": given})
    assert model.calls == []


def verdict(*met: tuple[int, bool], accepted: bool = True) -> dict[str, Any]:
    criteria = [{"number": number, "missing": "" if fits else "It lacks that.", "met": fits} for number, fits in met]
    return {"structured": {"feedback": "", "criteria": criteria, "score": 0.5, "accepted": accepted}}


def test_a_judge_tells_of_each_requirement_by_itself() -> None:
    """In one call: those that are met count as met though the draft is rejected, and the writer is told the others."""
    judge = ScriptedModel([verdict((1, True), (2, False), (9, False)), verdict((2, True), (1, True))], structured=True)
    writer = ScriptedModel(["A lamp.", "A lamp for 29 euros."])
    wishes = ["It is about a lamp.", "It names a price."]
    output = build_refine_graph(writer, critics=[judge]).invoke({"task": "Describe a lamp.", "require": wishes})
    first, second = (one for one in output["events"] if one["kind"] == "critique")
    assert first["criteria"] == {wishes[0]: True, wishes[1]: False}
    assert (first["accepted"], first["text"]) == (False, "Not met: It names a price. It lacks that.")
    assert judge.calls[0][-1].text.endswith("1. It is about a lamp.\n2. It names a price.")
    assert "It lacks that." in writer.calls[1][-1].text
    assert (second["accepted"], output["stop_reason"], len(judge.calls)) == (True, "accepted", 2)
    assert states(output) == [(wish, "satisfied") for wish in wishes]


def test_a_requirement_that_a_judge_leaves_out_is_asked_about_by_its_name() -> None:
    """A verdict on some accepts nothing yet; of two verdicts on one, the one that finds fault stands."""
    plain = {"structured": {"feedback": "", "score": 1, "accepted": True}}
    judge = ScriptedModel([verdict((1, True)), plain], structured=True)
    output = build_refine_graph(ScriptedModel(["A lamp."]), critics=[judge]).invoke(
        {"task": "Describe a lamp.", "require": ["It is short.", "It names a lamp."]}
    )
    assert (output["stop_reason"], [status for _, status in states(output)]) == ("accepted", ["satisfied"] * 2)
    assert "It names a lamp." in judge.calls[1][-1].text
    judge = ScriptedModel([verdict((1, True), (1, False))], structured=True)
    rejected = build_refine_graph(ScriptedModel(["A lamp."]), critics=[judge], limits={"max_rounds": 0}).invoke(
        {"task": "Describe a lamp.", "require": ["It is short."]}
    )
    assert (rejected["stop_reason"], states(rejected)) == ("max_rounds", [("It is short.", "open")])
