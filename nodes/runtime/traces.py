"""Rounds, verdicts and scores in the traces of LangSmith, Langfuse, Phoenix and other LangChain tracers. Internal.

Nothing here is imported before a run has a callback handler, and nothing is sent but through the client of a tracer
that the caller set up. What is sent are names, numbers and verdicts; the words stand in the trace, as its own settings
have it.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Literal, Protocol
from uuid import NAMESPACE_URL, UUID, uuid5
from weakref import WeakKeyDictionary

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.tracers.base import BaseTracer

from ...state.events import CRITIQUE_KINDS, DRAFT_KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from langchain_core.runnables import RunnableConfig

__all__ = ["PhoenixFeedback", "Score", "note_event", "phoenix_feedback", "wait_for_scores", "with_metadata"]

LOG = logging.getLogger("redraft")
VERDICTS = {True: "accepted", False: "rejected", None: "undecided"}
PAUSES_S = (0.0, 0.5, 2.0)
MOST_RUNS = 1000
"""Of how many runs it is kept which trace wrote which draft; a run is forgotten when it ends."""


@dataclass(frozen=True)
class Score:
    """Verdict of one critic, or in the end of the loop, on a draft."""

    name: str
    score: float | None
    """0-1; `None` where a critic can't tell."""
    label: str
    """`accepted`, `rejected` or `undecided`; of a whole run its stop reason."""
    kind: Literal["CODE", "LLM", "HUMAN"]
    """The kind of judge."""
    about: Mapping[str, Any]
    """The round, and whether a gold answer had a say."""


@dataclass(frozen=True)
class TracedRun:
    """One step of a run, as one tracer knows it."""

    tracer: int
    """Tells tracers apart: LangChain copies one, and its copies know the same runs."""
    parent: UUID | None
    add_metadata: Callable[[Mapping[str, Any]], None]
    send: partial[None] | None
    """Logs a score of it, where scores are taken; its first argument is the client."""


class Spans(Protocol):
    """Spans of a Phoenix client."""

    @property
    def add_span_annotation(self) -> Callable[..., Any]: ...


class PhoenixClient(Protocol):
    """A `phoenix.client.Client`."""

    @property
    def spans(self) -> Spans: ...


class PhoenixFeedback(BaseCallbackHandler):
    """Stands among a run's callbacks for where scores of OpenInference's spans go; it hears nothing."""

    ignore_llm = ignore_chat_model = ignore_chain = ignore_agent = True
    ignore_retriever = ignore_retry = ignore_custom_event = True
    run_inline = True

    def __init__(self, client: PhoenixClient) -> None:
        self.client = client


def phoenix_feedback(client: PhoenixClient) -> PhoenixFeedback:
    """Return a callback that logs critics' scores as annotations of Phoenix's spans.

    `graph.invoke(task, {"callbacks": [phoenix_feedback(Client())]})`, in a process whose runs OpenInference traces to
    Phoenix: by `phoenix.otel.register(auto_instrument=True)`, say.

    Args:
        client: A `phoenix.client.Client`, which knows the server and its key.

    Raises:
        TypeError: It can't annotate spans.
    """
    if not callable(getattr(getattr(client, "spans", None), "add_span_annotation", None)):
        raise TypeError(f"a client of Phoenix is phoenix.client.Client(…), not {type(client).__name__}")
    return PhoenixFeedback(client)


SHARED: list[PhoenixClient] = []
"""Where scores of OpenInference's spans go in runs without a `phoenix_feedback`: set by a server's own tracing."""


def with_metadata(config: RunnableConfig, about: Mapping[str, Any]) -> RunnableConfig:
    """Return the config of a call whose traces say what it is about; the same one where nothing traces the run."""
    manager: Any = config["callbacks"]
    if not any(_is_tracer(handler) for handler in manager.handlers):
        return config
    return {**config, "metadata": {**config.get("metadata", {}), **about}}


def note_event(config: RunnableConfig, event: Mapping[str, Any]) -> None:
    """Tell the tracers of a run what just happened in it. No tracer's error ends a run.

    Args:
        config: Of the node that says it, with callback handlers.
        event: As `emit` is given it.
    """
    try:
        manager: Any = config["callbacks"]
        for handler in filter(_is_tracer, manager.handlers):
            find = partial(_traced, handler, beside=manager.handlers)
            if manager.parent_run_id is not None and (step := find(manager.parent_run_id)) is not None:
                _note(step, event, find)
    except Exception as error:
        _say_once("a step could not be told to its tracer", type(error).__name__)


