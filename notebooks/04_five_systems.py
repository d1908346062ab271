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
# same way, and for nothing; those of the second system, to an earlier wording of its prompts, are read one after the
# other. To use a model of yours, change the text in `chat_model`.

# %%
import os

os.environ["LANGGRAPH_STRICT_MSGPACK"] = "true"

from IPython.display import Markdown
from redraft import Thread, chat_model, open_checkpointer
from redraft.faces import diff, scores, show, timeline

model = chat_model("replay:replies.sqlite", max_output_tokens=300)  # or "openai:gpt-5-mini", …
checkpointer = open_checkpointer("memory").open()


def run(graph, task, thread_id, **limits):
    return graph.invoke({"task": task, "limits": limits}, {"configurable": {"thread_id": thread_id}})


# %% [markdown]
# ## 1 · `math`: Self-Refine on word problems
#
# A solution is accepted when a program that the model wrote without seeing it gives the same number.

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
# The first draft said 417: it took 15 chairs off those of all 18 rows. The programs said otherwise, so it was revised.

# %%
scores(Thread(maths, "chairs"))

# %% [markdown]
# ## 2 · `reasoning`: draft, critique, improve
#
# N iterations are 1 + 2N model calls. The same steps are arrows that compose with `|`, and a pipe language. What an
# iteration changed, and why:

# %%
from redraft import build_reasoning_graph

topic = "Explain in three sentences to a new colleague what a checkpoint of a running program is good for."
recorded = chat_model("scripted:checkpoint_replies.jsonl")  # or `model`
reasoning = build_reasoning_graph(recorded, iterations=1, checkpointer=checkpointer)
run(reasoning, topic, "checkpoint")
diff(Thread(reasoning, "checkpoint"), before=0, after=1)

# %% [markdown]
# Nobody judges the last text: the critic missed evidence, and the text got shorter without any. `threshold=` has it
# judged, and goes on until the score is reached.

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
table = ["| similarity | page | under |", "|---|---|---|"]
table += [f"| {one.similarity:.2f} | {one.source} | {one.heading} |" for one in found.results]
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
from redraft.nodes import Dimension, Rubric, refinement_metadata


def brevity(task: str, draft: str) -> tuple[float, str]:
    words = len(draft.split())
    return min(1.0, 40 / max(words, 1)), f"{words} words; 40 would do"


rubric = Rubric(dimensions=(Dimension(name="brevity", weight=2), Dimension(name="relevance", weight=1)))
rated = build_rubric_graph(model, rubric=rubric, judges={"brevity": brevity}, threshold=0.9, checkpointer=checkpointer)
scored = run(rated, "How do I keep bread fresh for a week?", "bread", max_rounds=2)
better = ", ".join(refinement_metadata(scored)["quality_dimensions_improved"])
Markdown(f"> {scored['answer']}\n\n{scored['stop_reason']}, scored {scored['score']:.2f}; better in {better}")

# %%
timeline(Thread(rated, "bread"))

# %% [markdown]
# From 227 words to 38:

# %%
diff(Thread(rated, "bread"))
