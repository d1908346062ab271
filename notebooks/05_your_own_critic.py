# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Your own critic
#
# A critic is any callable `(task, draft, history) → Critique`, a verifier any callable `(task, draft) → Critique`. This
# notebook writes one, tests it on labelled drafts before trusting it, and puts it to work beside a model.
#
# Replies are recorded, as in the notebook before; to use a model of yours, change the text in `chat_model`.

# %%
import os

os.environ["LANGGRAPH_STRICT_MSGPACK"] = "true"

import re

from redraft import Critique, Thread, build_refine_graph, chat_model, model_critic, open_checkpointer, verifier_critic
from redraft.faces import diff, timeline

model = chat_model("replay")  # or "openai:gpt-5-mini", …

# %% [markdown]
# ## A verifier
#
# Release notes should say what a user can do now: bullet points that begin with a verb and have at most 10 words, and
# no word of praise. The critique says what is wrong and where; the score, from 0 to 1, tells better drafts from worse
# ones, so that the best is kept when none is accepted.

# %%
VERBS = ("Add", "Change", "Copy", "Edit", "Export", "Find", "Keep", "Open", "Save", "Send", "Share", "Undo", "Work")
PRAISE = re.compile(
    r"\b(easily|effortless(?:ly)?|enhanced|exciting|improved|powerful|quick(?:ly)?|robust|seamless(?:ly)?|simply)\b",
    re.I,
)


def plain_release_notes(task: str, draft: str) -> Critique:
    lines = [line.strip() for line in draft.splitlines() if line.strip()]
    points = [line for line in lines if line.startswith("- ")]
    faults = [f"{line!r} is no bullet point; begin it with '- '." for line in lines if line not in points]
    faults += [f"{line!r} does not begin with a verb." for line in points if line[2:].split(" ")[0] not in VERBS]
    faults += [f"{line!r} has more than 10 words." for line in points if len(line.split()) > 11]
    faults += [f"{match.group()!r} is praise; say what a user can do." for match in PRAISE.finditer(draft)]
    if not points:
        faults.append("There are no bullet points.")
    return Critique("\n".join(faults[:3]), accepted=not faults, score=1 / (1 + len(faults)))


# %% [markdown]
# ## Is it right?
#
# Before a critic decides anything, try it on drafts of which you know whether they are good. A critic that accepts bad
# ones is worse than none: the loop stops there. `redraft report` measures the same on whole datasets.

# %%
LABELLED = [
    (True, "- Export a report as PDF.\n- Undo the last five changes."),
    (True, "- Find words in attachments."),
    (False, "We are excited to announce a powerful new export."),
    (False, "- The editor is improved."),
    (False, "- Sharing of files by link."),
    (
        False,
        "- Export everything that you have ever written, drawn or recorded in one single file of any format at all.",
    ),
    (False, ""),
]
verdicts = [(good, plain_release_notes("", draft).accepted) for good, draft in LABELLED]
print("accepts", sum(ok for good, ok in verdicts if not good), "of", sum(not good for good, _ in verdicts), "bad ones")
print("rejects", sum(not ok for good, ok in verdicts if good), "of", sum(good for good, _ in verdicts), "good ones")

# %% [markdown]
# ## At work
#
# Verifiers are asked first, and while one objects no model is. A model that stands beside it in `critics=` judges
# once the form is right (with `critics_after="always"` each time).

# %%
ANEW = """{task}

An earlier attempt was turned down:
{feedback}

Write the notes anew. Each line begins with '- ' and a verb, has at most 10 words, and praises nothing. Reply with the
lines only."""  # shown its draft, a small model copies it

checkpointer = open_checkpointer("memory").open()
graph = build_refine_graph(
    model,
    critics=[verifier_critic(plain_release_notes)],
    refine_prompt=ANEW,
    limits={"max_rounds": 4},
    checkpointer=checkpointer,
)
task = (
    "Write exciting release notes in three lines. What one can do now: share files by link, edit while offline, find "
    "words in pictures."
)
output = graph.invoke({"task": task}, {"configurable": {"thread_id": "notes"}})
print(output["answer"])
print("→", output["stop_reason"], output["accepted_by"])

# %%
timeline(Thread(graph, "notes"))

# %%
diff(Thread(graph, "notes"))

# %% [markdown]
# ## A model as critic
#
# With a prompt of your own. The reply must be the stop phrase and nothing else to accept: "No issues, but …" does not.

# %%
judge = model_critic(
    model,
    prompt="Could a user who reads this release note do something new with it?\n\n{draft}\n\n"
    "If so, reply with exactly: no issues. If not, say in one sentence what is missing.",
    structured=False,
)
opinion = judge(task, output["answer"], output["events"])
print(opinion.accepted, "·", opinion.text)
