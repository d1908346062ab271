"""Preset: the declaration of a graph that the shell, the server and LangGraph's Studio know by name. Internal.

Below are the options that several share: a name means one thing in all of them.

It imports no graph, so that a help page can be shown at once: a builder imports what it needs when it is called.
These are named tuples for the same reason: data classes take longer to define.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

__all__ = [
    "ASK",
    "COMMON",
    "DOCUMENTS",
    "HUMAN",
    "INDEX",
    "JUDGE",
    "RUNGS",
    "THRESHOLD",
    "TOP_K",
    "Conversation",
    "Option",
    "Preset",
    "Served",
]

Conversation: TypeAlias = Literal["all", "system", "none", "messages"]
"""What a graph is told of a chat client's conversation before its last message, which is the task. `"system"`, where
programs read the task: examples of earlier turns, or their numbers, would be taken for its own. `"messages"`: it takes
the messages as they are."""


class Option(NamedTuple):
    """An option of a preset: a parameter of its builder, a flag of `redraft run`, and a key of a run's recipe."""

    name: str
    """In all three places: `top_k` is the flag `--top-k`."""
    kind: Any
    """`int`, `float`, `bool`, `str`, `Path`, a `Literal`, or `tuple[str, ...]` for a flag that may be repeated. A
    `Path` is stored absolute, so that it is found from any folder; `dict` is the content of a judge's file, which is
    stored in place of its name."""
    flag: str = ""
    """Without one it is set in recipes only."""
    help: str = ""
    metavar: str | None = None
    least: float | None = None
    most: float | None = None
    default: Any = None
    """What is not stored, since it says nothing."""
    judging: bool = False
    """It stands on the help page with those that say who judges."""
    reaches: str = ""
    """What a recipe of somebody else's would do by it, which the user is asked about; {} stands for its value. Without
    it a `Path` would have the file or folder opened, and anything else do no harm."""
    aliases: Sequence[str] = ()
    """Its names in earlier releases: recipes, flags and callers that use one are still understood."""


class Served(NamedTuple):
    """A preset as a server and Studio offer it: a name, and what its recipe says besides preset and model."""

    name: str
    line: str = ""
    """What it does, in a sentence; default: the preset's."""
    recipe: Mapping[str, Any] = {}
    documents: str = ""
    """The option that is given the folder of documents; where a server has no such folder it does not offer this."""
    build: Callable[[Any, Any], Any] | None = None
    """`(model, checkpointer) -> graph`, for one that no recipe tells; the shell can't resume its threads."""
    listed: bool = True
    """Whether a search finds it; one that is not listed runs all the same."""
    tool: str | None = None
    """Its name as a tool of other agents, a verb; default: its name here. Empty: it is no tool."""


class Preset(NamedTuple):
    """A graph that is built from a name and options."""

    name: str
    """`NAME-N` stands for `NAME-1` to `NAME-999`, whose builder gets the number as `n=`."""
    line: str
    """What it does, in a sentence."""
    build: Callable[..., Any] | str
    """`(model, critics, verifiers, **options) -> graph`; or the path of a builder, `"my_package.haiku:build_graph"`,
    which is imported and called as `(model=…, critics=…, verifiers=…, **options)`, without those that are empty.
    Critics are chat models, callables, or texts of `critic_names`; verifiers are `(task, draft) -> Critique`. The
    options are those given of its own and of those for every preset, `prices` and `checkpointer`."""
    options: Sequence[Option] = ()
    critic_names: Sequence[str] = ()
    """Critics that it builds itself: their names come to `build` as texts, else as critics."""
    one_critic: bool = False
    """A model criticises alone: beside one `--critic` that is a model stands no other."""
    no_critics: str = ""
    """Why `--critic` has no use in it; empty: it has."""
    no_verifiers: str = ""
    """Why `--verify` has no use in it; empty: it has."""
    needs_model: bool = True
    """Where not, a model is only built if a critic is named, or for an option of `model_for`."""
    model_for: Sequence[str] = ()
    """Options that need a model."""
    own_command: str = ""
    """The command that runs it, where that is not `redraft run`."""
    forks_as: str = ""
    """The preset that a fork of its threads goes on with, where that is another one."""
    paths_as: str = ""
    """The preset of the threads that its own threads start."""
    serves: Sequence[Served] | None = None
    """How a server offers it; default: under its name, with no options."""
    conversation: Conversation = "all"
    takes_checkpoints: bool = False
    """Whether its builder takes `checkpoints`, so that runs which nobody watches save one a round."""


COMMON = (
    Option(
        "critics_after",
        Literal["undecided", "always"],
        "--critics-after",
        "undecided: verifiers decide alone; always: critics too.",
        metavar="WHEN",
        default="undecided",
        judging=True,
    ),
    Option(
        "answer_type",
        str,
        "--answer-type",
        "The answer is JSON of this type: a pydantic model, dataclass or TypedDict of yours as module:Name, or a JSON "
        "Schema in a file.",
        metavar="TYPE",
        reaches="import {}",
    ),
    Option("generate_prompt", str),
    Option("refine_prompt", str),
    Option("critic_prompt", str),
    Option("keep", Literal["best", "last", "vote"]),
    Option("memory", Literal["all", "last"], default="all"),
    Option("judge_last", bool, default=True),
    Option("tell_checks", bool, default=True),
    Option("limits", dict),
)
"""Options that every preset takes."""

DOCUMENTS = Option(
    "documents",
    Path,
    "--documents",
    "Documents to look passages up in.",
    metavar="FOLDER",
    reaches="show the model files of the folder {}",
    aliases=("folder", "dir"),
)
INDEX = Option(
    "index",
    str,
    "--index",
    "A stored index to look passages up in, as `redraft index` makes it.",
    metavar="NAME",
    reaches="show the model passages of your index {}",
)
TOP_K = Option(
    "top_k", int, "--top-k", "Passages looked up for a query, at most.", metavar="K", least=1, aliases=("passages",)
)
THRESHOLD = Option(
    "threshold", float, "--threshold", "Score, 0–1, from which it is done.", metavar="SCORE", least=0, most=1
)
RUNGS = Option(
    "rungs",
    tuple[str, ...],
    "--rung",
    "A way to mend a draft that a program rejected, in the order of these flags: mend, rewrite or sample; sample:7 may "
    "bring nothing seven times.",
    metavar="NAME",
    default=(),
)
HUMAN = Option(
    "human",
    bool,
    "--human",
    "Ask you about each draft, after all others: accept, edit, give feedback or stop.",
    default=False,
    judging=True,
)
ASK = Option(
    "ask",
    Literal["each", "unaccepted"],
    "--ask",
    "When you are asked: about each draft, or (unaccepted) only where the run would end without an accepted answer.",
    metavar="WHEN",
    default="each",
    judging=True,
)
JUDGE = Option(
    "judge",
    dict,
    "--judge",
    "A file of `redraft calibrate`: accepts only where that is rarely wrong.",
    metavar="FILE",
    judging=True,
)
