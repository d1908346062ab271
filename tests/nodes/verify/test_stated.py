"""What a task says of its answer, read by patterns: what is read, and what is rather left out."""

from __future__ import annotations

from redraft import build_refine_graph
from redraft.models import ScriptedModel
from redraft.nodes import as_stated, stated_requirements, verifier


def read(task: str) -> list[str]:
    """Return the verifiers, without the comments in their patterns."""
    names = [name for one in stated_requirements(task) for name in one["verifiers"]]
    return ["matches:" + name.partition(")")[2] if name.startswith("matches:") else name for name in names]


SAID: dict[str, list[str]] = {
    "Invite Ann to tea in at most 30 words.": ["length:-30 words"],
    "Use fewer than twenty sentences, but at least 200 words.": ["length:-19 sentences", "length:200- words"],
    "It should contain 20 to 25 sentences.": ["length:20-25 sentences"],
    "Answer in three paragraphs, each with at least 2 sentences.": ["length:3 paragraphs"],
    "Write a four-line poem.": ["length:4 lines"],
    "Describe tea without using the word bitter.": ["avoids_words:bitter"],
    "Include the words trust, brand and policy.": ["uses_words:trust,brand,policy"],
    "Do not mention 'bad' or 'dead', and use \"good\".": ["avoids_words:bad,dead", "uses_words:good"],
    "Give a JSON object with the keys name and age.": ['json_schema:{"type": "object", "required": ["name", "age"]}'],
    "Write about 50 words on tea.": [],
    "The first paragraph has 3 sentences.": [],
    "Improve the following text: It has at most 40 words.": [],
    "Write a function that returns at most 3 words.": [],
    'Write about a company called "Grid" for my "friend".': [],
    "Sean has 54 lines to learn, and learns 6 lines an hour. How long does he need?": [],
}


def test_what_a_task_says_becomes_programs() -> None:
    """Lengths, words and forms are read; what is about a part, a given text or something else is not."""
    assert {task: read(task) for task in SAID} == SAID


FORMS = [
    ("Name two rivers. Do not use any commas.", "Elbe and Oder", "Elbe, Oder"),
    ("Answer in all capital letters.", "NO.", "No."),
    ("Use exactly 2 bullet points.", "So:\n- a\n- b", "- a\n- b\n- c"),
    ("The word rain should appear at least twice.", "Rain, rain!", "Rain."),
    ("Make sure the letter q appears less than 2 times.", "Quite.", "Quick quails."),
    ('End your reply with the phrase "See you soon."', "Dear Ann, see you. See you soon.", "See you soon, Ann."),
    ("Write it as a numbered list of two steps.", "1. Boil.\n2. Pour.", "1. Boil.\n2. Pour.\n3. Drink."),
    ("Wrap your whole answer in double quotation marks.", '"Yes."', "Yes."),
]


def test_a_form_is_told_from_another() -> None:
    """Patterns accept what the task asks for, and of the rest they say in the task's own words what is wrong."""
    for task, right, wrong in FORMS:
        accepted, rejected = as_stated()(task, right), as_stated()(task, wrong)
        assert accepted is not None
        assert rejected is not None
        assert (accepted.accepted, accepted.text, rejected.accepted) == (True, "", False), task
        assert rejected.text in task


def test_a_loop_works_until_the_task_is_met_as_it_says() -> None:
    """`as_stated` can't tell where nothing is said; a part that fails lowers the score by its share."""
    model = ScriptedModel(["Come to tea, dear Ann, in the garden.", "Tea in the garden?"])
    graph = build_refine_graph(model, verifiers=[verifier("as_stated")])
    output = graph.invoke({"task": 'Invite Ann in at most 6 words. Use the word "garden".'})
    assert (output["answer"], output["accepted_by"]) == ("Tea in the garden?", "as_stated")
    assert next(one for one in output["events"] if one["kind"] == "critique")["score"] == (6 / 8 + 1) / 2
    assert as_stated()("Write about rain.", "Rain.") is None
