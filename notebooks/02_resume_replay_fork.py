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
# A run is killed in its second round, resumed in this process from what was stored, replayed without a model, and
# forked twice: with other feedback, and with another model. It runs on the small embedded model, without a key; to use
# a model of yours, change `MODEL`.

# %%
import os

os.environ["LANGGRAPH_STRICT_MSGPACK"] = "true"

import subprocess
import sys
import tempfile
from pathlib import Path

from redraft import Thread, build_refine_graph, chat_model, open_checkpointer, uses_words, verifier_critic
from redraft.faces import diff, scores, show, timeline, tree

MODEL = "local"  # or "openai:gpt-5-mini", …
DB = str(Path(tempfile.mkdtemp()) / "runs.sqlite")

# %% [markdown]
# ## A process that is killed
#
# The same graph in a process of its own. Its critic kills the process, as a power cut would, when it sees the second
# draft: nothing is cleaned up, nothing is saved in a hurry.

# %%
victim = f"""
import os, signal
from redraft import build_refine_graph, chat_model, open_checkpointer, uses_words, verifier_critic

words = uses_words("snow", "bell", "bread")

def uses_words_then_power_cut(task, draft):
    if os.path.exists({DB + ".second"!r}):
        os.kill(os.getpid(), signal.SIGKILL)
    open({DB + ".second"!r}, "w").close()
    return words(task, draft)

model = chat_model({MODEL!r}, temperature=0.7, seed=1, max_output_tokens=60)
with open_checkpointer({DB!r}) as saver:
    graph = build_refine_graph(
        model,
        critics=[verifier_critic(uses_words_then_power_cut, name="uses_words")],
        refine_prompt="(Try {{round}}. {{feedback}})\\n\\n{{task}}",
        checkpointer=saver,
    )
    task = "Write one sentence about a bakery in winter with the words snow, bell and bread in it."
    graph.invoke({{"task": task}}, {{"configurable": {{"thread_id": "bakery"}}}}, durability="sync")
"""
killed = subprocess.run([sys.executable, "-c", victim], check=False)
print("the process ended with", killed.returncode)

# %% [markdown]
# ## Resume
#
# What was paid for is stored: the two drafts and the first critique. `resume` goes on with the judgement that the
# process died in. No draft is written twice, and seconds between the two processes count for nothing. The critic that
# cut the power stands in the record, so going on with another one has to be allowed, and the change is recorded too.

# %%
checkpointer = open_checkpointer(DB).open()


def bakery(model):
    return build_refine_graph(
        model,
        critics=[verifier_critic(uses_words("snow", "bell", "bread"))],
        refine_prompt="(Try {round}. {feedback})\n\n{task}",  # a model this small copies a draft that it is shown
        checkpointer=checkpointer,
    )


graph = bakery(chat_model(MODEL, temperature=0.7, seed=1, max_output_tokens=60))
thread = Thread(graph, "bakery")
print("stored:", [(event["kind"], event["round"]) for step in thread.history() for event in step.events])

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
# A fork is a thread of its own from a round of this one. Here the first draft gets another critique, and in the second
# fork another model revises it: the same weights with another seed, for want of a key.

# %%
dog = thread.fork(
    at=0, feedback="Make it about a dog that waits for bread. Use the words snow and bell.", thread_id="dog"
)
print(dog.resume()["answer"])

# %%
other = bakery(chat_model(MODEL, temperature=1.0, seed=5, max_output_tokens=60))
thread.fork(at=0, thread_id="other-model")
print(Thread(other, "other-model").resume()["answer"])

# %% [markdown]
# ## Compare

# %%
tree(thread)

# %%
diff(thread, other=dog)

# %%
scores([thread, dog, Thread(other, "other-model")])
