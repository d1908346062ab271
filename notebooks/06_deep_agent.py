# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # A deep agent whose report is refined
#
# What a deep agent makes is often a file, and its last message only says so. `RefineMiddleware` has both judged where
# the agent would finish; what fails goes back into the agent's own loop, with its tools.
#
# It needs `pip install deepagents ".[agents]"` in a checkout. A script stands in for the model, since the recorded one
# calls no tools: it writes a report, mends it, and then makes it worse. To use a model of yours, put
# `chat_model("openai:gpt-5-mini")` in its place.

# %%
import os

os.environ["LANGGRAPH_STRICT_MSGPACK"] = "true"

from deepagents import create_deep_agent
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from redraft import RefineMiddleware, Thread, uses_words, verifier_critic
from redraft.faces import diff, timeline


class Script(GenericFakeChatModel):
    def bind_tools(self, tools, **_):
        return self


def edits(old, new):
    args = {"file_path": "/report.md", "old_string": old, "new_string": new}
    return AIMessage("", tool_calls=[{"name": "edit_file", "args": args, "id": f"edit {old}"}])


FIRST = "A delta is land at the mouth of a river."
writes = {"name": "write_file", "args": {"file_path": "/report.md", "content": FIRST}, "id": "write"}
model = Script(
    messages=iter(
        [
            AIMessage("", tool_calls=[writes]),
            AIMessage("The report is in /report.md."),
            edits("land at", "land made of mud at"),
            AIMessage("The report now says what a delta is made of."),
            edits("land made of mud at the mouth of a river", "a letter"),
            AIMessage("The report is shorter now."),
        ]
    )
)

# %% [markdown]
# ## The critic, and the agent
#
# A program wants three words; the score is the share of them that it finds. `files=` says which files belong to the
# answer: a path, or a pattern such as `"/out/*"`.

# %%
words = verifier_critic(uses_words("river", "mud", "sea"))
refining = RefineMiddleware([words], files="/report.md", max_rounds=2)
agent = create_deep_agent(model, middleware=[refining], checkpointer=InMemorySaver())
asked = {"messages": [("user", "Write /report.md: what is a delta, in one sentence?")]}
out = agent.invoke(asked, {"configurable": {"thread_id": "delta"}})
print(out["messages"][-1].text, "→", out["files"]["/report.md"]["content"])

# %% [markdown]
# The last version was the worst one, so the answer is the one before it, and so is the file. What a run did, and why it
# ended, is in the last message:

# %%
out["messages"][-1].response_metadata["redraft"]

# %% [markdown]
# ## What happened
#
# The record is kept in the agent's own thread, and read without a model.

# %%
timeline(Thread(agent, "delta"))

# %%
diff(Thread(agent, "delta"))

# %%
for event in Thread(agent, "delta").replay().output["events"]:
    for step in event.get("steps", ()):
        if step["step"] == "tool_call":
            print(event["round"], step["text"])
