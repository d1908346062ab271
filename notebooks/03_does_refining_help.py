# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Does refining help?
#
# A loop that revises can fix answers and can break them, and it costs tokens that would also buy a vote of several
# samples. Whether it pays depends on who judges: first on recorded results, then on a small live run.

# %%
import os

os.environ["LANGGRAPH_STRICT_MSGPACK"] = "true"

from pathlib import Path

import IPython.display
import matplotlib.pyplot as plt
from redraft import Critique, build_refine_graph, chat_model
from redraft.evals import build_ledger, draw_plots, find_runs

# %% [markdown]
# ## Recorded results
#
# What `redraft eval` left behind when Qwen2.5-Coder-1.5B-Instruct worked on published problems: every text, vote and
# verdict, so that `redraft rescore` can judge them again. Programs judged the answers of three measurements that were
# written down before (`adaptive`), and the model its own in three smaller ones of the development (`self-refine-2`).
# [RESULTS.md](../evals/RESULTS.md) says more.

# %%
RECORDED = Path("../evals/results")
by_programs = [RECORDED / name for name in ("gsm8k_test", "humaneval", "commongen_hard")]
ledger = build_ledger(find_runs([*by_programs, RECORDED / "development"]))
JUDGES = {"adaptive": ("programs judge", "tab:blue"), "self-refine-2": ("it judges itself", "tab:orange")}
rows = sorted((row for row in ledger.methods if row.method in JUDGES), key=lambda row: row.method, reverse=True)

figure, axis = plt.subplots(figsize=(9, 4), layout="constrained")
for place, row in enumerate(rows):
    test, (_, colour) = row.headline.paired, JUDGES[row.method]
    low, high = test.diff_ci95
    axis.plot([100 * low, 100 * high], [place, place], color=colour)
    axis.plot(100 * test.diff, place, "o", color=colour)
    axis.annotate(f"fixed {row.overall.fixed}, broke {row.overall.broken} of {row.n}", (100 * high, place),
                  xytext=(6, -3), textcoords="offset points", fontsize=8)  # fmt: skip
axis.set_yticks(range(len(rows)), [f"{row.dataset}: {JUDGES[row.method][0]}" for row in rows])
axis.axvline(0, color="grey", linewidth=1)
axis.set_xlim(-25, 105)
axis.set_xlabel("points gained against samples for as many tokens, or for the nearest number of them (95% interval)")
axis.spines[["top", "right"]].set_visible(False)
plt.show()

# %% [markdown]
# These are the differences that were registered beforehand, against a baseline that turned out to be weak. Beside the
# same evidence with nothing revised, two of the three gains are gone. On GSM8K a vote of the first draft and three
# programs has 67.0% right, refining 67.5%. On HumanEval samples after the same first draft have 66.3%, refining 70.2%,
# which could be chance. Where the check says what is missing, as with the words of CommonGen-Hard, revising is what
# helps: 83% against 9%.
#
# The model that judges itself fixed none. The next figure shows why: on problems of mathematics and code it accepted
# all that it wrote, wrong or right.

# %%
judged = [*(folder / "adaptive" for folder in by_programs), *RECORDED.glob("development/*/self-refine-2")]
plots = {plot.name: plot for plot in draw_plots(build_ledger(find_runs(judged)))}
IPython.display.Image(plots["critics"].png, alt=plots["critics"].described)

# %% [markdown]
# How many rounds? With programs all three curves still rise at the last round that was allowed: the limit ended them,
# and on words nearly every round brought right answers. Where the model judged itself, only one of three runs has a
# curve, a flat one: on mathematics and code it accepted every first draft, so there was no second round to draw.

# %%
IPython.display.Image(plots["curve"].png, alt=plots["curve"].described)

# %% [markdown]
# ## A small run of your own
#
# Five short notices by the recorded model, each with two words that a program looks for. The first draft is written
# without knowing them, and a revision is told what to add. `redraft eval` measures the same on a whole dataset, beside
# samples for as many tokens.

# %%
model = chat_model("replay")  # or "openai:gpt-5-mini", …
TASKS = {
    "Ask the team, in one sentence, to send their timesheets.": {
        "please": "Say please.",
        "Friday": "Say by which day: by Friday.",
    },
    "Tell the staff, in one sentence, that the kitchen is closed.": {
        "kitchen": "Name the kitchen.",
        "Monday": "Say until when: until Monday.",
    },
    "Invite the neighbours, in one sentence, to a summer party.": {
        "party": "Name the party.",
        "garden": "Say where: in the garden.",
    },
    "Remind the guests, in one sentence, to return their keys.": {
        "keys": "Name the keys.",
        "desk": "Say where: at the front desk.",
    },
    "Thank a customer, in one sentence, for their order.": {
        "order": "Name the order.",
        "Tuesday": "Say when it arrives: on Tuesday.",
    },
}


def refined(task, wishes):
    def says_it_all(task, draft):
        missing = [wish for word, wish in wishes.items() if word.lower() not in draft.lower()]
        return Critique(" ".join(missing), accepted=not missing, score=1 - len(missing) / len(wishes))

    graph = build_refine_graph(model, verifiers=[says_it_all], limits={"max_rounds": 3})
    output = graph.invoke({"task": task})
    return next(event["score"] for event in output["events"] if event["kind"] == "critique"), output


results = {task: refined(task, wishes) for task, wishes in TASKS.items()}

# %%
figure, axis = plt.subplots(figsize=(9, 3), layout="constrained")
for place, (first, output) in enumerate(reversed(results.values())):
    axis.plot([first, output["score"]], [place, place], color="tab:blue", linewidth=2)
    axis.plot(first, place, "o", color="white", markeredgecolor="tab:blue", markersize=9)
    axis.plot(output["score"], place, "o", color="tab:blue", markersize=6)
axis.set_yticks(range(len(results)), [" and ".join(wishes) for wishes in reversed(TASKS.values())])
axis.set_xticks([0, 0.5, 1], ["no word", "one word", "both words"])
axis.set_xlim(-0.1, 1.1)
axis.set_title("first draft (ring) and answer (dot), after three rounds at most", fontsize=10)
axis.spines[["top", "right"]].set_visible(False)
plt.show()

# %% [markdown]
# The check looks for words and not for sense, so read what was accepted:

# %%
lines = [f"- {output['answer']} *({output['stop_reason']})*" for _, output in results.values()]
IPython.display.Markdown("\n".join(lines))
