"""The outcome of a judgement, as an agent's conversation is told it: feedback, or the best answer. Internal.

Files of a deep agent are parts of its answers.
It imports LangChain's agents (the extra `agents`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage

from ...state.summary import Attempt, best_draft, latest_draft, rejected_since_draft, rounds
from ..writing.prompt_injection import fence, opens_part
from ..writing.replies import reply_in
from .agent_state import feedback_message, since_asked
from .structured_answers import like, schema_in

if TYPE_CHECKING:
    from ..writing.prompts import Keep
    from .agent_feedback import AgentFeedback

__all__ = ["files_in", "restored", "said_in_conversation", "with_files"]


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
    reply = reply_in({"messages": since_asked(state["messages"])})
    best_data, update = state.get("_refine_kept"), dict[str, Any]()
    own = reply if best is latest and fresh and latest is not None and not _edited(latest) else None
    data, written = state.get("structured_response"), files_in(state, files)
    if own is not None and best is not None and (data is not None or files):
        best_data = {"round": best.round, "data": data, "files": written, "answer": str(own.text)}
        update["_refine_kept"] = best_data
    of_best = best_data if best_data and best and best_data["round"] == best.round else None
    if of_best and own is None and (changed := restored(written, of_best.get("files", written))):
        update["files"] = changed
    if loop["stop_reason"] is None:
        told = feedback(loop["task"], events, keep=keep)
        return {**update, "messages": [feedback_message(told, rounds(events))], "jump_to": "model"}
    if best is None:
        return update
    about = {"redraft": {name: loop[name] for name in OUTCOME}}
    if own is not None:
        metadata = {**own.response_metadata, **about}
        return {**update, "messages": [own.model_copy(update={"response_metadata": metadata})]}
    text = of_best.get("answer", best.text) if of_best and files and not _edited(best) else best.text
    update["messages"] = [AIMessage(text, response_metadata=about)]
    if schema_in(events) is not None:
        update["structured_response"] = of_best["data"] if of_best else _data_in(best.text, best_data, data)
    return update


def _edited(attempt: Attempt) -> bool:
    """Return whether a person wrote a draft."""
    return any(critique["kind"] == "human" and critique["by"] == attempt.by for critique in attempt.critiques)


def _data_in(text: str, best_data: Mapping[str, Any] | None, data: Any) -> Any:
    """Return the data of a draft; `None` where a person wrote what does not fit."""
    try:
        return like(data if best_data is None else best_data["data"], text)
    except ValueError:
        return None


def files_in(state: Mapping[str, Any], patterns: Sequence[str]) -> dict[str, Any]:
    """Return the files in an agent's state whose paths fit a pattern, by path."""
    files: Mapping[str, Any] = state.get("files") or {}
    return {path: files[path] for path in sorted(files) if any(fnmatchcase(path, one) for one in patterns)}


def with_files(answer: str, files: Mapping[str, Any]) -> str:
    """Return an answer with files after it, each under its path."""
    return "\n\n".join([answer, *(f"{FILE.format(path=path)}\n{_content(file)}" for path, file in files.items())])


def restored(now: Mapping[str, Any], then: Mapping[str, Any]) -> dict[str, Any]:
    """Return the update of an agent's files that brings back those of an earlier draft; `None` takes one away."""
    return {path: then.get(path) for path in {**now, **then} if now.get(path) != then.get(path)}


def _content(file: Any) -> str:
    """Return the text of a file, which deepagents keeps as lines or whole."""
    content = file.get("content", "") if isinstance(file, Mapping) else file
    text = "\n".join(map(str, content)) if isinstance(content, list) else str(content)
    return fence(text) if opens_part(text, [FILE.partition("{")[0].strip()]) else text


FILE = "(The file {path}:)"
OUTCOME = ("stop_reason", "rounds", "score", "accepted_by", "oracle", "usage")
