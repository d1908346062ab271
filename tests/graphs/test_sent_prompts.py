"""The prompts of a run, made again from its record."""

from __future__ import annotations

from typing import Any

import pytest
from redraft import (
    Thread,
    build_adaptive_graph,
    build_branching_graph,
    build_math_graph,
    build_refine_graph,
    build_writing_graph,
    model_critic,
    open_checkpointer,
    uses_words,
)
from redraft.models import ScriptedModel

NIGHT: Any = {"task": "Write about a night."}
CONFIG: Any = {"configurable": {"thread_id": "t"}}
MET = {"feedback": "", "criteria": [{"number": 1, "missing": "", "met": True}], "score": 1, "accepted": True}
PROGRAM = "```python\nprint({})\n```"
RIVER = [uses_words("river")]


def run(build: Any, replies: list[Any], given: Any, *, structured: bool = False) -> tuple[list[Any], ScriptedModel]:
    """Return the prompts as they are told afterwards, and the model, which was asked with them."""
    model = ScriptedModel(replies, structured=structured)
    with open_checkpointer("memory") as saver:
        graph = build(model, checkpointer=saver)
        graph.invoke(given, CONFIG)
        return Thread(graph, "t").prompts(), model


def test_the_prompts_of_a_run_are_told_as_they_were_sent() -> None:
    """Each prompt of writers and judges, word by word and in order, for whatever loop it was; no model is asked."""

    def judged(model: Any, **options: Any) -> Any:
        return build_refine_graph(model, critics=[model_critic(model)], **options)

    def both(model: Any, **options: Any) -> Any:
        return judged(model, verifiers=RIVER, critics_after="always", **options)

    def checked(model: Any, **options: Any) -> Any:
        return build_refine_graph(model, verifiers=RIVER, **options)

    def adapted(model: Any, **options: Any) -> Any:
        return build_adaptive_graph(model, verifiers=RIVER, **options)

    def written(model: Any, **options: Any) -> Any:
        return build_writing_graph(model, words=["river"], **options)

    programs = (PROGRAM.format(15), PROGRAM.format(12))
    pears = {"task": "Ann has 3 bags of 4 pears. How many pears is that?"}
    for build, replies, given in (
        (checked, ["A night.", "A hill.", "A lake.", "A river."], NIGHT),
        (checked, ["I'm sorry, I can't help with that.", "A river."], NIGHT),
        (judged, ["A night.", "Too short.", "A long night.", "no issues"], NIGHT),
        (both, ["A hill.", "Say more.", "A river.", "no issues"], NIGHT),
        (adapted, ["A hill.", "A lake.", "A road.", "A river."], NIGHT),
        (written, ["A hill.", "A lake.", "A river."], NIGHT),
        (build_math_graph, ["#### 13", PROGRAM.format(12), PROGRAM.format(12), "#### 12"], pears),
        (build_math_graph, ["#### 13", *programs, "#### 14", PROGRAM.format(12), "#### 12"], pears),
    ):
        prompts, model = run(build, replies, given)
        assert [prompt.messages for prompt in prompts] == model.calls, build
    prompts, model = run(judged, ["A night.", {"structured": MET}], {**NIGHT, "require": ["Short."]}, structured=True)
    assert [prompt.messages for prompt in prompts] == model.calls
    assert [prompt[:3] for prompt in prompts] == [(0, "draft", "scripted"), (0, "critique", "self")]


def test_where_they_can_not_be_told_the_reason_is_said() -> None:
    """A search has none of its own, and of a run that another graph made nobody knows its words."""
    with open_checkpointer("memory") as saver:
        build_refine_graph(ScriptedModel(["A river."]), verifiers=RIVER, checkpointer=saver).invoke(NIGHT, CONFIG)
        other = build_refine_graph(ScriptedModel([]), verifiers=RIVER, generate_prompt="{task}!", checkpointer=saver)
        with pytest.raises(ValueError, match="another graph made this run"):
            Thread(other, "t").prompts()
        model = ScriptedModel(["A brook."])
        other = build_refine_graph(model, verifiers=RIVER, refine_prompt="{draft} {feedback}", checkpointer=saver)
        fork = Thread(other, "t").fork(at=0, feedback="Name it.")
        fork.resume()
        assert [(one.round, one.messages) for one in fork.prompts()] == [(1, model.calls[0])]
        search = build_branching_graph(ScriptedModel(["A river."]), verifiers=RIVER, depth=0, checkpointer=saver)
        search.invoke(NIGHT, {"configurable": {"thread_id": "s"}})
        with pytest.raises(ValueError, match="is no loop of ours"):
            Thread(search, "s").prompts()
