# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Does it help on my problem?
#
# You have a task that a model does for you, and a way to see whether an answer is right. That is enough to find out
# whether a loop that revises is worth its tokens there, which method to use instead, and when a change makes it worse.
# This notebook goes through all three on 24 small notices. Put your own rows, check and score in their place.

# %%
import os

os.environ["LANGGRAPH_STRICT_MSGPACK"] = "true"

import json
import re
from pathlib import Path
from tempfile import mkdtemp

from IPython.display import Markdown
from redraft import build_refine_graph, chat_model
from redraft.evals import choose, evaluate, gate, write_baseline

# %% [markdown]
# ## Rows, a check and a score
#
# A row is a mapping with a `task`; what else it holds is seen by the score alone. A CSV or JSONL file does as well.

# %%
NOTICES = [
    ("the kitchen is closed for cleaning", "kitchen, Friday, coffee", 18),
    ("the lift is out of order", "lift, stairs, Thursday", 16),
    ("the library has new opening hours", "library, eight, Saturday", 18),
    ("a package waits at the desk", "package, desk, passport", 16),
    ("the meeting is moved to another room", "meeting, room, projector", 16),
    ("the car park will be painted", "car park, Monday, street", 18),
    ("the water will be turned off", "water, noon, bottles", 16),
    ("the summer party needs helpers", "party, garden, Tuesday", 18),
    ("a key was found in the hall", "key, hall, blue", 14),
    ("the printer has no paper", "printer, paper, cellar", 14),
    ("the bus stop has moved", "bus, bakery, Monday", 16),
    ("the pool opens later", "pool, nine, Sunday", 14),
    ("a course for beginners starts", "course, guitar, evening", 16),
    ("the fire alarm will be tested", "alarm, Wednesday, ten", 16),
    ("the post office has closed", "post, market, letters", 16),
    ("the heating is being repaired", "heating, blankets, tomorrow", 16),
    ("volunteers are wanted for the garden", "garden, gloves, Saturday", 18),
    ("the museum is free on one day", "museum, free, Thursday", 16),
    ("a cat was found", "cat, grey, number", 14),
    ("the shop has new bread", "bread, rye, morning", 14),
    ("the train is late", "train, platform, minutes", 14),
    ("the choir looks for singers", "choir, tenors, Tuesday", 16),
    ("the gym closes for a week", "gym, floor, August", 16),
    ("the school needs old books", "books, school, box", 14),
]
rows = [
    {
        "task": f"Write a notice: {what}. It names: {words}. At most {most} words.",
        "words": words.split(", "),
        "most": most,
    }
    for what, words, most in NOTICES
]


def notice(task: str, draft: str) -> tuple[bool, str]:
    """It has the words that the task names, and no more words than the task allows."""
    named, most = re.search(r"It names: (.*)\. At most (\d+) words", task).groups()
    missing = [word for word in named.split(", ") if word.lower() not in draft.lower()]
    count = len(draft.split())
    wrong = [f"Not named: {', '.join(missing)}."] * bool(missing)
    wrong += [f"It has {count} words; at most {most} are allowed."] * (count > int(most))
    return not wrong, " ".join(wrong)


def is_right(row: dict, answer: str) -> float:
    """The share of the wanted words that it names; nothing for a text that is too long."""
    if len(answer.split()) > row["most"]:
        return 0.0
    return sum(word.lower() in answer.lower() for word in row["words"]) / len(row["words"])


# %% [markdown]
# The check is a program that judges each draft while the loop runs; it may say what is wrong. The score says afterwards
# how good an answer is, as a share from 0 to 1, or True and False. Here they look at the same things. Where your check
# is weaker than your score, the difference shows below as answers that were accepted and are wrong.
#
# ## Does revising help?
#
# `evaluate` runs the graph and holds it against what the same model, check and tokens bring without revising: its own
# first drafts, one longer call, and fresh samples until the check accepts one.

# %%
model = chat_model("replay")  # recorded from a model of 1.5B parameters; yours: "openai:gpt-5-mini", "local" …
graph = build_refine_graph(model, verifiers=[notice], limits={"max_rounds": 3})
ledger = evaluate(graph, rows, score=is_right, concurrency=1)
Markdown("\n".join(f"- {difference.sentence}" for difference in ledger.differences))

# %% [markdown]
# 24 rows are few, so read the interval before the difference: what includes 0 can be chance. On thousands of
# rows `redraft eval rows.jsonl --graph my_agent:graph --score my_checks:is_right --out mine` does the same, keeps
# every text, and goes on after a Ctrl-C.
#
# ## Which method, then?
#
# `choose` plays the candidates against each other row by row, drops what is shown to be behind, and reports the chosen
# one on rows that took no part in choosing.

# %%
choice = choose(
    build_refine_graph(chat_model("replay"), verifiers=[notice], limits={"max_rounds": 3}),
    rows,
    score=is_right,
    concurrency=1,
)
for one in choice.candidates:
    print(f"{one.name:12} score {one.mean:.2f} on {one.n} rows, {one.tokens:.0f} tokens a row  {one.dropped}")
Markdown(choice.sentence)

# %% [markdown]
# At the shell, `redraft choose rows.jsonl --verify … --out recipe.json` writes the choice as a recipe, which `redraft
# run --recipe`, `redraft serve --recipe` and `build_from_recipe` take.
#
# ## Will I notice when it gets worse?
#
# `write_baseline` plays every row once and keeps the scores in a file that you commit. `gate` plays a later version
# beside it, until a loss of `margin` is shown or ruled out. The later version here writes a title and nothing else.

# %%
baseline = Path(mkdtemp()) / "baseline.json"
write_baseline(
    build_refine_graph(chat_model("replay"), verifiers=[notice], limits={"max_rounds": 3}),
    rows,
    baseline,
    score=is_right,
    concurrency=1,
)
print(json.dumps(json.loads(baseline.read_text())["scores"], indent=1))

worse = gate(lambda task: "A notice about " + task.split(": ")[1], rows, baseline, score=is_right)
Markdown(f"**{worse.verdict}**: {worse.sentence}")

# %% [markdown]
# In a test that is `redraft_gate(graph, "rows.jsonl", "baseline.json", score=is_right)`, and in a pipeline `redraft
# gate`, with exit code 1 where it got worse: see [Evidence](../docs/evals.md#a-gate-for-regressions).
