"""Reading a text that others wrote takes time that grows with its length, and no faster, however it is made.

A new function that reads such a text belongs into `READERS`, with what would make it slow.
"""

from __future__ import annotations

import gc
from contextlib import suppress
from time import process_time
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage
from redraft.evals.datasets import dataset, scorers
from redraft.faces.views import console
from redraft.models import control_tokens, server_replies, specs, thoughts
from redraft.models.schema_requests import unfenced
from redraft.nodes.agents import react
from redraft.nodes.critics import model_critic, program_critic, structured_replies
from redraft.nodes.reasoning import pipeline_language
from redraft.nodes.rubric import critic as rubric_critic
from redraft.nodes.verify import (
    code_replies,
    expressions,
    json_schema,
    numeric_answers,
    stated,
    text_verifiers,
    visible_tests,
)
from redraft.nodes.writing import gate, prompts, replies
from redraft.nodes.writing.prompt_injection import fenced_messages
from redraft.retrieval import calibration, citations, converters, planning
from redraft.sandbox import dialect
from redraft.state import masking, retrievals
from redraft.state.threads import diffs
from redraft.travel import cities, indicators, money, trip_dates

if TYPE_CHECKING:
    from collections.abc import Callable

KEY = "sk-abcdefghijk1234567890"
PROMPT = prompts.chat_prompt(model_critic.VERDICT_PROMPT, what="prompt")[0]
SCHEMA = json_schema.matches_json_schema({"type": "array", "items": {"pattern": "^(a+)+$"}})
WORDS = "one two three four five six seven "


