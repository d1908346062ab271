# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Resume, replay, fork
#
# A run is killed while a revision is judged, resumed in this process from what was stored, replayed without a model,
# and forked twice: with a wish, and with a draft by a person. The replies are recorded, as in the notebook before.

# %%
import os

os.environ["LANGGRAPH_STRICT_MSGPACK"] = "true"

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from redraft import Critique, Thread, build_refine_graph, chat_model, open_checkpointer
from redraft.faces import diff, scores, show, timeline, tree

DB = str(Path(tempfile.mkdtemp()) / "runs.sqlite")

# %% [markdown]
# ## A process that is killed
#
# The same graph in a process of its own. Its verifier kills the process, as a power cut would, when it sees another
# draft than the first: nothing is cleaned up, nothing is saved in a hurry.

# %%
victim = f"""
import os, re, signal
from redraft import Critique, build_refine_graph, chat_model, open_checkpointer

judged = []

def polite_with_a_day(task, draft):
    if judged and draft != judged[0]:
        os.kill(os.getpid(), signal.SIGKILL)
    judged.append(draft)
    wishes = []
    if not re.search("(Mon|Tues|Wednes|Thurs|Fri)day", draft):
        wishes.append("Say by which day: by Friday.")
    if "please" not in draft.lower():
        wishes.append("Say please.")
    return Critique(" ".join(wishes), accepted=not wishes, score=1 - len(wishes) / 2)

with open_checkpointer({DB!r}) as saver:
    graph = build_refine_graph(chat_model("replay"), verifiers=[polite_with_a_day], checkpointer=saver)
    task = {{"task": "Ask the team, in one sentence, to send their timesheets."}}
    graph.invoke(task, {{"configurable": {{"thread_id": "timesheets"}}}}, durability="sync")
"""
killed = subprocess.run([sys.executable, "-c", victim], env=os.environ | {"REDRAFT_WATCHDOG": "0"}, check=False)
print("the process ended with", killed.returncode)

# %% [markdown]
# ## Resume
#
# What was paid for is stored: the drafts and the first critique. `resume` goes on with the judgement that the
# process died in, and no draft is written twice. The verifier that cut the power stands in the record, so going on with
# another one has to be allowed, and the change is recorded too.


# %%
def polite_with_a_day(task, draft):
    wishes = []
    if not re.search("(Mon|Tues|Wednes|Thurs|Fri)day", draft):
        wishes.append("Say by which day: by Friday.")
    if "please" not in draft.lower():
        wishes.append("Say please.")
    return Critique(" ".join(wishes), accepted=not wishes, score=1 - len(wishes) / 2)


checkpointer = open_checkpointer(DB).open()
graph = build_refine_graph(chat_model("replay"), verifiers=[polite_with_a_day], checkpointer=checkpointer)
thread = Thread(graph, "timesheets")
for step in thread.history():
    for event in step.events:
        print(event["round"], event["kind"], event["text"])

# %%
output = thread.resume(allow_changes=True)
{key: output[key] for key in ("answer", "stop_reason", "rounds", "score")}

# %%
timeline(thread)

# %%
show(thread)

# %% [markdown]
# ## Replay
#
# The output again, from the record alone: no model is called, and a record that was edited anywhere is noticed.

# %%
replay = thread.replay()
print("matches:", replay.matches, replay.differences)

# %% [markdown]
# ## Fork
#
# A fork is a thread of its own from a round of this one. The first one asks for something more, and a verifier looks
# whether it is there. In the second a person writes the draft, and no model is asked.

# %%
wish = "Say that the payroll closes then."
payroll = thread.fork(at="best", feedback=wish, verifiers=["uses_words:payroll"], thread_id="payroll")
print(payroll.resume()["answer"])

# %%
by_hand = thread.fork(at=0, draft="Timesheets by Friday noon, please.", thread_id="by-hand")
print(by_hand.resume()["answer"])

# %% [markdown]
# ## Compare

# %%
tree(thread)

# %%
diff(thread, other=payroll)

# %%
scores([thread, payroll, by_hand])
