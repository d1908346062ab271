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
from redraft import Limits, build_refine_graph, chat_model, uses_words, verifier_critic
from redraft.evals import build_ledger, draw_plots, find_runs

# %% [markdown]
# ## Recorded results
#
# What `redraft eval` left behind when Qwen2.5-Coder-1.5B-Instruct worked on published problems: every text, vote and
# verdict, so that `redraft rescore` can judge them again. Programs judged the answers of three measurements that were
# written down before (`adaptive`), and the model its own in three smaller ones of the development (`self-refine-2`).
# [RESULTS.md](../evals/RESULTS.md) says more.

# %%
results = Path("../evals/results")
by_programs = [results / name for name in ("gsm8k_test", "humaneval", "commongen_hard")]
ledger = build_ledger(find_runs([*by_programs, results / "development"]))
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
# A program that knows what is right is worth every round. The model that judges itself fixed none: on problems of
# mathematics and code it accepts whatever it wrote, wrong or right.

# %%
judged = [*(folder / "adaptive" for folder in by_programs), *results.glob("development/*/self-refine-2")]
plots = {plot.name: plot for plot in draw_plots(build_ledger(find_runs(judged)))}
IPython.display.Image(plots["critics"].png, alt=plots["critics"].described)

# %% [markdown]
# How many rounds? The curve says after which of them nothing more is gained.

# %%
IPython.display.Image(plots["curve"].png, alt=plots["curve"].described)

# %% [markdown]
# ## A small live run
#
# Eight sentences by the embedded model, which has 135M parameters, each with two words that a program looks for. The
# refiner is told the task again and which words are missing: shown its draft, a model this small copies it. On the
# shell this is `redraft run "Write …" --verify uses_words:river,lamp`; `redraft eval` measures it on a whole dataset.

# %%
TASKS = {
    "a boat trip": ("river", "lamp"),
    "a bakery in winter": ("snow", "bell"),
    "a dog": ("ladder", "apple"),
    "a school": ("window", "song"),
    "a journey": ("bridge", "coat"),
    "a garden": ("clock", "rain"),
    "a letter": ("candle", "door"),
    "a market": ("drum", "orange"),
}


def refined(about, words, seed):
    graph = build_refine_graph(
        chat_model("local", temperature=0.7, seed=seed, max_output_tokens=60),  # or "openai:gpt-5-mini", …
        critics=[verifier_critic(uses_words(*words))],
        refine_prompt="{task} {feedback} Try {round}:",
        memory="last",
    )
    task = f"Write one sentence about {about} with the words {words[0]} and {words[1]} in it."
    output = graph.invoke({"task": task, "limits": Limits(max_rounds=3)})
    first = next(event["score"] for event in output["events"] if event["kind"] == "critique")
    return first, output["score"], output["answer"]


found = {about: refined(about, words, seed) for seed, (about, words) in enumerate(TASKS.items(), start=1)}

# %%
figure, axis = plt.subplots(figsize=(9, 3.5), layout="constrained")
for place, (first, last, _) in enumerate(found.values()):
    axis.plot([first, last], [place, place], color="tab:blue", linewidth=2)
    axis.plot(first, place, "o", color="white", markeredgecolor="tab:blue", markersize=9)
    axis.plot(last, place, "o", color="tab:blue", markersize=6)
axis.set_yticks(range(len(found)), found)
axis.set_xticks([0, 0.5, 1], ["no word", "one word", "both words"])
axis.set_xlim(-0.1, 1.1)
axis.set_title("first draft (ring) and answer (dot), after three rounds at most", fontsize=10)
axis.spines[["top", "right"]].set_visible(False)
plt.show()
before, after = (sum(one[index] for one in found.values()) / len(found) for index in (0, 1))
about = max(found, key=lambda one: found[one][1] - found[one][0])
IPython.display.Markdown(
    f"{before:.0%} of the words at first, **{after:.0%} in the end**. The check looks for words and not for sense, "
    f"which the answer about {about} shows: “{found[about][2]}”"
)
