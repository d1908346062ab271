# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # A first refinement
#
# A model writes a sentence, a program says what is wrong with it, the model revises: until the sentence is right or a
# limit says stop.
#
# The replies were recorded once from Qwen2.5-Coder-1.5B-Instruct, so that the notebook runs anywhere, in a second, and
# always in the same way. To try tasks of yours, put a model of yours in the line with `chat_model`.

# %%
import os
import re

os.environ["LANGGRAPH_STRICT_MSGPACK"] = "true"

from redraft import Critique, Thread, build_refine_graph, chat_model, open_checkpointer
from redraft.faces import diff, show, timeline

model = chat_model("replay")  # or "local", "openai:gpt-5-mini", …

# %% [markdown]
# ## Who judges
#
# A verifier is a function of the task and the draft. This one wants a day of the week and a please; where one is not
# there it says what to mend, and the score tells a near miss from a far one.


# %%
def polite_with_a_day(task, draft):
    wishes = []
    if not re.search("(Mon|Tues|Wednes|Thurs|Fri)day", draft):
        wishes.append("Say by which day: by Friday.")
    if "please" not in draft.lower():
        wishes.append("Say please.")
    return Critique(" ".join(wishes), accepted=not wishes, score=1 - len(wishes) / 2)


# %% [markdown]
# ## The loop
#
# Five nodes over a typed state. The edge after `check` reads the state and nothing else: it ends the run when there is
# a `stop_reason`, and goes on to `refine` when there is none.

# %%
checkpointer = open_checkpointer("memory").open()
graph = build_refine_graph(model, verifiers=[polite_with_a_day], checkpointer=checkpointer)
show(graph)

# %% [markdown]
# ## Watching a run
#
# `stream_mode="custom"` gives every event as it is recorded: the draft, who judged it and what was said, the verdict.
# The first draft is written without knowing what the verifier wants. It is turned down, and `check` chooses a rung of
# the ladder by which drafts are mended: `mend`, where the model sees the draft and the one thing to do about it. Were
# that in vain, the text would be written anew (`rewrite`), and then sampled afresh (`sample`).

# %%
config = {"configurable": {"thread_id": "first"}}
task = {"task": "Ask the team, in one sentence, to send their timesheets.", "limits": {"max_rounds": 3}}
for event in graph.stream(task, config, stream_mode="custom", durability="sync"):
    if event["kind"] != "start":
        print(f"round {event['round']}  {event['kind']:<9}", event["text"] or "(nothing is wrong)")

# %% [markdown]
# ## What comes back
#
# The best draft, and why the run stopped.

# %%
thread = Thread(graph, "first")
output = thread.resume()  # the run is finished, so this gives its output and pays nothing
{key: output[key] for key in ("answer", "stop_reason", "rounds", "score", "accepted_by")}

# %% [markdown]
# ## The record
#
# Every step is a checkpoint. `replay` folds the record into the output again, without a model, and says whether the two
# agree; a record that was edited anywhere is noticed.

# %%
timeline(thread)

# %%
thread.replay().matches

# %% [markdown]
# ## Another way from the same draft
#
# A fork starts a new thread in the middle of this one. What it is asked for stays a requirement until somebody who can
# tell says that it is met: here a verifier that looks for the word. This thread stays as it is.

# %%
wish = "Say that the payroll closes then."
branch = thread.fork(at="best", feedback=wish, verifiers=["uses_words:payroll"], thread_id="payroll")
forked = branch.resume()
print(forked["answer"])
print("→", forked["stop_reason"], "by", forked["accepted_by"])

# %%
diff(thread, other=branch)
