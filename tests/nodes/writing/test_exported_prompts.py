"""A prompt that LangChain or the LangSmith Hub exported is taken as it is, and no class that it names is built."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.load import dumpd, dumps
from langchain_core.messages import SystemMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder, PromptTemplate
from redraft import build_refine_graph
from redraft.faces.run_config import RunConfig
from redraft.models import ScriptedModel
from redraft.nodes import builder_prompts
from redraft.nodes.writing.exported_prompts import exported_prompt

if TYPE_CHECKING:
    from pathlib import Path

VALUES = {"task": "Write <b>{this}</b>.", "draft": "A {draft} & {{more}}", "feedback": "Too short."}
ASKED = "Of {task} came {draft}. In JSON: {{}}. {feedback}"
CHAT = ChatPromptTemplate.from_messages(
    [("system", "You judge."), SystemMessage('Say {"accepted": true}.'), ("human", ASKED), ("ai", "I see.")]
)
EXPORTED: dict[str, Any] = {
    "f-string": CHAT,
    "mustache": ChatPromptTemplate.from_messages(
        [("system", "Braces {as they are}."), ("human", "{{{task}}} {{& draft }} {x} {{feedback}}")],
        template_format="mustache",
    ),
    "one text": PromptTemplate.from_template(ASKED),
    "placeholder": ChatPromptTemplate.from_messages([("human", ASKED), MessagesPlaceholder("more", optional=True)]),
}


@pytest.mark.parametrize("name", EXPORTED)
def test_an_exported_prompt_asks_as_the_prompt_did(name: str) -> None:
    """A model is asked with the messages that LangChain would make of the exported prompt, word for word."""
    prompt = EXPORTED[name]
    expected = prompt.invoke(VALUES).to_messages()
    for text in (
        dumps(prompt),
        dumps(prompt, pretty=True),
        json.dumps({"commit_hash": "1", "manifest": dumpd(prompt)}),
    ):
        found = exported_prompt(text, what="generate_prompt")
        assert found is not None
        assert found.format_messages(**VALUES) == expected


def test_a_file_of_exported_prompts_serves_shell_and_python(tmp_path: Path) -> None:
    """`--prompts FILE` takes exports beside texts, a recipe keeps them, and what a prompt lacks is said as ever."""
    path = tmp_path / "prompts.json"
    path.write_text(json.dumps({"prompts": {"critic": dumpd(CHAT), "generate": "{task}"}}))
    recipe = RunConfig.given(preset="refine", model="scripted:replies.jsonl", **builder_prompts(path))
    assert RunConfig(**json.loads(json.dumps(recipe.flat()))) == recipe
    model = ScriptedModel(["A draft.", "no issues"])
    assert build_refine_graph(model, **builder_prompts(path)).invoke({"task": "Write."})["stop_reason"] == "accepted"
    path.write_text(dumps(CHAT))
    with pytest.raises(ValueError, match=r'is one exported prompt: name it, as in \{"prompts": \{"critic": …'):
        builder_prompts(path)
    lacking = dumps(PromptTemplate.from_template("{task} {feedback}"))
    with pytest.raises(ValueError, match=r"prompt lacks \{draft\}"):
        build_refine_graph(model, critic_prompt=lacking)


def changed(**kwargs: Any) -> dict[str, Any]:
    found: dict[str, Any] = dumpd(PromptTemplate.from_template("{task}"))
    return {**found, "kwargs": {**found["kwargs"], **kwargs}}


def chat(*messages: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = dumpd(ChatPromptTemplate.from_messages([("human", "{task}")]))
    return {**found, "kwargs": {"messages": [*messages]}}


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "another package": (
        {"lc": 1, "type": "constructor", "id": ["os", "system"], "kwargs": {"command": "true"}},
        "of os",
    ),
    "a model": (
        {"lc": 1, "type": "constructor", "id": ["langchain", "chat_models", "openai", "ChatOpenAI"], "kwargs": {}},
        "it is a ChatOpenAI",
    ),
    "a secret": ({"lc": 1, "type": "secret", "id": ["langchain", "OPENAI_API_KEY"], "kwargs": {}}, "a secret of"),
    "jinja2": (changed(template="{{ ''.__class__ }}", template_format="jinja2"), "jinja2, which may do more"),
    "a section": (changed(template="{{#task}}x{{/task}}", template_format="mustache"), "'{{#task}}' is no variable"),
    "an attribute": (changed(template="{{task.__class__}}", template_format="mustache"), "is no variable"),
    "what is filled in": (changed(partial_variables={"task": "all"}), "task are filled in already"),
    "a placeholder": (chat(dumpd(MessagesPlaceholder("history"))), "a MessagesPlaceholder can't be in a prompt"),
    "an image": (
        dumpd(ChatPromptTemplate.from_messages([("human", [{"type": "image_url", "image_url": "{task}"}])])),
        "is no prompt as LangChain exports it",
    ),
    "nothing": (chat(), "has no messages"),
    "no shape": ({"lc": 1}, "no prompt as LangChain exports it: KeyError"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_export_of_anything_else_is_refused(name: str) -> None:
    """What an export holds beside texts and variables is refused when the graph is built, by its name."""
    found, reason = REFUSED[name]
    with pytest.raises(ValueError, match=f"generate_prompt.*{reason}"):
        build_refine_graph(ScriptedModel([]), generate_prompt=json.dumps(found))
