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
# A model writes a sentence, a program says which words are missing, the model revises: until the sentence is right or
# a limit says stop. This notebook runs on the small embedded model, without a key. To use a model of yours, change the
# line with `chat_model`.

# %%
import os

os.environ["LANGGRAPH_STRICT_MSGPACK"] = "true"

from redraft import Limits, Thread, build_refine_graph, chat_model, open_checkpointer, uses_words, verifier_critic
from redraft.faces import diff, show, timeline

model = chat_model("local", temperature=0.7, seed=4, max_output_tokens=60)  # or "openai:gpt-5-mini", …

# %% [markdown]
# ## The loop
#
# Five nodes over a typed state. The edge after `check` reads the state and nothing else: it ends the run when there is
# a `stop_reason`, and goes on to `refine` when there is none.

# %%
checkpointer = open_checkpointer("memory").open()
graph = build_refine_graph(
    model,
    critics=[verifier_critic(uses_words("snow", "bell"))],
    checkpointer=checkpointer,
)
show(graph)

# %% [markdown]
# ## Watching a run
#
# `stream_mode="custom"` gives every event as it is recorded: the draft, who judged it and what was said, the verdict.
# The model was told with the task what the program wants. A draft that it rejects all the same is mended by one way
# after another: a sentence is added, the text is written anew with the draft out of sight, a fresh sample is drawn.
# `redraft.faces.live` shows the same as a view that is renewed while the run goes on.

# %%
config = {"configurable": {"thread_id": "first"}}
sentence = "Write one sentence about a bakery in winter with the words snow and bell in it."
task = {"task": sentence, "limits": Limits(max_rounds=3)}
for event in graph.stream(task, config, stream_mode="custom", durability="sync"):
    if event["kind"] != "start":
        print(f"round {event['round']}  {event['kind']:<9} {event['by']:<22} {event['text']}")

# %% [markdown]
# ## What comes back

# %%
thread = Thread(graph, "first")
output = thread.resume()  # the run is finished, so this gives its output and pays nothing
{key: output[key] for key in ("answer", "stop_reason", "rounds", "score", "accepted_by", "usage")}

# %% [markdown]
# ## The record
#
# Every step is a checkpoint. `replay` folds the record into the output again, without a model, and says whether the two
# agree; a record that was edited anywhere is noticed.

# %%
timeline(thread)

# %%
replay = thread.replay()
replay.matches, replay.differences

# %% [markdown]
# ## Another way from the same draft
#
# A fork starts a new thread in the middle of this one, with other feedback. This one stays as it is.

# %%
branch = thread.fork(at=0, feedback="Make it about a dog, and use the words snow and bell.", thread_id="dog")
print(branch.resume()["answer"])
diff(thread, other=branch)
