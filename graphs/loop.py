"""The loop: draft, get feedback, check, refine, until the work is right or a limit says stop. Internal.

START → prepare → generate → feedback → check ──┬─ stop_reason set ──→ END
                                ↑                └─ else → refine ─┐
                                └──────────────────────────────────┘
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.graph import END, START, StateGraph

from ..models.specs import as_model
from ..nodes.ahead import beginning_ahead
from ..nodes.arguments import check_choices, check_lists, over_state
from ..nodes.check import check as check_step
from ..nodes.critics.critics import (
    CALLABLE,
    NamedCritic,
    VerifierCritic,
    name_critics,
    typed_judges,
    verifier_critic,
)
from ..nodes.critics.registry import as_critics
from ..nodes.feedback import CriticsAfter
from ..nodes.feedback import feedback as feedback_step
from ..nodes.fingerprint import fingerprint
from ..nodes.generate import CHECKED_GENERATE_PROMPT, GENERATE_PROMPT
from ..nodes.generate import generate as generate_step
from ..nodes.mending.ladder import LADDER, Ladder, wished, wishes
from ..nodes.prepare import prepare as prepare_step
from ..nodes.refine import REFINE_PROMPT
from ..nodes.refine import refine as refine_step
from ..nodes.runtime.journal import journal_option
from ..nodes.runtime.step import Step
from ..nodes.runtime.superstep import Superstep
from ..nodes.sent import prompt_texts, sent_prompts
from ..nodes.verify.answer_type import AnswerType, answer_type_of, known_type, schema_option
from ..nodes.writing.prompts import Keep, Memory, PromptedModel, Prompts, known_verifier, seen_by_refiner, with_schema
from ..nodes.writing.sampling import sampled
from ..nodes.writing.writers import AdaptiveWriter, ChooseRefiner, Writer, as_refiner, as_writer, given_drafts
from ..state.open_state import open_schemas, own_keys, schemas_with
from ..state.stopping import Arm, is_checked
from ..state.threads.checked_graph import compiled
from ..state.threads.loop_kind import LoopKind
from ..state.typed_answer import ANSWER_TYPE

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.graph.state import CompiledStateGraph
    from langgraph.store.base import BaseStore

    from ..nodes.runtime.meter import Prices
    from ..state.critique import AnyVerifier
    from ..state.schema import RefineInput, RefineOutput, RefineState

__all__ = ["TASK_ONLY", "LoopParts", "build_refine_graph", "loop_reader", "price_table"]

LOG = logging.getLogger("redraft")

Checkpoints = Literal["step", "round"]

RefineGraph: TypeAlias = "CompiledStateGraph[RefineState, None, RefineInput, RefineOutput]"

SUPERSTEPS = {("step", False): 3, ("step", True): 4, ("round", False): 1, ("round", True): 3}
"""Supersteps of a round, by the checkpoints and whether a person judges."""

NO_MODEL = "without a model, give generate=, refine= and critics= (or feedback=)"

TASK_ONLY: Mapping[str, Any] = {"chat": False}
"""Options of a preset that is no chat: who judges there would not know what was said before the task."""


def route(state: RefineState) -> Literal["refine", "__end__"]:
    """Go on until there is a reason to stop. Reads state only, so that a fork can change it."""
    return "__end__" if state.get("stop_reason") else "refine"


def route_draft(state: RefineState) -> Literal["feedback", "generate"]:
    """Have an error raised by the node that it came from, once what it cost is stored."""
    return "generate" if state.get("raised") is not None else "feedback"


class Router(Runnable[Any, str]):
    """A function of the state that names the node to go to, called in place.

    LangGraph hands a plain function to a thread in an async run, which costs more than a router does.

    Args:
        function: Takes the state and returns the name of a node.
    """

    def __init__(self, function: Callable[[Any], str]) -> None:
        self.name = function.__name__
        self.function = function

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> str:  # noqa: A002
        return self.function(input)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> str:  # noqa: A002
        return self.function(input)


def wire(
    graph: StateGraph[Any, Any, Any, Any],
    *,
    prepare: Step,
    generate: Step,
    feedback: Step,
    human: Step | None,
    check: Step,
    refine: Step,
    one_a_round: bool,
) -> None:
    """Add the nodes and edges of the loop; for one checkpoint a round, critics and `check` run within other nodes."""

    def add(
        node: Step, *then: str, within: Sequence[Step] = (), by: Callable[[RefineState], str] | None = None
    ) -> None:
        if within:
            # It may have ended before `check`, and a fork is written as a node that did not run: the state tells.
            def onward(state: RefineState) -> str:
                return route(state) if is_checked(state) else by(state) if by else then[0]

            graph.add_node(node.name, Superstep([node, *within], graph.channels))
            graph.add_conditional_edges(node.name, Router(onward), [*then, "refine", END])
        else:
            graph.add_node(node.name, node)
            if by:
                graph.add_conditional_edges(node.name, Router(by), [*then])
            else:
                graph.add_edge(node.name, then[0])

    checked = [check] if one_a_round else []
    judged = [feedback, check] if one_a_round and human is None else []
    graph.add_edge(START, "prepare")
    add(prepare, "generate")
    add(generate, "feedback", "generate", by=route_draft, within=judged)
    if human is None:
        add(feedback, "check", within=checked)
    else:  # in a superstep of their own, so that a pause saves what the other critics have answered
        add(feedback, "human")
        add(human, "check", within=checked)
    graph.add_node("check", check)
    graph.add_conditional_edges("check", Router(route), ["refine", END])
    add(refine, "feedback", within=judged)


class LoopParts(NamedTuple):
    """The parts of a loop, of which others can be built: the baselines of an evaluation, say."""

    first: Writer
    """Writes first drafts."""
    sample: Writer
    """Writes another first draft."""
    critics: tuple[NamedCritic, ...]
    answer_type: Any
    limits: Mapping[str, Any]


def build_refine_graph(
    model: BaseChatModel | str | None = None,
    *,
    critics: Sequence[Any] | None = None,
    verifiers: Sequence[AnyVerifier | str] = (),
    generate: Writer | None = None,
    feedback: Any = None,
    check: Any = None,
    refine: Writer | Mapping[str, Writer | Prompts] | None = None,
    choose_refiner: ChooseRefiner | None = None,
    prepare: Any = None,
    finish: Any = None,
    generate_prompt: Prompts | None = None,
    refine_prompt: Prompts | None = None,
    critic_prompt: Prompts | None = None,
    keep: Keep | None = None,
    memory: Memory = "all",
    judge_last: bool = True,
    critics_after: CriticsAfter = "undecided",
    tell_checks: bool = True,
    rungs: Sequence[Arm | str] = LADDER,
    limits: Mapping[str, Any] | None = None,
    prices: Prices | Mapping[str, Any] | None = None,
    checkpointer: BaseCheckpointSaver[Any] | bool | None = None,
    journal: bool | None = None,
    checkpoints: Checkpoints = "step",
    store: BaseStore | None = None,
    answer_type: Any = None,
    state_schema: type[Any] | None = None,
    input_schema: type[Any] | None = None,
    chat: bool = True,
    name: str = "refine",
) -> RefineGraph:
    """Return the loop as an ordinary compiled graph: it streams, draws itself, and works as a node in another graph.

    Its input is a `task`, or `messages`: then it is a chat. The last user message is the task, writers and model
    critics are told what was said before it in the thread, and the answer is the last of the output's `messages`.

    Args:
        model: Writes drafts and revisions, and judges them where no critic is given: a chat model, or a text that names
            one, as `chat_model` takes it. Needed unless `generate`,
            `refine` and `critics` (or `feedback`) are all given.
        critics: Asked about each draft, cheapest first; a chat model among them judges. Default, where no verifier is
            given: the model itself, whose own opinion nobody has measured: that is logged once a process (logger
            `redraft`), and `accepted_by` says `self (uncalibrated)`.
        verifiers: Programs that judge, `(task, draft) -> Critique`, each as `verifier_critic` makes a critic of it; or
            texts, as `--verify` takes them.
        generate: Writes the first draft, where the input has no `draft`: a callable over the state, a Runnable, an
            agent, or a compiled graph.
        feedback: Takes the state and returns a Critique, a verdict as a verifier's, or several; stands in for the
            critics.
        check: Takes the state and returns a stop reason or `None`; stands in for the stop logic. Which draft is the
            answer it does not say; `redraft.state.best_draft(state["events"])` tells it.
        refine: Writes revisions, like `generate`. Or several refiners by name, of which one writes each revision and is
            named as `refiner` in its event: writers, or prompts to ask the model with.
        choose_refiner: Takes the state and returns the name of one of several refiners: a callable, async or not, or a
            Runnable. Default: the first whose name is that of a critic who did not accept the draft, else the first.
        prepare: Run on the fresh state before the first draft; returns a state update.
        finish: Run when the run ends with an answer, which the state has as `answer`, unless it ends as `failed`;
            returns a state update, and decides nothing.
        generate_prompt: Template over `task`, and `context` where passages were looked up. The verifiers' wishes are
            part of the task.
        refine_prompt: Template over these, `draft`, `feedback`, `history` and `round`, or several, one a round: all
            revisions are asked for with it. Default: where verifiers judge, the ladder (see `docs/loop.md`).
        critic_prompt: Of the chat models that judge; one, or several, one a round.
        keep: The answer, and what is revised, is the `"best"` draft, of equal ones the earlier, or simply the `"last"`.
            Default: `"last"` with `judge_last=False`, whose last revision is the answer though nobody judges it, and
            where only people judge; else `"best"`.
        memory: What the refiner sees of earlier attempts: `"all"`, or only the `"last"` draft.
        judge_last: Whether the last revision is judged too. With `False` and N rounds a run makes 1 + 2N model calls.
        critics_after: When critics other than verifiers are asked: while no verifier decided, or `"always"`.
        tell_checks: Whether the model is told, with the task, what the verifiers want.
        rungs: Where verifiers judge, the ways to mend a draft in order, and how often each may bring nothing: `mend`
            (the draft and what one check found), `rewrite` (the draft out of sight), `sample` (from the task alone).
            By its name alone one has its usual tries.
        limits: Used where the caller gives none.
        prices: Turns tokens into dollars: a `redraft.models.PriceTable`, or what it takes. Default: the bundled list.
        checkpointer: As in `StateGraph.compile`.
        journal: Whether replies are kept as they come, so that no finished call is paid twice, see
            `redraft.nodes.runtime`. Default: where the saver in force is one of `open_checkpointer`. A run's own config
            has the last word: `{"configurable": {"redraft_journal": False}}`.
        checkpoints: `"step"` saves a checkpoint after each node. `"round"` saves one a round: a draft is judged in the
            superstep that writes it, which takes a durable run less CPU (see `docs/threads.md`). Results and forks
            are the same, and a thread that was begun with one goes on with the other.
        store: As in `StateGraph.compile`: what nodes of yours remember from one thread to the next.
        answer_type: The type of the answer: a pydantic model, a dataclass, a TypedDict, a list or union of them, or a
            JSON Schema. The model is asked for it, a draft in the record is its JSON, and what does not fit is
            feedback that names the field. A judge whose `draft` is annotated as another type than `str` is given the
            object, a writer may return one, and that of the answer is the output's `structured_response`. With no
            other judge, what fits is accepted.
        state_schema: A TypedDict with keys of yours beside the loop's. A caller may give them with the task, they stay
            with the thread until they are given again, stand in prompts by their names, reach critics and verifiers
            that take `state`, and come back in the output. LangGraph drops all others that a node writes.
        input_schema: Narrows what a caller may give to the keys of this TypedDict.
        chat: Whether the input may be `messages` in place of a task.
        name: Name of the graph, as a node and in traces.

    Raises:
        ValueError: A model or writer is missing, a prompt or limit makes no sense, a refiner could never be chosen,
            `judge_last=False` stands beside a verifier (judging is free then), `checkpoints` is neither of the two, or
            `journal=True` stands beside a saver that is not of `open_checkpointer`.
        TypeError: A critic, writer or function is not callable, or takes other arguments.

    Example:
        >>> from redraft import build_refine_graph, uses_words, verifier_critic
        >>> from redraft.models import ScriptedModel
        >>> critics = [verifier_critic(uses_words("rain", "roof"))]
        >>> graph = build_refine_graph(ScriptedModel(["Rain falls.", "It drums on the roof."]), critics=critics)
        >>> graph.invoke({"task": "Write about rain."})["answer"]
        'Rain falls. It drums on the roof.'
    """
    model = model if model is None else as_model(model)
    check_choices(
        keep=(keep or "best", Keep), memory=(memory, Memory), judge_last=(judge_last, bool),
        tell_checks=(tell_checks, bool), critics_after=(critics_after, CriticsAfter),
        checkpoints=(checkpoints, Checkpoints),
    )  # fmt: skip
    prepare, generate, feedback, check, choose_refiner, refine, finish = over_state(
        prepare=prepare, generate=generate, feedback=feedback, check=check, choose_refiner=choose_refiner,
        refine=refine, finish=finish,
    )  # fmt: skip
    prices = price_table(prices)
    answer = answer_type_of(answer_type)
    own = tuple(own_keys(state_schema))
    named = _judges(
        model, critics, verifiers, feedback, prompt=critic_prompt, judge_last=judge_last, own=own, answer=answer
    )
    people = [critic for critic in named if critic.human]
    others = [critic for critic in named if not critic.human]
    # People lead from draft to draft, and rank none of them.
    ranked = judge_last and bool(others or not people)
    keep = seen_by_refiner({"keep": keep, "judge_last": ranked})["keep"]
    # Of a function in the critics' place nobody knows by what names it will sign.
    critic_names = None if feedback is not None else [critic.name for critic in named]
    # What knows the gold answer tells no writer anything.
    checks = {one.name: one.call for one in named if isinstance(one.call, VerifierCritic) and not one.oracle}
    requirements = _told(checks, tell_checks=tell_checks)
    first, revise = _writers(
        model,
        (given_drafts(generate, answer, keep=keep), generate_prompt),
        (given_drafts(refine, answer, keep=keep), refine_prompt),
        choose_refiner,
        critics=critic_names,
        checks=checks,
        seen={"keep": keep, "memory": memory},
        asking={"told": requirements, "own": own},
        rungs=rungs,
    )

    schema = _schema_wanted(answer, checks)
    first, revise = with_schema(first, schema), with_schema(revise, schema)
    # Kept with the task: a replay, a report and the page fold the record by the rules that the run had.
    options = {
        "keep": keep,
        "judge_last": judge_last,
        "asks": bool(named) and judge_last,
        "custom_check": check is not None,
        **schema_option(answer),
        **_arms_option(revise),
        **({"wishes": texts} if (texts := wished(checks.values())) else {}),
    }

    state, input_type, output = open_schemas(state_schema, input_schema, chat=chat, answer=answer)
    graph = StateGraph(state, input_schema=input_type, output_schema=output)
    rules = {"keep": keep, "judge_last": judge_last, "memory": memory, "critics_after": critics_after}
    identity = fingerprint(
        ["prepare", "generate", "feedback", *(["human"] if people else []), "check", "refine"],
        writers={"generate": first, "refine": revise, **({} if prepare is None else {"prepare": prepare})},
        critics=named,
        options={**rules, "check": check, "choose_refiner": choose_refiner},
    )
    no_draft, again = getattr(generate, "no_draft", ""), _asked_again(first)
    opening = prepare_step(
        prepare, limits=limits, options=options, fingerprint=identity, no_draft=no_draft, prices=prices
    )
    judging: dict[str, Any] = {"critics_after": critics_after, "judge_last": judge_last}
    ends_with = keep if check is None else None  # a check of somebody's own ends the run when it likes
    wire(
        graph,
        prepare=opening,
        generate=beginning_ahead(
            generate_step(first, answer=answer, prices=prices, raises_later=True),
            others,
            judge_last=judge_last,
            prices=prices,
        ),
        feedback=feedback_step(others, prices=prices, asks_about=not people, **judging),
        human=feedback_step(people, name="human", ends_with=ends_with, **judging) if people else None,
        # `check` reckons whether another round fits under the caller's recursion_limit, so it must know its supersteps.
        check=check_step(check, finish=finish, keep=keep, steps_a_round=SUPERSTEPS[checkpoints, bool(people)]),
        refine=refine_step(revise, keep=keep, first=again, answer=answer, prices=prices),
        one_a_round=checkpoints == "round",
    )
    # `Thread` asks a graph for its kind, to know how a thread of it is replayed and forked.
    kind = LoopKind(
        people=bool(people),
        fingerprint=identity,
        options=options,
        own=own,
        known_verifier=known_verifier,
        known_type=known_type(answer),
        prompts=partial(sent_prompts, first=first, again=again, revise=revise, critics=named),
        prompt_texts=prompt_texts(first=first, revise=revise, critics=named),
        parts=LoopParts(generate or first, generate or again, tuple(named), answer_type, dict(limits or {})),
    )
    loop: RefineGraph = compiled(graph, kind, checkpointer=checkpointer, store=store, name=name)
    # `None` binds nothing: then the saver that is in force when it runs decides.
    return loop if journal is None else loop.with_config(configurable=journal_option(journal, checkpointer))


def _judges(
    model: BaseChatModel | None,
    critics: Sequence[Any] | None,
    verifiers: Sequence[AnyVerifier | str],
    feedback: Any,
    *,
    prompt: Prompts | None,
    judge_last: bool,
    own: Sequence[str],
    answer: AnswerType | None,
) -> list[NamedCritic]:
    """Return the critics of a loop: those given, the function in their place, or else the model itself.

    Of typed drafts a program looks at the type first, and says nothing of what fits where others judge.
    """
    check_lists(critics=critics, verifiers=verifiers)
    if model is None and feedback is None and answer is None and critics is None and not verifiers:
        raise ValueError(NO_MODEL)
    if feedback is not None and (critics or verifiers):
        raise ValueError("give critics= or feedback=, not both: feedback= stands in for the critics")
    if critics is None and not verifiers and feedback is None and answer is None:
        critics = [model]
        say_uncalibrated()
    judges = [*map(verifier_critic, verifiers), *as_critics(critics or (), prompt=prompt)]
    if feedback is not None:
        return [NamedCritic("feedback", feedback, CALLABLE, takes_state=True)]
    if answer is not None:
        judges = typed_judges(answer, judges)
    named = name_critics(judges, model=model, own=own)
    if not judge_last and any(critic.verifier for critic in named):
        raise ValueError("judge_last=False with a verifier: judging the last draft is free, so leave it True")
    return named


def _asked_again(first: Writer) -> Writer:
    """Return the writer of first drafts for another try: the same words to a model that is sure of itself bring the
    same refusal."""
    again = copy(first)
    if isinstance(again, PromptedModel):
        again.model = sampled(again.model)
    return again


def _arms_option(refine: Writer) -> dict[str, Any]:
    """Return the arms of who revises as an option of the record; empty where it has none."""
    return {"arms": [list(arm) for arm in refine.arms]} if isinstance(refine, AdaptiveWriter) else {}


def _schema_wanted(answer: AnswerType | None, checks: Mapping[str, VerifierCritic]) -> Mapping[str, Any] | None:
    """Return the schema that a model is asked for: that of the answer, else of a verifier among the critics."""
    wanted = [answer, *(check.verifier for check in checks.values())]
    schemas = (getattr(one, "schema", None) for one in wanted)
    return next((schema for schema in schemas if isinstance(schema, Mapping)), None)


def _told(checks: Mapping[str, VerifierCritic], *, tell_checks: bool) -> str:
    """Return the wishes of verifiers as they are told with the task; those of an answer's type in any case."""
    return wishes([one for one in checks.values() if tell_checks or one.name == ANSWER_TYPE])