def halves(text: str) -> tuple[str, str]:
    return text[: len(text) // 2], text[len(text) // 2 :]


READERS: dict[str, tuple[Callable[[str], Any], list[str]]] = {
    "without_key": (lambda text: server_replies.key_masked(text, KEY), ["a", "-", "*", "**a", "sk-a", "a***", "."]),
    "fault_in": (server_replies.fault_in, ["a", "'\""]),
    "masked": (masking.masked, ["sk-", "bearer ", "password= ", "authorization: a ", "://", "AKIA", "a@"]),
    "redact": (specs.redact, ["//", "?", "sk-a", "//a@"]),
    "control_tokens": (
        control_tokens.without_control_tokens,
        ["<|", "<|a", "<|a|>", "[INST]", "<", "<|a[/INST]|>"],
    ),
    "without_thought": (
        thoughts.without_thought,
        ["<think></think>", "a<think>", "a`<think>", "</think>`", "<", "<a:", "`</think>`", "<think:a", "analysis"],
    ),
    "stop_phrase": (lambda text: replies.is_stop_phrase(text, "no issues"), [".", "*", " ", "no issues. "]),
    "refused": (replies.refused, ["i can't help. ", "i'm sorry, ", "as an ai ", "i can't help a"]),
    "opened": (
        gate.opened,
        ["sure! ", "here is a ", "sure, here is a text", "let me know if ", "a\n", "the text. "],
    ),
    "no_draft": (gate.no_draft, ["the text must be ", "i'm ready ", "hello. ", "i can't provide a ", "as an ai "]),
    "rejection": (
        lambda text: replies.rejection(WORDS, earlier=[], critique=WORDS + text),
        ["“", "«a", '"', ": a\n", "```"],
    ),
    "revision": (lambda text: replies.rejection(text, earlier=[text + "a"], critique=text), ["a b ", "“", ". ", "no "]),
    "read_code": (code_replies.read_code, ["```\n", "def f(x):\n    pass\n", "import a,", "x, ", "~~~\n", "a = 1\n"]),
    "code_in_task": (
        lambda text: code_replies.read_code("x = 1", text),
        ["```\ndef f():\n  1\n```\n", "function ", "```\n"],
    ),
    "tests_in_task": (
        lambda text: visible_tests.visible_tests(text, entry_point="f"),
        [
            ">>> f(1)\n",
            ">>> x = 1\n\n",
            ">>> f(1)\n2\n\n",
            "assert (\n",
            "assert f(1) == (\n",
            "f(",
            "f('",
            "f('\\",
            "f(1) == [",
            "f(1) ",
            "f(1) == 2 # ",
            "\n",
            ">>>",
            "assert f(1) == 2\n",
        ],
    ),
    "given_tests": (
        visible_tests.given_tests,
        ["assert f(1) == 2\n", "def f(x):\n  pass\n", ">>> f(1)\n", "import a\nassert a\n"],
    ),
    "number": (
        numeric_answers.extract_number,
        [
            "9",
            "9,",
            "9 9 ",
            "####",
            "\\boxed{1",
            "1/",
            "answer: 1 = ",
            "-",
            "<<1",
            "**",
            "(1",
            "1^",
            "\\frac{",
            "9 hours ",
        ],
    ),
    "notation": (expressions.plain_notation, ["\\frac{", "\\text{", "1 ", "**", "\\", "½", "\\frac{1}{\\frac{1}{2}}"]),
    "lone_number": (numeric_answers.lone_number, ["9", "999,", "9.", " ", "-"]),
    "stated": (
        stated.stated_requirements,
        ["use the ", 'this: "', '"a" ', "3 words ", "not use ", 'begin with "', "the words a, ", "json keys a, ", "“"],
    ),
    "sentences": (text_verifiers.split_sentences, ["Dr. ", "a. ", ".", "\n", " \n", "e.g. ", '."', "。"]),
    "reading_grade": (text_verifiers.reading_grade, ["a", "a'", "a-b ", "Dr. "]),
    "uses_words": (lambda text: text_verifiers.uses_words("a a", "aaab")("", text), ["a ", "a", "aaa "]),
    "matches": (lambda text: text_verifiers.matches("(a*)*b$")("", text), ["a", "ab", "\n"]),
    "json_draft": (lambda text: SCHEMA("", text), ["[", '"', "[]", "```", " ", "{}", '"a\\']),
    "json_reply": (structured_replies._json_object, ["```json\n", " ", "\t", '{"a":', "\n", "9"]),
    "json_fence": (lambda text: unfenced(f"```\n{text}"), [" ", "\t", "`", "\n"]),
    "text_calls": (
        lambda text: react.read_text_calls(AIMessage(text), ["a"]),
        ["<tool_call>", "<tool_call> ", "```\n", "```", " "],
    ),
    "text_call_spaces": (lambda text: react.read_text_calls(AIMessage(f"<tool_call>{text}"), ["a"]), [" ", "\n"]),
    "program": (program_critic.read_program, ["\n", "\r\n", "```\n", "```python", "answer "]),
    "cited_numbers": (retrievals.cited_numbers, ["[1", "[1,", "[ ", "[1-9]", "【"]),
    "passages": (lambda text: retrievals.numbered([{"text": text, "source": text}]), ["<", "< ", "<passage", "</"]),
    "claims": (citations.claims, [".", "! ", ". [1]", ".'", ". [1 ", "\n- ", "# ", "a.[1] a ", ":\na\n"]),
    "support": (lambda text: citations.support(halves(text)[0], [halves(text)[1]]), ["9", "9,", "word ", "名"]),
    "key_terms": (calibration.key_terms, ["a.", "a-", ".", "a", "a'", "名"]),
    "frequent_terms": (lambda text: planning.frequent_terms([text], besides=[text]), ["word ", "a "]),
    "plan": (lambda text: planning.plan_by_rules(text, [text]), ["and ", "a ", "this ? ", "is ", "? ", "first "]),
    "complexity": (rubric_critic.task_complexity, ["\n", " ", "9.", "1)", "\n9", "-", "\r\n"]),
    "amounts": (money.amounts_in, ["999 ", "9 ", "9.", "$1", "999,", "$9.999", "1 EUR ", "9", "$"]),
    "personalization": (
        lambda text: indicators.personalization(text, text),
        ["no kids, ", "no kids. ", "not, ", "no a, ", "kids ", "no "],
    ),
    "feasibility": (
        lambda text: indicators.feasibility(text, text),
        ["\n", "Day 1\n- a\n", "Total: $1\n", "Monday, ", "Monday, 5 June 2027 ", "June ", "Day ", "3 days ", "$1 "],
    ),
    "cities": (cities.find_cities, ["to Vienna, ", "San ", "New York ", "a-", "in Nice "]),
    "dates": (trip_dates.dates_in, ["5 ", "5-5", "5 June ", "June 5, ", "2027-", "5 to "]),
    "days": (trip_dates.days_wanted, ["a day ", "two ", "5 to ", "a long ", "twenty ", "a ", "5 - ", "days "]),
    "rst": (converters.markdown_of_rst, ["===\n", "a\n===\n", "==", "\n"]),
    "last_expression": (dialect.split_last, ["a", "a:", ")\n", "(", "a,", ": ="]),
    "gap": (lambda text: dialect.is_gap(ValueError(text)), ["n", "AttributeError: ", "not "]),
    "pipeline": (pipeline_language.parse_pipeline, ["UseDraft | ", "(", "'", "UseDraft(", "-"]),
    "prompt": (
        lambda text: fenced_messages(PROMPT, {"task": text, "draft": text}),
        ["Task:\n", "\n", "a:", "[begin 0000]\n", "<passage", "<", "Cc:\u0301"],
    ),
    "history": (prompts._within, ["Attempt 1:\n", "\n", "attempt9", ":"]),
    "diff": (lambda text: diffs.diff_words(text, text[::-1]), ["a ", "a b ", "a\n", "!", "a", "\n"]),
    "console": (console.safe, ["\x1b[", "\u202e", "a", "\n"]),
    "gold": (scorers.MARKED.findall, ["####", "answer ", "* ", " ", "\n"]),
    "answer_line": (dataset.ANSWER_LINE.search, ["####\n", "#### ", "\n", "####" + " " * 9]),
}
MOST_GROWTH = 2.5
CHARACTERS = 6_000
LEAST_SECONDS = 0.015
"""Shorter measurements are noise; what is read that fast does no harm, however it grows."""


def seconds(read: Callable[[str], Any], text: str, *, times: int) -> float:
    """Return the least CPU time of several readings; a text may be refused."""
    best = float("inf")
    for _ in range(times):
        start = process_time()
        with suppress(ValueError, RecursionError):
            read(text)
        best = min(best, process_time() - start)
    return best


@pytest.mark.parametrize("name", READERS)
def test_twice_the_text_takes_twice_the_time(name: str) -> None:
    """Hostile texts too: one caller's long text does not hold up the others."""
    read, pieces = READERS[name]
    seconds(read, "1", times=1)  # what is loaded and compiled once
    gc.disable()
    try:
        for piece in pieces:
            short, long = (piece * (size // len(piece)) + "!x" for size in (CHARACTERS // 2, CHARACTERS))
            if seconds(read, long, times=1) < LEAST_SECONDS:
                continue
            # Another process may have had the core's cache meanwhile: a growth that is real is there each time.
            measured = (seconds(read, long, times=2) / seconds(read, short, times=2) for _ in range(10))
            grown = all(growth >= MOST_GROWTH for growth in measured)
            assert not grown, f"reading {piece!r} over and over takes {MOST_GROWTH} times as long for twice the text"
    finally:
        gc.enable()
