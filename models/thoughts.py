"""Thoughts in the text of a reply, as reasoning models write them before they answer. Internal.

Servers that know their model hand its reasoning over apart from the text (`--reasoning-parser` of vLLM and SGLang,
`--reasoning-format` of llama.cpp). From the others it comes inside it, in the forms read here.
"""

from __future__ import annotations

import json
import re

__all__ = ["is_json", "without_thought"]


def without_thought(text: str) -> str:
    """Return the text after the thoughts that it opens with, empty where there is none, or the text as it is.

    A thought that was cut off, and so never closes, is all of the text. A closing tag without its opening one ends a
    thought too, since many chat templates put the opening one into the prompt; one that stands in code, in quotation
    marks or in a JSON value does not. Tags further down belong to the answer.
    """
    at, thought = 0, False
    while opened := OPENING.match(text, at):
        closed = re.compile(CLOSING[opened.lastgroup or ""].format(tag=opened["tag"]), FLAGS).search(text, opened.end())
        if closed is None and opened.lastgroup in IN_WORDS:
            break
        at, thought = closed.end() if closed else len(text), True
    if not thought and (closed := _unopened(text)):
        at, thought = closed.end(), True
    rest = text[at:]
    if wrapped := ANSWER_OPENING.match(rest):
        rest, thought = rest[wrapped.end() :], True
    if not thought:
        return text
    if closed := ANSWER_CLOSING.search(rest):
        rest = rest[: closed.start()].rstrip()
    # The first line keeps its indent: it may be the body of a function.
    return BLANK_LINES.sub("", rest)


def _unopened(text: str) -> re.Match[str] | None:
    """Return the first closing tag without an opening one, where neither counts in code or quotation marks."""
    if not any(sign in text for sign in CLOSING_SIGNS):  # most replies: no pass of a pattern
        return None
    opened: set[str] = set()
    # Each is counted and found from the tag before on, since one line may hold any number of tags.
    fences = at = ticks = 0
    next_tick = line_end = -1
    for tag in TAGS.finditer(text):
        fences += len(FENCE.findall(text, at, tag.start()))
        line = text.rfind("\n", at, tag.start())
        ticks = text.count("`", max(at, line), tag.start()) + (ticks if line < 0 else 0)
        at, end = tag.span()
        if next_tick < end:
            next_tick = (text.find("`", end) + 1 or len(text) + 1) - 1
        if line_end < end:
            line_end = (text.find("\n", end) + 1 or len(text) + 1) - 1
        inline = ticks % 2 == 1 and next_tick < line_end
        if fences % 2 or inline or (text[max(0, at - 1) : at] in QUOTES and text[end : end + 1] in QUOTES):
            continue
        name = tag[0].replace("/", "").casefold()
        if not tag["closing"]:
            opened.add(name)
        elif name not in opened:
            return None if is_json(text) else tag
    return None


def is_json(text: str) -> bool:
    """Tell if a text is JSON and nothing else."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


FLAGS = re.DOTALL | re.IGNORECASE
TAG = r"(?:\w+:)?(?:ant_?)?(?:think(?:ing|_fast|_faster)?|thoughts?|reasoning)(?::\w+)?"
"""`<think>` (DeepSeek R1, Qwen, GLM, MiniMax, Nemotron, Phi, Olmo), `<thinking>`, `<thought>` (EXAONE), `<reasoning>`,
`<seed:think>` (Seed-OSS), `<mm:think>`, `<think:1a2b>`."""
OPENING = re.compile(
    rf"\s*(?:<(?P<tag>{TAG})>(?P<tagged>)"
    r"|(?-i:\[THINK\])(?P<magistral>)"
    r"|◁think▷(?P<kimi>)"
    r"|<\|begin_of_thought\|>(?P<openthinker>)"
    r"|<\|START_THINKING\|>(?P<cohere>)"
    r"|<\|channel>thought\b(?P<gemma>)"
    r"|(?:<\|start\|>assistant)?<\|channel\|>analysis(?:<\|message\|>)?(?P<harmony>)"
    r"|analysis(?P<bare_harmony>)"
    r"|Here(?:'s| is) my thought process:(?P<granite>)"
    r"|Here are my reasoning steps:(?P<apriel>))",
    FLAGS,
)
CLOSING = {
    "tagged": "</{tag}>",
    "magistral": r"\[/THINK\]",
    "kimi": "◁/think▷",
    "openthinker": r"<\|end_of_thought\|>",
    "cohere": r"<\|END_THINKING\|>",
    "gemma": r"<channel\|>",
    "harmony": r"<\|end\|>|(?=<\|start\|>assistant|<\|channel\|>)",
    "bare_harmony": "assistantfinal",
    "granite": "Here(?:'s| is) my response:",
    "apriel": r"\[BEGIN FINAL RESPONSE\]",
}
IN_WORDS = {"bare_harmony", "granite", "apriel"}
"""Those that open with plain words, as any text may: only what also closes is a thought."""
TAGS = re.compile(
    rf"(?P<closing></{TAG}>|\[/THINK\]|◁/think▷|<\|end_of_thought\|>|<\|END_THINKING\|>)"
    rf"|<{TAG}>|\[THINK\]|◁think▷",
    FLAGS,
)
CLOSING_SIGNS = "<[◁"
"""One of these begins each closing tag."""
ANSWER_OPENING = re.compile(
    r"\s*(?:(?:<\|start\|>assistant)?<\|channel\|>final[^<\n]*<\|message\|>"
    r"|<\|begin_of_solution\|>|<\|START_RESPONSE\|>|<\|START_TEXT\|>)",
    FLAGS,
)
ANSWER_CLOSING = re.compile(
    r"(?:<\|return\|>|<\|end\|>|<\|end_of_solution\|>|<\|END_RESPONSE\|>|<\|END_TEXT\|>|\[END FINAL RESPONSE\])\s*\Z",
    FLAGS,
)
BLANK_LINES = re.compile(r"\A(?:(?:[^\S\n]*\n)+|[^\S\n]+(?=\S)|\s+\Z)")
QUOTES = tuple("\"'“”‘’")
FENCE = re.compile(r"^[^\S\n]*(?:```|~~~)", re.MULTILINE)