def _writers(
    model: BaseChatModel | None,
    first: tuple[Any, Prompts | None],
    later: tuple[Any, Prompts | None],
    choose_refiner: ChooseRefiner | None,
    *,
    critics: Sequence[str] | None,
    checks: Mapping[str, VerifierCritic],
    seen: Mapping[str, Any],
    asking: Mapping[str, Any],
    rungs: Sequence[Arm | str],
) -> tuple[Writer, Writer]:
    """Return the writers of drafts and of revisions: each the writer given, or the model asked with its prompt.

    `asking` holds what a model is told with the task, and which keys of one's own its prompts may name.
    """

    def asked(prompts: Prompts, what: str) -> Writer:
        if model is None:
            raise ValueError(f"{what} is a prompt, and there is no model to ask with it")
        return PromptedModel(model, prompts, what=what, **asking, **seen)

    generate, generate_prompt = first
    refine, refine_prompt = later
    if model is None and (generate is None or refine is None):
        raise ValueError(NO_MODEL)
    if generate_prompt is None:
        generate_prompt = CHECKED_GENERATE_PROMPT if asking["told"] else GENERATE_PROMPT
    drafts = asked(generate_prompt, "generate_prompt") if generate is None else as_writer(generate, **seen)
    if model is not None and checks and refine is None and refine_prompt is None and choose_refiner is None:
        ladder = Ladder(
            sampled(model),
            checks,
            revise_prompt=REFINE_PROMPT,
            generate_prompt=generate_prompt,
            keep=seen["keep"],
            arms=rungs,
            **asking,
        )
        return drafts, ladder
    refiner = (REFINE_PROMPT if refine_prompt is None else refine_prompt) if refine is None else refine
    return drafts, as_refiner(refiner, choose_refiner, asked, critics=critics, **seen)


