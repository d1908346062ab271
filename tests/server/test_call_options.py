"""A caller sets what is closed and bounded of a preset for one run, and nothing that reaches files or servers."""

from __future__ import annotations

from typing import Any

import pytest
from redraft.server.engine.assistants import assistants_of
from redraft.server.engine.call_options import call_options, checked_options
from redraft.server.engine.runs import BadRequestError, Caller, Submission
from redraft.server.settings import Settings

SETTINGS = Settings(db="memory", model="openai:writer", models=("openai:other",), documents="/srv/documents")
ASSISTANTS = assistants_of(SETTINGS)


def test_every_preset_offers_its_closed_options() -> None:
    """A caller sees the options that a preset has for them, and no path, prompt, index or address among them."""
    offered = {name: set(call_options(one, SETTINGS).model_fields) for name, one in ASSISTANTS.items()}
    assert offered["refine"] == {"human", "ask", "critics_after", "critics", "verifiers", "answer_type"}
    assert offered["math"] == {"human", "ask", "critics"}
    assert offered["rubric"] == {"threshold", "human", "critics"}
    assert offered["retrieval"] == set()
    assert offered["travel-unrefined"] == set()
    assert "functions" in offered["agent"]  # those of OpenAI's clients, which they run themselves
    known = {"human", "ask", "critics_after", "critics", "verifiers", "threshold", "functions", "max_calls"}
    known |= {"revise_with_tools", "answer_type"}
    assert set().union(*offered.values()) == known


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"verifiers": ["json_schema:/etc/passwd"]}, "json_schema is not for callers"),
        ({"verifiers": ["uses_word:a"]}, "is not a verifier"),
        ({"verifiers": ["uses_words:a"] * 9}, "verifiers"),
        ({"critics": ["http://example.org/v1#spy"]}, "critics"),
        ({"critics": ["openai:writer"]}, "critics"),
        ({"folder": "/etc"}, "folder"),
        ({"judge": {"critics": []}}, "judge"),
        ({"generate_prompt": "{task}"}, "generate_prompt"),
        ({"human": "yes"}, "human"),
        ({"ask": "unaccepted"}, "give human, too"),
    ],
)
def test_what_is_not_a_callers_is_refused(given: Any, told: str) -> None:
    """An option that reaches a file or an address, or makes no sense, is refused in a sentence."""
    with pytest.raises(BadRequestError, match=told):
        checked_options(ASSISTANTS["refine"], SETTINGS, given)


async def test_a_run_is_judged_by_its_callers_verifier(talking: Any) -> None:
    """The same assistant accepts what one caller's verifier finds right, and goes on where another's finds it wrong."""
    from redraft.server import Engine

    engine = Engine(SETTINGS, build_model=lambda spec: talking.model)
    await engine.start()
    try:
        caller = Caller("local")
        given: Any = {"task": "Write.", "limits": {"max_rounds": 0}}
        ends = {}
        for word in ("draft", "zebra"):
            options = {"verifiers": [f"uses_words:{word}"]}
            run = await engine.submit(caller, Submission(assistant="refine", input=given, options=options, keep=True))
            ends[word] = (await engine.join(run))["accepted_by"]
            # Another process that goes on with it reads the options off its record.
            assert (await engine.runs(caller, run.thread_id))[0].options == options
        assert ends == {"draft": "uses_words", "zebra": None}
    finally:
        await engine.stop()
