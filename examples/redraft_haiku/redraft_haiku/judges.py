"""A verifier that counts lines, and a critic that asks a model for the season."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from redraft import Critique
from redraft.extend import Do, DualCritic, chat_prompt, fenced_messages, named, read_text

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

__all__ = ["SeasonCritic", "has_lines"]


def has_lines(number: int) -> Any:
    """Return a verifier that accepts a text of so many lines."""

    def check(task: str, draft: str, /) -> Critique:
        lines = len([line for line in draft.splitlines() if line.strip()])
        said = "" if lines == number else f"It has {lines} lines, not {number}."
        return Critique(said, accepted=not said, score=1 / (1 + abs(lines - number)))

    return named(check, "lines", wants=f"It has exactly {number} lines.")


class SeasonCritic(DualCritic):
    """A critic that asks a model which season a poem is of."""

    def __init__(self, model: Any, season: str) -> None:
        self.model = model
        self.season = season
        self.name = f"season:{season}"
        self.templates = chat_prompt(SEASON_PROMPT, what="prompt", needed=["draft"])

    def logic(self, task: str, draft: str, history: Sequence[Any], /) -> Generator[Do, Any, Critique]:
        """Accept the poem where the model's whole reply is the season."""
        messages = fenced_messages(self.templates[0], {"draft": draft})
        # The logic yields its calls, and is thereby written once for `invoke` and `ainvoke`.
        reply = read_text((yield Do(self.model.invoke, self.model.ainvoke, (messages,))))
        if reply.strip(" .\n").lower() == self.season.lower():
            return Critique("", accepted=True, score=1.0)
        return Critique(
            f"It reads as a poem of another season: make it one of {self.season}.", accepted=False, score=0.0
        )


SEASON_PROMPT = """\
Of which season is this poem?

{draft}

Reply with one word: spring, summer, autumn or winter."""