def loop_reader(checkpointer: BaseCheckpointSaver[Any], *, human: bool = False, own: Sequence[str] = ()) -> RefineGraph:
    """Return a graph wired as the loop, whose nodes do nothing: it reads and forks threads, and runs none.

    A fork that it writes goes on with the graph of its parent, so it has no fingerprint of its own.

    Args:
        checkpointer: Where the threads are.
        human: Whether a person is asked in them: a fork must not go past their node.
        own: Keys of their state; a fork keeps those that are not the loop's.
    """
    nodes = {name: Step(name, _nothing) for name in ("prepare", "generate", "feedback", "check", "refine")}
    state, input_type, output = schemas_with(own)
    graph = StateGraph(state, input_schema=input_type, output_schema=output)
    wire(graph, **nodes, human=Step("human", _nothing) if human else None, one_a_round=False)
    reader: RefineGraph = compiled(
        graph,
        LoopKind(people=human, known_verifier=known_verifier, known_type=known_type(None)),
        checkpointer=checkpointer,
        name="refine",
    )
    return reader


def _nothing(state: Any, config: Any) -> Any:
    raise NotImplementedError("this graph reads threads, and runs none")


@cache
def say_uncalibrated() -> None:
    """Log, once a process, that nothing but the model's own opinion accepts its drafts."""
    LOG.warning(
        "no critics are given, so nothing but the model's own opinion accepts its drafts: verifier_critic(…) checks by "
        "program, and calibrated(…) bounds how often an acceptance is wrong"
    )


def price_table(prices: Prices | Mapping[str, Any] | None) -> Prices:
    """Return the price table that a graph counts with: the one given, or one with these prices by model, or the usual.

    Raises:
        ValueError: A price makes no sense.
        TypeError: It is no price table.
    """
    from ..models import PriceTable

    if prices is None or isinstance(prices, Mapping):
        return PriceTable(prices)
    if not callable(getattr(prices, "cost_usd", None)):
        raise TypeError(f"prices is a redraft.models.PriceTable, or prices by model, not {prices!r:.200}")
    return prices
