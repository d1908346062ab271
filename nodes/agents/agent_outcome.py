"""The outcome of a judgement, as an agent's conversation is told it: feedback, or the best answer. Internal.

It imports LangChain's agents (the extra `agents`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage

from ...state.summary import Attempt, best_draft, latest_draft, rejected_since_draft, rounds
from .agent_files import files_in, restored
from .agent_state import feedback_message, since_asked
from .structured_answers import like, schema_in

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..writing.prompts import Keep
    from .agent_feedback import AgentFeedback

__all__ = ["said_in_conversation"]


def said_in_conversation(
    state: Mapping[str, Any], loop: Mapping[str, Any], *, feedback: AgentFeedback, keep: Keep, files: Sequence[str]
) -> dict[str, Any]:
    """Return the update of an agent's conversation: the feedback, or the best draft as the last message.

    Args:
        state: Of the agent.
        loop: Of the refinement, after its answer was judged.
        feedback: Makes the text of the feedback.
        keep: Whether the best or the latest draft is the answer.
        files: Patterns of the files that belong to it.
    """
    events = loop["events"]
    best, latest = best_draft(events, keep=keep), latest_draft(events)
    fresh = not rejected_since_draft(events)  # the last thing that the agent said is its newest draft
    reply = next((one for one in reversed(since_asked(state["messages"])) if isinstance(one, AIMessage)), None)
    best_data, update = state.get("_refine_kept"), dict[str, Any]()
    own = best is latest and fresh and reply is not None and latest is not None and not _edited(latest)
    data, written = state.get("structured_response"), files_in(state, files)
    if own and latest is not None and reply is not None and (data is not None or files):
        best_data = {"round": latest.round, "data": data, "files": written, "answer": str(reply.text)}
        update["_refine_kept"] = best_data
    of_best = best_data if best_data is not None and best is not None and best_data["round"] == best.round else None
    if of_best and not own and (changed := restored(written, of_best.get("files", written))):
        update["files"] = changed
    if loop["stop_reason"] is None:
        told = feedback(loop["task"], events, keep=keep)
        return {**update, "messages": [feedback_message(told, rounds(events))], "jump_to": "model"}
    if best is None:
        return update
    about = {"redraft": {name: loop[name] for name in OUTCOME}}
    if own and reply is not None:
        metadata = {**reply.response_metadata, **about}
        return {**update, "messages": [reply.model_copy(update={"response_metadata": metadata})]}
    text = of_best.get("answer", best.text) if of_best and files and not _edited(best) else best.text
    update["messages"] = [AIMessage(text, response_metadata=about)]
    if schema_in(events) is not None:
        example = best_data["data"] if best_data is not None else data
        update["structured_response"] = example if of_best else _data_in(best.text, example)
    return update


def _edited(attempt: Attempt) -> bool:
    """Return whether a person wrote a draft."""
    return any(critique["kind"] == "human" and critique["by"] == attempt.by for critique in attempt.critiques)


def _data_in(text: str, known: Any) -> Any:
    """Return the data of a draft; `None` where a person wrote what does not fit."""
    try:
        return like(known, text)
    except ValueError:
        return None


OUTCOME = ("stop_reason", "rounds", "score", "accepted_by", "oracle", "usage")
