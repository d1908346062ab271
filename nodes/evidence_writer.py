"""A reviser that writes anew from what programs found, with the wrong draft out of its sight.

Shown its own wrong solution beside a right program, a 1.5B model took over the program's answer in 1 of 6 cases;
without the solution in sight, in 5 of 6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..state.folds import rounds
from .prompts import Keep, Memory, PromptedModel, Prompts, attempt_at_hand, chat_prompt, prompt_values

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langchain_core.messages import AIMessage, BaseMessage
    from langchain_core.runnables import Runnable

__all__ = ["EvidenceWriter"]


class EvidenceWriter(PromptedModel):
    """Asks with other prompts where only critics with evidence of one sort object, such as prompts without the draft.

    Args:
        model: The model.
        prompts: Where anybody else objects, a person say, as in `PromptedModel`.
        evidence: The sort, a key of `Critique.evidence`: `programs` of a `ProgramCritic`, `tests` of visible tests.
        evidence_prompts: Where nobody else objects; templates over the same variables, one a round.
        keep: Whether the best or the latest draft is revised.
        memory: What of earlier attempts the prompts can show.

    Raises:
        ValueError: A template uses unknown variables. At build.
    """

    def __init__(
        self,
        model: Runnable[Any, AIMessage],
        prompts: Prompts,
        *,
        evidence: str,
        evidence_prompts: Prompts,
        keep: Keep = "best",
        memory: Memory = "all",
    ) -> None:
        super().__init__(model, prompts, what="refine_prompt", keep=keep, memory=memory)
        self.evidence = evidence
        self.after_evidence = chat_prompt(evidence_prompts, what="evidence_prompts")

    def messages(self, state: Mapping[str, Any]) -> list[BaseMessage]:
        """Return the messages that the model is asked with."""
        events = state.get("events", [])
        attempt = attempt_at_hand(events, self.keep)
        objecting = [] if attempt is None else [one for one in attempt.deciding if one.get("accepted") is not True]
        if not objecting or not all(self.evidence in one.get("evidence", {}) for one in objecting):
            return super().messages(state)
        template = self.after_evidence[min(rounds(events), len(self.after_evidence) - 1)]
        return template.format_messages(**prompt_values(state["task"], events, attempt, memory=self.memory))
