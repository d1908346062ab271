"""Typed drafts: a model is asked for a type, drafts are JSON in the record, and objects to who takes them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

import pytest
from langchain.agents import create_agent
from langgraph.types import Command
from pydantic import BaseModel, Field, TypeAdapter, field_validator
from redraft import (
    Critique,
    RefineMiddleware,
    Thread,
    build_adaptive_graph,
    build_branching_graph,
    build_code_graph,
    build_math_graph,
    build_pipeline_graph,
    build_reasoning_graph,
    build_refine_graph,
    build_retrieval_graph,
    build_rubric_graph,
    build_writing_graph,
    chat_model,
    human_critic,
    model_critic,
    open_checkpointer,
)
from redraft.faces import diff
from redraft.graphs.registry import build_preset
from redraft.models import ScriptedModel
from redraft.nodes import Arm, Dimension, Rubric, matches_json_schema
from redraft.state import best_draft

ON: Any = {"configurable": {"thread_id": "one"}}


class Ingredient(BaseModel):
    name: str
    grams: float

    @field_validator("grams")
    @classmethod
    def some(cls, grams: float) -> float:
        if grams <= 0:
            raise ValueError("must be more than nothing")
        return grams


class Recipe(BaseModel):
    title: str
    ingredients: list[Ingredient]


class Place(TypedDict):
    city: str
    days: int


@dataclass
class Trip:
    places: list[str]
    note: str = ""


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int
    age: int


class Dog(BaseModel):
    kind: Literal["dog"]
    age: int


class Odd(BaseModel):
    word: str

    @field_validator("word")
    @classmethod
    def two(cls, word: str) -> str:
        return f"{word.split(maxsplit=1)[0]} {word.split()[1]}"


def recipe(*grams: float, title: str = "Tea") -> str:
    return json.dumps({"title": title, "ingredients": [{"name": "leaf", "grams": one} for one in grams]})


TEA = Recipe(title="Tea", ingredients=[Ingredient(name="leaf", grams=2)])


def rich(task: str, draft: Recipe) -> tuple[bool, str]:
    """It has two ingredients."""
    return len(draft.ingredients) == 2, f"{draft.title} lacks an ingredient."


def critiques(out: Any) -> list[tuple[str, str]]:
    return [(event["by"], event["text"]) for event in out["events"] if event["kind"] == "critique"]


def test_a_draft_is_checked_by_its_fields_and_comes_back_as_an_object(run: Any) -> None:
    """What is around the JSON goes; what breaks a validator is feedback that names the field; a check takes the object,
    and is not asked about what is none; the record holds JSON, and the output the object of the best draft."""
    fenced = f"Sure! Here is the JSON:\n```json\n{recipe(-1)}\n```\nEnjoy!"
    model = ScriptedModel(["No idea.", fenced, recipe(2), recipe(2, 3)])
    out = run(build_refine_graph(model, answer_type=Recipe, verifiers=[rich]), {"task": "A recipe."})
    said = [
        ("answer_type", "The draft must be JSON and nothing else; at line 1, column 1: Expecting value."),
        ("answer_type", "$.ingredients[0].grams: must be more than nothing"),
        ("rich", "Tea lacks an ingredient."),
    ]
    assert [(by, text) for by, text in critiques(out) if text][:3] == said
    assert '"ingredients"' in str(model.calls[0][-1].content)  # the schema, in words
    assert out["structured_response"] == Recipe.model_validate_json(recipe(2, 3))
    assert out["answer"] == json.dumps(json.loads(recipe(2.0, 3.0)), indent=2)
    stripped = out["events"][4]
    assert (stripped["text"], stripped["stripped"]["after"]) == (json.dumps(json.loads(recipe(-1)), indent=2), "Enjoy!")


@pytest.mark.parametrize(
    ("kind", "bad", "good", "told", "made"),
    [
        (Place, '{"city": "Rome"}', '{"city": "Rome", "days": 2}', "$.days", {"city": "Rome", "days": 2}),
        (Trip, '{"places": [1]}', '{"places": []}', "$.places[0]", Trip(places=[])),
        (list[Place], '[{"days": 1}]', "[]", "$[0].city", []),
        (list[Recipe], recipe(2), f"[{recipe(2)}]", "array", [TEA]),
        (Recipe | Trip, '{"title": "Tea"}', recipe(2), "$.ingredients", TEA),
        ({"type": "array", "items": {"type": "integer"}}, "[1.5]", "[1]", "$[0]", [1]),
        (str, "7", '"seven"', "string", "seven"),
        (tuple[int, str], "[1]", '[1, "a"]', "$[1]: Field required", (1, "a")),
        (list[Cat | Dog], '[{"kind": "dog", "age": "x"}]', "[]", "$[0].age: Input should be a valid integer", []),
        (Odd, '{"word": "a"}', '{"word": "a b"}', "$: a validator raised IndexError", Odd(word="a b")),
    ],
)
def test_any_type_that_json_holds_can_be_asked_for(kind: Any, bad: str, good: str, told: str, made: Any) -> None:
    """A TypedDict of `typing`, a dataclass, a list, a union and a JSON Schema do as well as a model."""
    out = build_refine_graph(ScriptedModel([bad, good]), answer_type=kind).invoke({"task": "Write."})
    assert told in critiques(out)[0][1]
    assert "kind" not in critiques(out)[0][1]  # of a union the member is told of that it nearly is
    assert (out["structured_response"], out["accepted_by"], out["rounds"]) == (made, "answer_type", 1)


@pytest.mark.parametrize(
    ("kind", "error"),
    [("Recipe", TypeError), (len, TypeError), (7, TypeError), (type, ValueError), ({"type": "odd"}, ValueError)],
)
def test_what_is_no_type_is_refused_when_the_graph_is_built(kind: Any, error: type[Exception]) -> None:
    """A name, a function, a broken schema and a type that JSON can't hold are named in the error."""
    with pytest.raises(error, match=r"answer_type is|JSON"):
        build_refine_graph(ScriptedModel([]), answer_type=kind)


