# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Work in a folder
#
# A draft need not be a text: here it is a folder. A writer works in private copies of it, a command says whether it is
# done, every round is kept, and your own files change when you say so. At the shell it is `redraft goal`.
#
# It needs `pip install ".[folders,notebook]"` in a checkout. A function stands in for the writer, since the recorded
# model was not asked this; a chat model, an agent or a coding agent's command takes its place.

# %%
import os

os.environ["LANGGRAPH_STRICT_MSGPACK"] = "true"

import tempfile
from pathlib import Path

from langgraph.checkpoint.memory import InMemorySaver
from redraft import Thread
from redraft.faces import timeline
from redraft.folders import Trees, build_folder_graph, command, read_draft

scratch = Path(tempfile.mkdtemp())
folder = scratch / "project"
folder.mkdir()
(folder / "slug.py").write_text('def slug(title):\n    return title.replace(" ", "-")\n')
(folder / "check.py").write_text("""from slug import slug

cases = {"Rain": "rain", "A lamp": "a-lamp", "Why?": "why"}
wrong = {title: slug(title) for title, wanted in cases.items() if slug(title) != wanted}
for title in cases:
    print("not ok" if title in wrong else "ok", title)
raise SystemExit(f"wrong: {wrong}" if wrong else 0)
""")

# %% [markdown]
# ## A writer, and a command that judges
#
# The writer is given an instruction, which holds what fails, and a copy of the best files so far. This one mends one
# thing a round, and in the first it also tries to make the check easier. `protect` puts the check back.

# %%
told = []


def writer(instruction, copy):
    told.append(instruction)
    slug = copy / "slug.py"
    if len(told) == 1:
        slug.write_text('def slug(title):\n    return title.lower().replace(" ", "-")\n')
        (copy / "check.py").write_text("print('ok')\n")
    else:
        slug.write_text('def slug(title):\n    return title.lower().replace(" ", "-").strip("?!.")\n')


graph = build_folder_graph(
    writer,
    root=folder,
    trees=scratch / "trees",
    checks=[command("python3 check.py", timeout_s=60)],
    protect=["check.py"],
    plain=True,  # without a sandbox, so that the notebook runs anywhere
    checkpointer=InMemorySaver(),
)
config = {"configurable": {"thread_id": "slug"}}
output = graph.invoke({"task": "Make check.py pass."}, config)
print(output["stop_reason"], "after", output["rounds"], "round")

# %%
timeline(Thread(graph, "slug"))

# %% [markdown]
# The second instruction, as the writer had it:

# %%
print(told[1])

# %% [markdown]
# ## Files of any round
#
# A draft's text names its tree. `Trees` has the files, compares any two, and writes them out.

# %%
trees = Trees(scratch / "trees")
base = graph.get_state(config).values["base_tree"]
first, last = (read_draft(one["text"]).tree for one in output["events"] if one["kind"] in ("draft", "revision"))
print(trees.diff(first, last))

# %% [markdown]
# ## Another way from the first round
#
# A fork goes on from the files of its round. What it is asked for beside the task no command can check, so it ends as
# `undecided`, and it is for you to look.

# %%
fork = Thread(graph, "slug").fork(at=0, feedback="Use a regular expression.")
forked = fork.resume()
print(forked["stop_reason"], "· told the wish:", "Use a regular expression." in told[-1])

# %% [markdown]
# ## Your folder
#
# It is as it was. `apply` writes the answer to it, and refuses where it has changed since it was read.

# %%
print((folder / "slug.py").read_text())
print([change.path for change in trees.apply(base, last, folder)])
print((folder / "slug.py").read_text())
