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
# samples. The ledger says which, problem by problem. First on recorded results, then on a small live run.

# %%
import os

os.environ["LANGGRAPH_STRICT_MSGPACK"] = "true"

import tempfile
from pathlib import Path

import IPython.display
from redraft import chat_model
from redraft.evals import build_ledger, build_method, find_runs, load_dataset

# %% [markdown]
# ## Recorded results
#
# What `redraft eval` left behind when a 1.5B model worked on published problems: every text, vote and verdict, so that
# `redraft rescore` can judge them again. [RESULTS.md](../evals/RESULTS.md) says more.

# %%
results = Path("../evals/results")
recorded = find_runs([results / "gsm8k_test", results / "humaneval", results / "commongen_hard"])
ledger = build_ledger(recorded)
for row in ledger.methods:
    print(f"{row.dataset}: {row.verdict}\n")

# %% [markdown]
# Problem by problem: a method that refines is worth what it fixed less what it broke, and an exact McNemar test says
# whether that could be chance (0.001 stands for anything below it, too).

# %%
print(f"{'dataset and method':<34} {'right':>6}  {'95%':<14} {'fixed':>5} {'broke':>5} {'p':>6} {'tokens':>7}")
for row in ledger.methods:
    low, high = row.accuracy.ci95
    p = max(row.overall.mcnemar_p, 0.001)
    changed = "" if row.baseline else f"{row.overall.fixed:>5} {row.overall.broken:>5} {p:>6.3f}"
    print(f"{row.label:<34} {row.accuracy.rate:>6.1%}  {f'{low:.1%}–{high:.1%}':<14} {changed:<18} {row.tokens:>7.0f}")

# %% [markdown]
# Who judged well? A critic is worth having when it rejects wrong drafts, whatever it says about them.

# %%
for critic in ledger.critics:
    print(f"{critic.critic} in {critic.method}: accepts {critic.false_accept.rate:.0%} of the wrong drafts,",
          f"rejects {critic.false_reject.rate:.0%} of the right ones")  # fmt: skip

# %% [markdown]
# The plots of `redraft report`: what each method's tokens brought, and what each round fixed and broke.

# %%
from redraft.faces import draw_plots

for plot in draw_plots(ledger)[:2]:
    IPython.display.display(IPython.display.Image(plot.png, alt=plot.described))

# %% [markdown]
# ## A small live run
#
# Four of redraft's own word problems on the small embedded model, one call against one round of judging itself. On the
# shell this is `redraft eval bundled --limit 4 --methods zero-shot,self-refine-1 --out DIR`. A model of 135M parameters
# gets hardly any of them right, and says so of none: four problems prove nothing, and the verdict says that too.

# %%
from redraft.evals import ResultFile, run_method, write_run_info

model = chat_model("local", temperature=0, max_output_tokens=80)  # or "openai:gpt-5-mini", …
problems = load_dataset("bundled").sample(4)
out = Path(tempfile.mkdtemp())


async def run(name):
    method = build_method(name, problems.kind, model)
    info = {"dataset": problems.name, "dataset_sha256": problems.sha256, "kind": problems.kind, "model": "local",
            "method": name, "oracle": False, "n": len(problems.problems)}  # fmt: skip
    write_run_info(out / name, info)
    with ResultFile(out / name / "results.jsonl") as results:
        return await run_method(method, problems, results, concurrency=2, run_id=name)


for name in ("zero-shot", "self-refine-1"):
    progress = await run(name)
    print(f"{name}: {progress.right} of {progress.done} right, {progress.tokens} tokens")

# %%
for row in build_ledger(find_runs([out])).methods:
    print(row.verdict)