def test_writers_return_and_take_objects(run: Any) -> None:
    """A function that writes may return an instance, one that revises is given the draft as one, and an `async` critic
    judges it; an instance that breaks its own rules is a draft with a fault."""
    broken = Recipe.model_construct(title="Tea", ingredients=[Ingredient.model_construct(name="leaf", grams=-1)])

    def write(state: Any) -> Recipe:
        return broken if state["task"] == "broken" else TEA

    def revise(state: Any, draft: Recipe | None) -> Recipe:
        return TEA if draft is None else draft.model_copy(update={"ingredients": draft.ingredients * 2})

    async def judge(task: str, draft: Recipe, history: Any) -> Critique:
        return Critique("More.", accepted=len(draft.ingredients) == 2, score=0.5)

    graph = build_refine_graph(generate=write, refine=revise, answer_type=Recipe, verifiers=[rich])
    assert run(graph, {"task": "x"})["structured_response"].ingredients == TEA.ingredients * 2
    out = run(graph, {"task": "broken"})
    assert (out["stop_reason"], out["rounds"], critiques(out)[0][0]) == ("accepted", 2, "answer_type")
    judged = build_refine_graph(generate=write, refine=revise, answer_type=Recipe, critics=[judge])
    assert run(judged, {"task": "x"})["accepted_by"] == "judge"


def test_judges_that_do_not_ask_for_the_object_are_given_the_json() -> None:
    """A model reads the JSON, so do judges of a rubric and one that takes `str | None`; an instance that takes the
    object keeps its name and its marks."""
    seen: list[Any] = []

    class Taster:
        oracle = True

        def __call__(self, task: str, draft: Recipe, history: Any) -> Critique:
            return Critique("", accepted=draft == TEA)

    def text(task: str, draft: str | None) -> bool:
        seen.append(draft)
        return True

    judge = ScriptedModel(["no issues"])
    build_refine_graph(ScriptedModel([recipe(2)]), answer_type=Recipe, critics=[judge]).invoke({"task": "A recipe."})
    assert '"grams": 2.0' in str(judge.calls[0][-1].content)
    out = build_refine_graph(
        ScriptedModel([recipe(2)]), answer_type=Recipe, critics=[Taster()], verifiers=[text], critics_after="always"
    ).invoke({"task": "A recipe."})
    assert (out["accepted_by"], [*map(type, seen)]) == ("text, Taster (oracle)", [str])
    rubric = Rubric(dimensions=(Dimension(name="size", weight=1),))
    sized = {"size": lambda task, draft: (float(draft.startswith("{")), "")}
    graph = build_rubric_graph(ScriptedModel([recipe(2)]), answer_type=Recipe, rubric=rubric, judges=sized)
    assert graph.invoke({"task": "A recipe."})["stop_reason"] == "accepted"