def _note(step: TracedRun, event: Mapping[str, Any], find: Callable[[UUID], TracedRun | None]) -> None:
    kind, number = event.get("kind"), event.get("round")
    if kind == "start" and number is not None:
        step.add_metadata({"round": number})
    elif kind in DRAFT_KINDS:
        # A revision that is none is told apart, so that rounds can be counted in a trace.
        step.add_metadata({"round": number, **({"rejected": event["rejected"]} if event.get("rejected") else {})})
        if step.parent is not None and step.send is not None and not event.get("rejected"):
            _drafts_of(step.parent)[step.tracer, number] = step.send
    elif kind in CRITIQUE_KINDS:
        critic = str(event.get("critic", event["by"]))
        score = _score(critic, event)
        step.add_metadata({"round": number, f"verdict_of.{critic}": score.label})
        send = _drafts_of(step.parent).get((step.tracer, number)) if step.parent is not None else None
        _send_later(send or step.send, score)
    elif kind == "verdict":
        reason = event.get("stop_reason")
        fields = {"verdict": VERDICTS[event["accepted"]], "score": event.get("score"), "stop_reason": reason}
        known_fields = {name: value for name, value in fields.items() if value is not None}
        step.add_metadata({"round": number, **known_fields})
        if reason is not None and step.parent is not None and (whole := find(step.parent)) is not None:
            whole.add_metadata({"rounds": number, **known_fields})
            about = {"round": number, **({"oracle": True} if event.get("oracle") else {})}
            _send_later(whole.send, Score("accepted", float(event["accepted"] is True), reason, "CODE", about))
            with _LOCK:
                _RUNS.pop(step.parent, None)


def _score(critic: str, event: Mapping[str, Any]) -> Score:
    accepted, number = event.get("accepted"), event.get("score")
    score = number if number is not None or accepted is None else float(accepted)
    kind: Any = "HUMAN" if event["kind"] == "human" else "CODE" if event.get("verifier") else "LLM"
    about = {"round": event["round"], **({"oracle": True} if event.get("oracle") else {})}
    return Score(critic, score, VERDICTS[accepted], kind, about)


def _is_tracer(handler: Any) -> bool:
    """Return True if a handler keeps runs, as tracers do; whoever streams messages does not."""
    return isinstance(handler, BaseTracer) or _is_langfuse(handler)


def _is_langfuse(handler: Any) -> bool:
    return type(handler).__module__.startswith("langfuse.")


def _traced(handler: Any, run_id: UUID, *, beside: list[Any]) -> TracedRun | None:
    """Return a step as a tracer knows it; `None` where it does not."""
    if _is_langfuse(handler):
        return _in_langfuse(handler, run_id)
    run = handler.run_map.get(str(run_id))
    if run is None:
        return None

    def add(about: Mapping[str, Any]) -> None:
        # Another dict each time: LangChain gives one to several runs.
        run.extra = {**run.extra, "metadata": {**(run.extra.get("metadata") or {}), **about}}

    client = getattr(handler, "client", None)
    if client is not None and hasattr(client, "create_feedback"):
        to_langsmith = partial(_to_langsmith, client, run_id, run.trace_id or run.id, run.session_name)
        return TracedRun(id(handler.run_map), run.parent_run_id, add, to_langsmith)
    phoenix = next((one.client for one in beside if isinstance(one, PhoenixFeedback)), SHARED[0] if SHARED else None)
    span = handler.get_span(run_id) if phoenix is not None and hasattr(handler, "get_span") else None
    if span is None or phoenix is None:
        return TracedRun(id(handler.run_map), run.parent_run_id, add, None)
    name = format(span.get_span_context().span_id, "016x")
    return TracedRun(id(handler.run_map), run.parent_run_id, add, partial(_to_phoenix, phoenix, name))


