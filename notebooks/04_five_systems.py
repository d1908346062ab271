# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Five systems on one loop
#
# Self-Refine on word problems, draft–critique–improve over an event log, a search that refines its own queries, a
# wrapper around any agent, and answers scored on a rubric: each is a preset, and each an ordinary compiled graph.
#
# The replies were recorded once from Qwen2.5-Coder-1.5B-Instruct, so that this notebook runs anywhere, always in the
# same way, and for nothing. To use a model of yours, change the text in `chat_model`.

# %%
import os

os.environ["LANGGRAPH_STRICT_MSGPACK"] = "true"

from redraft import Thread, chat_model, open_checkpointer
from redraft.faces import diff, show, timeline

model = chat_model("replay:replies.sqlite", max_output_tokens=300)  # or "openai:gpt-5-mini", …
checkpointer = open_checkpointer("memory").open()


def run(graph, task, thread_id, **limits):
    return graph.invoke({"task": task, "limits": limits}, {"configurable": {"thread_id": thread_id}})


# %% [markdown]
# ## 1 · `math`: Self-Refine on word problems
#
# A solution is accepted when a program that the model wrote without seeing it gives the same number.

# %%
from redraft import build_math_graph
from redraft.nodes import extract_number

problem = (
    "A hall has 18 rows of 24 chairs. For a concert 5 rows are taken out, and in each row that stays 3 chairs are "
    "broken. How many people can sit?"
)
maths = build_math_graph(model, checkpointer=checkpointer)
solved = run(maths, problem, "chairs")
print(solved["answer"])
print("→", extract_number(solved["answer"]), solved["stop_reason"], solved["accepted_by"])

# %%
timeline(Thread(maths, "chairs"))

# %% [markdown]
# ## 2 · `reasoning`: draft, critique, improve
#
# N iterations are 1 + 2N model calls. The same steps are arrows that compose with `|`, and a pipe language.

# %%
from redraft import build_reasoning_graph

topic = "Explain in three sentences to a new colleague what a checkpoint of a running program is good for."
reasoning = build_reasoning_graph(model, iterations=1, checkpointer=checkpointer)
print(run(reasoning, topic, "checkpoint")["answer"])

# %%
diff(Thread(reasoning, "checkpoint"))

# %% [markdown]
# ## 3 · `retrieval`: a search that refines its own queries
#
# The folder with redraft's own documentation, searched by words and by vectors, without a network and without a model.

# %%
from redraft import build_retrieval_graph
from redraft.nodes import retrieval_result

search = build_retrieval_graph("../docs", confidence_threshold=0.4, top_k=3)
found = retrieval_result(search.invoke({"task": "How do I fork a thread, and when does a run stop?"}))
print("queries:", *found.plan["queries"], sep="\n  ")
for passage in found.results:
    print(f"{passage.similarity:.2f}", passage.source, "·", passage.heading)

# %% [markdown]
# ## 4 · `agent`: refine what any agent says
#
# The base is any Runnable; it runs whole, and what it says is judged and refined as text.

# %%
from langchain_core.prompts import ChatPromptTemplate
from redraft import build_agent_graph

base = ChatPromptTemplate.from_template("Answer in one short sentence: {task}") | model
agent = build_agent_graph(base, model=model, max_rounds=1, checkpointer=checkpointer)
answered = run(agent, "Why do bridges have gaps between their parts?", "bridges")
print(answered["answer"], "·", answered["stop_reason"])

# %%
show(agent)

# %% [markdown]
# ## 5 · `rubric`: answers on weighted dimensions
#
# A dimension is judged by the model or by a function; the weighted mean is the score.

# %%
from redraft import build_rubric_graph
from redraft.nodes import Dimension, Rubric, refinement_metadata


def brevity(task: str, draft: str) -> tuple[float, str]:
    words = len(draft.split())
    return min(1.0, 40 / max(words, 1)), f"{words} words; 40 would do"


rubric = Rubric(dimensions=(Dimension(name="brevity", weight=2), Dimension(name="relevance", weight=1)))
rated = build_rubric_graph(model, rubric=rubric, judges={"brevity": brevity}, threshold=0.9, checkpointer=checkpointer)
scored = run(rated, "How do I keep bread fresh for a week?", "bread", max_rounds=2)
print(scored["answer"])
print(f"score {scored['score']:.2f}", scored["stop_reason"], refinement_metadata(scored)["quality_dimensions_improved"])

# %%
timeline(Thread(rated, "bread"))