def test_json_behind_words_in_one_line_is_stripped() -> None:
    """No round is lost on a reply that leads to its JSON in the same line."""
    model = ScriptedModel([f"Here is the JSON you asked for: {recipe(2)} Enjoy!"])
    out = build_refine_graph(model, answer_type=Recipe).invoke({"task": "A recipe."})
    assert (out["structured_response"], out["rounds"]) == (TEA, 0)
    assert out["events"][1]["stripped"] == {"before": "Here is the JSON you asked for:", "after": "Enjoy!"}


def test_a_type_is_no_judgement_where_others_judge() -> None:
    """Where a model judges, what fits is not accepted for that alone; without a draft that fits there is no object."""
    model = ScriptedModel([recipe(2), "Too plain.", recipe(2, title="Mint tea"), "no issues"])
    graph = build_refine_graph(model, answer_type=Recipe, critics=[model_critic(model, structured=False)])
    out = graph.invoke({"task": "A recipe."})
    assert (out["structured_response"].title, len(model.calls)) == ("Mint tea", 4)
    lost = build_refine_graph(ScriptedModel(["a", "b"]), answer_type=Recipe, limits={"max_rounds": 1}).invoke(
        {"task": "A recipe."}
    )
    assert (lost["stop_reason"], lost["structured_response"], lost["answer"]) == ("max_rounds", None, "a")


def test_a_thread_is_resumed_forked_and_compared_by_its_fields(tmp_path: Any) -> None:
    """After a failure the thread goes on and gives the object; a fork takes an object or JSON, one that breaks a
    validator is refused by the field; two drafts differ by fields; another type is another graph."""
    with open_checkpointer(tmp_path / "runs.sqlite") as saver:
        model = ScriptedModel([recipe(2), ConnectionError("gone"), recipe(2, 3)])
        graph = build_refine_graph(model, answer_type=Recipe, verifiers=[rich], checkpointer=saver)
        assert graph.invoke({"task": "A recipe."}, ON)["stop_reason"] == "failed"
    with open_checkpointer(tmp_path / "runs.sqlite") as saver:
        graph = build_refine_graph(
            ScriptedModel([recipe(2, 3)]), answer_type=Recipe, verifiers=[rich], checkpointer=saver
        )
        thread = Thread(graph, "one")
        assert len(thread.resume()["structured_response"].ingredients) == 2
        assert graph.get_state(ON).values["structured_response"] == thread.replay().output["structured_response"]
        assert "$.ingredients[1].grams: nothing → 3.0" in str(diff(thread))
        assert "<ins>3.0</ins>" in diff(thread)._repr_mimebundle_()["text/html"]
        assert str(thread.diff()) == '$.ingredients[1].name: nothing → "leaf"\n$.ingredients[1].grams: nothing → 3.0'
        two = Recipe(title="Soup", ingredients=TEA.ingredients * 2)
        forked = thread.fork(at=0, draft=two)
        assert forked.resume()["structured_response"] == two
        for broken in ({"title": "x", "ingredients": [{"name": "y", "grams": 0}]}, recipe(0)):
            with pytest.raises(ValueError, match=r"\$\.ingredients\[0\]\.grams: must be more than nothing"):
                thread.fork(at=0, draft=broken)
        other = build_refine_graph(ScriptedModel([]), answer_type=Trip, verifiers=[rich], checkpointer=saver)
        with pytest.raises(ValueError, match="another graph"):
            Thread(other, "one").resume(limits={"max_rounds": 9})


@pytest.mark.parametrize("draft", [Place(city="Rome", days=0), {"city": "Rome"}, '{"city": "Rome"}'])
def test_a_run_begins_with_an_object(draft: Any, tmp_path: Any) -> None:
    """The `draft` of an input may be an object, whatever the saver; one that does not fit is mended like any draft."""

    def stays(task: str, draft: Place) -> tuple[bool, str]:
        return draft["days"] > 0, "Stay for a day at least."

    model = ScriptedModel(['{"city": "Rome", "days": 2}'])
    with open_checkpointer(tmp_path / "runs.sqlite") as saver:
        graph = build_refine_graph(model, answer_type=Place, verifiers=[stays], checkpointer=saver)
        out = graph.invoke({"task": "A place.", "draft": draft}, ON)
    assert (out["structured_response"], out["rounds"]) == ({"city": "Rome", "days": 2}, 1)
    assert out["events"][1]["text"].replace("\n", "").startswith('{  "city": "Rome"') or isinstance(draft, str)


