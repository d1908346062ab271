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

from IPython.display import Markdown
from redraft import Thread, chat_model, open_checkpointer
from redraft.faces import scores, show, timeline

model = chat_model("replay")  # or "openai:gpt-5-mini", …
checkpointer = open_checkpointer("memory").open()


def run(graph, task, thread_id, **limits):
    return graph.invoke({"task": task, "limits": limits}, {"configurable": {"thread_id": thread_id}})


# %% [markdown]
# ## 1 · `math`: Self-Refine on word problems
#
# The draft and programs, which the model writes without seeing it, vote; a number that leads by two votes is accepted.

# %%
import re

from redraft import build_math_graph
from redraft.nodes import extract_number

problem = (
    "A hall has 18 rows of 24 chairs. For a concert 5 rows are taken out, and in each row that stays 3 chairs are "
    "broken. How many people can sit?"
)
maths = build_math_graph(model, checkpointer=checkpointer)
solved = run(maths, problem, "chairs")
answer = re.sub(r"\\text\{([^}]*)\}", r"\1", solved["answer"])  # formulas in LaTeX, as plain text
answer = re.sub(r"\s*\\\[\s*", " ", re.sub(r"\s*\\\]", "", answer)).replace("\\times", "×").replace("####", "→")
Markdown(f"{answer}\n\n{solved['stop_reason']} by {solved['accepted_by']}: {extract_number(solved['answer'])}")

# %% [markdown]
# The first draft said 417: it took 15 chairs off those of all 18 rows. Three programs agreed on another number, which
# is the answer, with one of them to look at.

# %%
scores(Thread(maths, "chairs"))

# %% [markdown]
# ## 2 · `reasoning`: draft, critique, improve
#
# N iterations are 1 + 2N model calls, unless somebody accepts a text before. Here documents of a folder are looked up
# for the topic, and a program looks whether the answer names the lamp and the time. The first draft does, so nothing is
# paid for a critique and an improvement. The same steps are arrows that compose with `|`, and a pipe language.

# %%
from redraft import build_reasoning_graph, uses_words
from redraft.retrieval import folder_index

reasoning = build_reasoning_graph(
    model,
    iterations=2,
    documents=folder_index("../examples/harbour"),
    verifiers=[uses_words("lamp", "dusk")],
    checkpointer=checkpointer,
)
reasoned = run(reasoning, "When is the lamp lit?", "harbour")
Markdown(f"> {reasoned['answer']}\n\n{reasoned['stop_reason']} by {reasoned['accepted_by']}")

# %%
timeline(Thread(reasoning, "harbour"))

# %% [markdown]
# ## 3 · `retrieval`: a search that refines its own queries
#
# The folder with redraft's own documentation, searched by words and by vectors, without a network and without a model.

# %%
import warnings

from redraft import build_retrieval_graph
from redraft.retrieval import retrieval_result

warnings.filterwarnings("ignore", message="left out")  # its schemas, which are JSON
search = build_retrieval_graph("../docs", confidence_threshold=0.4, top_k=3)
found = retrieval_result(search.invoke({"task": "How do I fork a thread, and when does a run stop?"}))
table = ["| score | page | under |", "|---|---|---|"]
table += [f"| {one.score:.2f} | {one.source} | {one.heading} |" for one in found.results]
Markdown(f"Searched for: {'; '.join(found.plan['queries'])}\n\n" + "\n".join(table))

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
Markdown(f"> {answered['answer']}\n\n{answered['stop_reason']}, scored {answered['score']:.1f}")

# %% [markdown]
# A wrong answer, and the critic said so. The revision was the same sentence again, so the run stopped for want of
# progress, and nobody was paid to judge it twice: the answer comes with its score, and with no word that accepts it.

# %%
show(agent)

# %% [markdown]
# ## 5 · `rubric`: answers on weighted dimensions
#
# A dimension is judged by the model or by a function; the weighted mean is the score.

# %%
from redraft import build_rubric_graph
from redraft.nodes import Dimension, Rubric


def brevity(task: str, draft: str) -> tuple[float, str]:
    words = len(draft.split())
    return min(1.0, 20 / max(words, 1)), f"{words} words; 20 would do"


rubric = Rubric(dimensions=(Dimension(name="brevity", weight=1), Dimension(name="relevance", weight=2)))
rated = build_rubric_graph(model, rubric=rubric, judges={"brevity": brevity}, threshold=0.7, checkpointer=checkpointer)
scored = run(rated, "What is a delta?", "delta", max_rounds=1)
Markdown(f"> {scored['answer']}\n\n{scored['stop_reason']}, scored {scored['score']:.2f}")

# %% [markdown]
# Long, but to the point: that is enough for the 0.7 that is wanted. With a higher threshold the model is told which
# dimension is weak, and what was said about it.

# %%
timeline(Thread(rated, "delta"))
