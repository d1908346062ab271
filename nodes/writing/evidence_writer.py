"""Writer of revisions that starts from what programs found, with the wrong draft out of its sight. Internal.

Shown its own wrong solution beside a right program, a 1.5B model took over the program's answer in 1 of 6 cases;
without the solution in sight, in 5 of 6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .prompts import VARIABLES, Keep, Memory, PromptedModel, Prompts, chat_prompt

if TYPE_CHECKING:
    from collections.abc import Collection

    from langchain_core.messages import AIMessage
    from langchain_core.prompts import ChatPromptTemplate
    from langchain_core.runnables import Runnable

    from ...state.summary import Attempt

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
        own: Keys of the state that the prompts may name.

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
        own: Collection[str] = (),
    ) -> None:
        super().__init__(model, prompts, what="refine_prompt", keep=keep, memory=memory, own=own)
        self.evidence = evidence
        self.after_evidence = chat_prompt(evidence_prompts, what="evidence_prompts", known=(*VARIABLES, *own))

    def templates_for(self, attempt: Attempt | None) -> list[ChatPromptTemplate]:
        """Return the templates, one a round, to ask with about a draft."""
        objecting = [] if attempt is None else [one for one in attempt.deciding if one.get("accepted") is not True]
        alone = objecting and all(self.evidence in one.get("evidence", {}) for one in objecting)
        return self.after_evidence if alone else self.templates
