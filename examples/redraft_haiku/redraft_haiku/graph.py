"""The preset's graph: redraft's loop with a writer of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from redraft import build_refine_graph
from redraft.extend import TASK_ONLY, Do, DualCallable, as_model, chat_prompt, fenced_messages, read_text

from .judges import has_lines

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

__all__ = ["PoemWriter", "build_haiku_graph"]


def build_haiku_graph(
    model: Any,
    *,
    lines: int = 3,
    critics: Sequence[Any] | None = None,
    verifiers: Sequence[Any] = (),
    **options: Any,
) -> Any:
    """Return the loop for poems of so many lines: a program counts them, and critics judge what passes.

    Args:
        model: Writes.
        lines: How many lines the poem has.
        critics: Asked where the lines are right too.
        verifiers: Further programs that judge.
        options: Everything else that `build_refine_graph` takes.
    """
    model = as_model(model)
    prompt = options.pop("generate_prompt", POEM_PROMPT)
    defaults: dict[str, Any] = {**TASK_ONLY, "generate": PoemWriter(model, prompt, lines=lines), "name": "haiku"}
    if critics:
        defaults["critics_after"] = "always"
    checks = [has_lines(lines), *verifiers]
    return build_refine_graph(model, critics=critics or [], verifiers=checks, **{**defaults, **options})


class PoemWriter(DualCallable[["Mapping[str, Any]"], str]):
    """Writes the first poem: the part of the node `generate`."""

    def __init__(self, model: Any, prompt: str, *, lines: int) -> None:
        self.model = model
        self.templates = chat_prompt(prompt.replace("LINES", str(lines)), what="generate_prompt", known=("task",))

    def logic(self, state: Mapping[str, Any], /) -> Generator[Do, Any, str]:
        """Ask the model, and leave out blank lines."""
        messages = fenced_messages(self.templates[0], {"task": state["task"]})
        reply = read_text((yield Do(self.model.invoke, self.model.ainvoke, (messages,))))
        return "\n".join(line.strip() for line in reply.splitlines() if line.strip())


POEM_PROMPT = """\
{task}

Write it as a poem of LINES lines. Reply with the poem only."""
