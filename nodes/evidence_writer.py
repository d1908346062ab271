"""A reviser that writes a solution anew from the programs that disagree with it.

Shown its own wrong solution beside a right program, a 1.5B model took over the program's answer in 1 of 6 cases; without
the solution in sight, in 5 of 6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .prompts import Keep, Memory, PromptedModel, Prompts, attempt_at_hand, chat_prompt, prompt_values

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langchain_core.messages import AIMessage, BaseMessage
    from langchain_core.runnables import Runnable

__all__ = ["ProgramGuidedWriter"]


class ProgramGuidedWriter(PromptedModel):
    """Asks with another prompt where programs alone object, such as one that leaves the wrong solution out.

    Args:
        model: The model.
        prompts: Where anybody else objects, as in `PromptedModel`.
        program_prompt: Where only a `ProgramCritic` does; a template over the same variables.
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
        program_prompt: Prompts,
        keep: Keep = "best",
        memory: Memory = "all",
    ) -> None:
        super().__init__(model, prompts, what="refine_prompt", keep=keep, memory=memory)
        self.program = chat_prompt(program_prompt, what="program_refine_prompt")[0]

    def messages(self, state: Mapping[str, Any]) -> list[BaseMessage]:
        """Return the messages that the model is asked with."""
        events = state.get("events", [])
        attempt = attempt_at_hand(events, self.keep)
        objecting = [] if attempt is None else [one for one in attempt.deciding if one.get("accepted") is not True]
        if not objecting or not all("programs" in one.get("evidence", {}) for one in objecting):
            return super().messages(state)
        return self.program.format_messages(**prompt_values(state["task"], events, attempt, memory=self.memory))