def test_a_persons_edit_is_of_the_type() -> None:
    """An edit may be an object; one that breaks the type is refused with the field's name, and the pause stays."""
    with open_checkpointer("memory") as saver:
        graph = build_refine_graph(
            ScriptedModel([recipe(2)]), answer_type=Recipe, critics=[human_critic()], checkpointer=saver
        )
        graph.invoke({"task": "A recipe."}, ON)
        thread = Thread(graph, "one")
        with pytest.raises(ValueError, match=r"\$\.title"):
            thread.answer(draft='{"title": 3, "ingredients": []}')
        graph.invoke(Command(resume={"action": "edit", "draft": recipe(-2)}), ON)
        assert "grams" in graph.get_state(ON).tasks[0].interrupts[0].value["error"]
        out = thread.answer(draft=Recipe(title="Soup", ingredients=[]))
        assert (out["structured_response"].title, out["stop_reason"]) == ("Soup", "accepted")


@pytest.mark.parametrize("build", [build_branching_graph, build_adaptive_graph, build_writing_graph])
def test_presets_take_a_type(build: Any) -> None:
    """A search, samples and constraints give objects too, also where words would be added to a text."""
    own = {"branching_factor": 2, "depth": 1} if build is build_branching_graph else {}
    own |= {"words": ["leaf"]} if build is build_writing_graph else {}
    model = ScriptedModel([recipe(2), "{}", *[recipe(2, 3), recipe(2, 3, 4)] * 2])
    out = build(model, answer_type=Recipe, verifiers=[rich], **own).invoke({"task": "A recipe."})
    assert len(out["structured_response"].ingredients) == 2
    assert all(isinstance(event["text"], str) for event in out["events"])


@pytest.mark.parametrize("threshold", [None, 0.5])
def test_reasoning_answers_with_the_last_text_that_fits(threshold: float | None) -> None:
    """The last improvement is looked at too, and where it does not fit, the one before it is the answer."""
    replies = [recipe(2), {"structured": {"text": "More.", "score": 0.1}} if threshold else "More.", "No idea."]
    graph = build_reasoning_graph(ScriptedModel(replies), answer_type=Recipe, iterations=1, threshold=threshold)
    out = graph.invoke({"task": "A recipe."})
    assert (out["structured_response"], out["stop_reason"], out["error"]) == (TEA, "max_rounds", None)
    assert critiques(out)[-1][0] == "answer_type"


def test_a_preset_of_programs_refuses_a_type() -> None:
    """By name and in Python, math, code and a search say that they have no use for one."""
    with pytest.raises(ValueError, match="--answer-type has no use in math"):
        build_preset("math", ScriptedModel([]), answer_type='{"type": "object"}')
    for build in (build_math_graph, build_code_graph, lambda _, **more: build_retrieval_graph("docs", **more)):
        with pytest.raises(ValueError, match="answer_type="):
            build(ScriptedModel([]), answer_type=Recipe)
    with pytest.raises(TypeError, match="answer_type"):
        build_pipeline_graph("UseDraft", ScriptedModel([]), answer_type=Recipe)  # type: ignore[call-arg]


def test_an_agents_answer_is_typed() -> None:
    """Middleware alone asks an agent for a type, refines what does not fit, and gives the object of this turn."""
    model = ScriptedModel(["Tea.", recipe(2), recipe(3, title="Soup")])
    agent = create_agent(model, middleware=[RefineMiddleware(answer_type=Recipe)])
    out = agent.invoke({"messages": [("user", "Tea")]})
    assert (out["structured_response"], len(model.calls)) == (TEA, 2)
    assert json.loads(out["messages"][-1].content)["title"] == "Tea"
    out = agent.invoke({"messages": [*out["messages"], ("user", "Soup")]})
    assert out["structured_response"].title == "Soup"


@pytest.mark.parametrize("kind", [Recipe, list[Recipe], Trip])
def test_an_agents_typed_answer_is_json_in_checkpoints(kind: Any, tmp_path: Any) -> None:
    """On a saver of redraft's nobody names the type: the run gives the object, the database and a replay its data."""
    text = {Recipe: recipe(2), Trip: '{"places": ["Rome"]}'}.get(kind, f"[{recipe(2)}]")
    with open_checkpointer(tmp_path / "runs.sqlite") as saver:
        agent = create_agent(ScriptedModel([text]), middleware=[RefineMiddleware(answer_type=kind)], checkpointer=saver)
        answer = agent.invoke({"messages": [("user", "Tea")]}, ON)["structured_response"]
        assert answer == TypeAdapter(kind).validate_json(text)
        replay = Thread(agent, "one").replay()
        data = TypeAdapter(kind).dump_python(answer, mode="json")
        assert (replay.matches, replay.output["structured_response"]) == (True, data)
        assert agent.get_state(ON).values["structured_response"] == data


