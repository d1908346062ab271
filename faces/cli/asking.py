"""Review prompts for a person at the terminal; elsewhere the commands that answer are printed. Internal."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...state.threads.answers import same_draft
from ..problems import command
from ..views.console import Screen, show_event
from ..views.wording import score_of

__all__ = ["ask_person", "can_ask", "how_to_answer", "keep_edit", "show_waiting", "typed_line"]

CHOICES = {"a": "accept", "e": "edit", "f": "feedback", "s": "stop"}
NOBODY = "human"
PROMPT = "[a]ccept, [e]dit, give [f]eedback or [s]top; Ctrl-D leaves it for later: "


def can_ask(screen: Screen) -> bool:
    """Tell if somebody sits at a terminal, to read the question and to type."""
    return sys.stdin.isatty() and screen.progress.is_terminal


def ask_person(screen: Screen, question: Mapping[str, Any], *, printed: bool) -> dict[str, Any] | None:
    """Show a draft with what was said about it, and return what the person replies; `None` leaves it for later.

    Args:
        screen: Where to.
        question: As `Thread.question` gives it.
        printed: Draft and critiques stand on the screen already.
    """
    screen.line("")
    turn = f"{question['by']}, your turn" if _named(question) else "your turn"
    screen.line(
        (turn, "bold magenta"), f" · round {question['round']}", (f" · score {score_of(question.get('score'))}", "dim")
    )
    if not printed:
        for part, style in (("task", "dim"), ("draft", "cyan")):
            screen.line((part, style), indent=2)
            screen.block(str(question[part]), indent=4)
        for critique in question["critiques"]:
            show_event(screen, {"kind": "critique", **critique})
    if question.get("error"):
        screen.line((str(question["error"]), "red"), indent=2)
    while True:
        if (line := typed_line(screen, PROMPT)) is None:
            screen.line("")
            return None
        word = line.strip().casefold()
        action = CHOICES.get(word, word)
        reply = None
        if action in {"accept", "stop"}:
            reply = {"action": action}
        elif action == "edit":
            reply = _edited(screen, str(question["draft"]))
        elif action == "feedback":
            text = typed_line(screen, "what to change: ")
            reply = {"action": "feedback", "text": text} if text and text.strip() else None
            if reply is None:
                screen.line(("no feedback given", "dim"))
        elif word:
            screen.line((f"{line.strip()!r} is none of these: type a, e, f or s", "yellow"))
        if reply is not None:
            return reply


def show_waiting(screen: Screen, question: Mapping[str, Any], *, thread_id: str, db: str) -> None:
    """Print that a thread waits for a person, and the commands that answer."""
    screen.line("")
    screen.line(
        (f"waits for {question['by'] if _named(question) else 'a person'}", "bold yellow"),
        f" · round {question['round']} · score {score_of(question.get('score'))} · thread ",
        thread_id,
    )  # fmt: skip
    for what, words in how_to_answer(question, thread_id=thread_id, db=db).items():
        screen.line((f"{what + ':':<10}", "dim"), (words, "cyan"), indent=2)


def how_to_answer(question: Mapping[str, Any], *, thread_id: str, db: str) -> dict[str, str]:
    """Return the commands that answer a question; they name its round, and the person where it is not the one there is
    by default, so that none answers a later question."""
    person = ("--as", str(question["by"])) if _named(question) else ()
    answer = ("answer", thread_id, "--at", str(question["round"]), *person)
    return {
        "accept": command(*answer, "--accept", db=db),
        "edit": command(*answer, "--draft", "FILE", db=db),
        "feedback": command(*answer, "--feedback", "TEXT", db=db),
        "stop": command(*answer, "--stop", db=db),
        "be asked": command("resume", thread_id, db=db),
    }


def keep_edit(reply: Mapping[str, Any]) -> str:
    """Save the draft of a reply that nobody took, and return where, in words; nothing where it holds none."""
    if not reply.get("draft"):
        return ""
    handle, name = tempfile.mkstemp(prefix="redraft-draft-", suffix=".txt")
    with open(handle, "w", encoding="utf-8", errors="surrogateescape") as file:  # each byte as it was
        file.write(reply["draft"])
    return f"; your text is kept in {name}"


def _named(question: Mapping[str, Any]) -> bool:
    """Tell if the person has a name of their own; `human` is asked where nobody was named."""
    return str(question.get("by", NOBODY)) != NOBODY


def typed_line(screen: Screen, prompt: str) -> str | None:
    """Return a line that was typed; `None` at the end of the input."""
    screen.progress.print(prompt, end="", style="bold", soft_wrap=True)
    try:
        return input()
    except EOFError:
        return None


def _edited(screen: Screen, draft: str) -> dict[str, Any] | None:
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    text = _in_editor(screen, editor, draft) if editor else None
    if text is None:
        text = _typed_lines(screen)
    if text is None or not text.strip() or same_draft(text, draft):
        screen.line(("nothing was changed", "dim"))
        return None
    return {"action": "edit", "draft": text}


def _in_editor(screen: Screen, editor: str, draft: str) -> str | None:
    """Return the draft as it was saved, or `None` where the editor can't be used."""
    with tempfile.TemporaryDirectory(prefix="redraft-") as folder:
        path = Path(folder, "draft.txt")
        path.write_text(draft.rstrip("\n") + "\n", encoding="utf-8")
        try:
            # An EDITOR may have options: `code --wait`.
            code = subprocess.run([*shlex.split(editor), str(path)], check=False).returncode  # noqa: S603  (their editor)
            if code == 0:
                return path.read_text(encoding="utf-8").rstrip("\n")
            trouble = f"it ended with {code}"
        except (OSError, ValueError) as error:
            trouble = str(error)
        # Within the block: after it the folder is gone, with what was written.
        text = path.read_text(encoding="utf-8", errors="surrogateescape") if path.exists() else ""
        trouble += keep_edit({"draft": text}) if text.strip() and not same_draft(text, draft) else ""
    screen.line((f"the editor {editor!r} can't be used: {trouble}", "yellow"))
    return None


def _typed_lines(screen: Screen) -> str | None:
    screen.line(("type the new draft; a line with nothing but a dot ends it", "dim"))
    lines: list[str] = []
    while (line := typed_line(screen, "> ")) is not None:
        if line.strip() == ".":
            return "\n".join(lines)
        lines.append(line)
    screen.line("")
    return None