def _in_langfuse(handler: Any, run_id: UUID) -> TracedRun | None:
    # Langfuse's handler has no public way from a run of LangChain to its observation.
    span = handler._runs.get(run_id)
    if span is None:
        return None
    state = handler._run_states.get(run_id)
    parent = state.parent_run_id if state else None
    # What is said of a whole trace is a score of the trace.
    observation = None if parent is None else span.id
    send = partial(_to_langfuse, handler._langfuse_client, span.trace_id, observation)
    return TracedRun(id(handler), parent, lambda about: span.update(metadata=dict(about)), send)


def _to_langfuse(client: Any, trace: str, observation: str | None, score: Score) -> None:
    client.create_score(
        name=score.name,
        # A category where there is no number.
        value=score.label if score.score is None else score.score,
        data_type="CATEGORICAL" if score.score is None else "NUMERIC",
        trace_id=trace,
        observation_id=observation,
        score_id=str(_id_of(observation or trace, score)),
        metadata={**score.about, "verdict": score.label, "annotator_kind": score.kind},
    )


def _to_langsmith(client: Any, run_id: UUID, trace_id: UUID, project: str | None, score: Score) -> None:
    client.create_feedback(
        run_id=run_id,
        trace_id=trace_id,
        key=score.name,
        score=score.score,
        value=score.label,
        feedback_source_type="model" if score.kind == "LLM" else "api",
        source_info={**score.about, "annotator_kind": score.kind},
        feedback_id=_id_of(run_id, score),
        session_id=_project_id(client, project),
        stop_after_attempt=1,
    )


@lru_cache(64)
def _project_id(client: Any, name: str | None) -> UUID | None:
    """Return the id of a project, which LangSmith wants beside a score; `None` where the key may not ask for it."""
    from langsmith.utils import LangSmithNotFoundError

    for pause_s in PAUSES_S:
        sleep(pause_s)
        try:
            project_id: UUID = client.read_project(project_name=name).id
        except LangSmithNotFoundError:  # the project is made when its first run arrives
            continue
        except Exception:
            break
        return project_id
    return None


def _to_phoenix(client: PhoenixClient, span_id: str, score: Score) -> None:
    client.spans.add_span_annotation(
        span_id=span_id,
        annotation_name=score.name,
        annotator_kind=score.kind,
        label=score.label,
        score=score.score,
        metadata=dict(score.about),
    )


def _id_of(run: object, score: Score) -> UUID:
    """Return the id of a score, the same where it is sent again."""
    return uuid5(NAMESPACE_URL, f"redraft/{run}/{score.name}")


_RUNS: OrderedDict[UUID, dict[tuple[int, Any], partial[None]]] = OrderedDict()
_LOCK = threading.Lock()


def _drafts_of(run: UUID) -> dict[tuple[int, Any], partial[None]]:
    """Return the senders of scores of each draft of a run, by tracer and round: they come when its step has ended."""
    with _LOCK:
        senders = _RUNS.setdefault(run, {})
        _RUNS.move_to_end(run)
        if len(_RUNS) > MOST_RUNS:
            _RUNS.popitem(last=False)
        return senders


def wait_for_scores(timeout_s: float = 10.0) -> None:
    """Wait until the scores so far are handed to their clients.

    Raises:
        TimeoutError: They could not be, within this many seconds.
    """
    _sender().submit(int).result(timeout_s)


def _send_later(send: partial[None] | None, score: Score) -> None:
    """Send a score from a thread of its own: a service that is slow or away holds up no run."""
    if send is not None:
        _sender().submit(_send, send, score)


def _send(send: partial[None], score: Score) -> None:
    client = send.args[0]
    if monotonic() < _AWAY.get(client, 0.0):
        return
    try:
        send(score)
    except Exception as error:
        _AWAY[client] = monotonic() + AWAY_S
        _say_once("a score could not be sent", type(error).__name__)


_AWAY: WeakKeyDictionary[Any, float] = WeakKeyDictionary()
"""Until when a client is left alone, whose service did not take a score."""
AWAY_S = 60


@cache
def _sender() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix="redraft-scores")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_sender.cache_clear)  # its thread is not in the child


@cache
def _say_once(what: str, error: str) -> None:
    # The type alone: a message may hold an address with a key, or a draft.
    LOG.warning("%s, and the run goes on without it: %s", what, error)