def test_the_schema_is_in_the_request_where_the_server_takes_it(serve: Any) -> None:
    """A server of OpenAI's protocol is sent the schema with each draft and never with a critic's question, and the
    tokens are counted as ever; a list goes in an object, since OpenAI takes nothing else."""
    server = serve([recipe(-1), recipe(2), '{"answer": [7]}', recipe(2)])
    model = chat_model(server.spec, max_output_tokens=50)
    out = build_refine_graph(model, answer_type=Recipe).invoke({"task": "A recipe."})
    assert (out["structured_response"], out["usage"]["calls"]) == (TEA, 2)
    assert out["usage"]["total_tokens"] > 0
    form = server.requests[1]["response_format"]["json_schema"]
    assert [request["max_tokens"] for request in server.requests] == [50, 50]
    assert form["schema"]["properties"]["ingredients"]["items"] == {"$ref": "#/$defs/Ingredient"}
    listed = build_refine_graph(model, answer_type=list[int]).invoke({"task": "A number."})
    assert listed["structured_response"] == [7]
    sent = server.requests[2]["response_format"]["json_schema"]["schema"]
    assert (sent["required"], sent["properties"]["answer"]["items"]) == (["answer"], {"type": "integer"})
    checked = build_refine_graph(model, verifiers=[matches_json_schema(Recipe)]).invoke({"task": "A recipe."})
    assert server.requests[3]["response_format"] == server.requests[0]["response_format"]
    assert "structured_response" not in checked


def test_a_server_that_refuses_the_schema_is_asked_in_words(serve: Any) -> None:
    """After a 400 the same is asked without the schema in the request, and from then on at once."""
    refusal = {"status": 400, "body": {"error": {"message": "unknown field response_format"}}}
    server = serve([refusal, "Tea.", refusal, recipe(2)])
    out = build_refine_graph(chat_model(server.spec, max_retries=0), answer_type=Recipe).invoke({"task": "Tea."})
    assert out["structured_response"] == TEA
    asked = ["response_format" in request for request in server.requests]
    assert asked == [True, False, True, False]  # once for each writer: of first drafts, of mended ones
    # A reply that a server could not read by its grammar is asked for in words once.
    broken = {"status": 500, "body": {"error": {"message": "output does not match the format"}}}
    server = serve([broken, recipe(-1), broken, recipe(-2), recipe(2)])
    graph = build_refine_graph(chat_model(server.spec, max_retries=0), answer_type=Recipe, rungs=[Arm("mend", tries=2)])
    assert graph.invoke({"task": "Tea."})["structured_response"] == TEA
    assert ["response_format" in request for request in server.requests] == [True, False, True, False, True]
    failing = build_refine_graph(chat_model(server.spec, max_retries=0), answer_type=Recipe)
    with pytest.raises(Exception, match="no reply scripted"):
        failing.invoke({"task": "Tea."})


@pytest.mark.parametrize("refused", [False, True])
def test_a_recorded_typed_run_is_replayed(serve: Any, tmp_path: Any, *, refused: bool) -> None:
    """Who records a run with an answer's type can replay it, whether the server took the schema or refused it."""
    refusal = [{"status": 400, "body": {"error": {"message": "unknown field response_format"}}}] if refused else []
    server = serve([*refusal, recipe(-1), *refusal, recipe(2)])
    path = tmp_path / "calls.sqlite"
    model = chat_model(server.spec, record=path, max_retries=0)
    out = build_refine_graph(model, answer_type=Recipe).invoke({"task": "A recipe."})
    assert ("response_format" in server.requests[-1], out["structured_response"]) == (not refused, TEA)
    asked = len(server.requests)
    again = build_refine_graph(chat_model(f"replay:{path}"), answer_type=Recipe).invoke({"task": "A recipe."})
    assert (again["structured_response"], again["rounds"], len(server.requests)) == (TEA, out["rounds"], asked)


class Answer(BaseModel):
    """A number, and whether it is even."""

    number: int = Field(ge=1, le=9)
    even: bool


@pytest.mark.embedded
def test_the_embedded_model_writes_by_a_grammar() -> None:
    """A model of 135M parameters, which writes no JSON by itself, gives an object at its first draft."""
    pytest.importorskip("xllamacpp")
    graph = build_refine_graph(chat_model("local", seed=1, max_output_tokens=60), answer_type=Answer)
    out = graph.invoke({"task": "Name a number.", "limits": {"max_rounds": 0}})
    assert isinstance(out["structured_response"], Answer)
    assert best_draft(out["events"]).round == 0  # type: ignore[union-attr]
