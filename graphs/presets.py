"""redraft's own presets, as the registry holds them: each with its options, and how its builder is called. Internal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from .preset import Option, Preset, Served

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["COMMON", "PRESETS"]

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
    Option("generate_prompt", str),
    Option("refine_prompt", str),
    Option("critic_prompt", str),
    Option("keep", Literal["best", "last", "vote"]),
    Option("memory", Literal["all", "last"], default="all"),
    Option("judge_last", bool, default=True),
)
"""Options that every preset takes."""

FOLDER = Option(
    "folder",
    Path,
    "--dir",
    "Documents to look passages up in.",
    metavar="FOLDER",
    reaches="show the model files of the folder {}",
)
INDEX = Option(
    "index",
    str,
    "--index",
    "A stored index to look passages up in, as `redraft index` makes it.",
    metavar="NAME",
    reaches="show the model passages of your index {}",
)
TOOLS = Option(
    "tools",
    tuple[str, ...],
    "--tool",
    "A tool: calculate, run_python, or search (with --dir or --index); may be repeated.",
    metavar="NAME",
    default=(),
)
TOOL_CALLS = Option(
    "max_calls",
    int,
    "--max-tool-calls",
    "Tool calls that an agent may make for an answer; default 50.",
    metavar="N",
    least=1,
)
REVISE_WITH_TOOLS = Option(
    "revise_with_tools",
    bool,
    "--revise-with-tools",
    "The agent itself revises its answers, with its tools; else the model does, without.",
    default=False,
)
SEARCH = Option(
    "search",
    Literal["hybrid", "vectors", "words"],
    "--search",
    "hybrid: by vectors and by words (BM25); or by one of them.",
    metavar="HOW",
    default="hybrid",
)
PASSAGES = Option("passages", int, "--passages", "Passages looked up for a query, at most.", metavar="K", least=1)
EMBEDDING = Option(
    "embedding",
    str,
    "--embedding",
    "Indexes the passages: static, minilm (slower, reads words in context), or openai:NAME.",
    metavar="MODEL",
)
RERANK = Option(
    "rerank",
    str,
    "--rerank",
    "Orders what was found: minilm (default), another embedding model, or none.",
    metavar="MODEL",
)
ANSWER = Option(
    "answer",
    bool,
    "--answer",
    "Have the model answer by what was found, in sentences that cite it; each citation is checked.",
    default=False,
)
THRESHOLD = Option(
    "threshold", float, "--threshold", "Score, 0–1, from which it is done.", metavar="SCORE", least=0, most=1
)
PATHS = Option("paths", int, "--paths", "Drafts, and revisions of each in a level (default: 3).", metavar="N", least=1)
DEPTH = Option("depth", int, "--depth", "Levels of revisions (default: 2).", metavar="N", least=0)
BEAM = Option("beam", int, "--beam", "Paths that go on from a level (default: 1).", metavar="N", least=1)
EVIDENCE_PROMPT = Option("evidence_prompt", str)
PROGRAM_PROMPTS = Option("program_prompts", tuple[str, ...], default=())
CLAUSE_PROMPT = Option("clause_prompt", str)
HUMAN = Option(
    "human",
    bool,
    "--human",
    "Ask you about each draft, after all others: accept, edit, give feedback or stop.",
    default=False,
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
FUNCTIONS = Option("functions", tuple[str, ...], default=())
STEPS = Option(
    "steps",
    str,
    reaches="show the model files of the folders and indexes that its pipeline looks in, and open files it names: {}",
)


# Each builder imports its graph when it is called: a help page lists all presets and must not import langgraph.
def _refine(model: Any, critics: Sequence[Any], verifiers: Sequence[Any], **options: Any) -> Any:
    from .loop import build_refine_graph

    # Cheapest first: programs, then models, then the person; where there are none, the model judges itself.
    every = [
        *(*_verifier_critics(verifiers), *_judge(options)),
        *(*_model_critics(model, critics, options), *_people(options)),
    ]
    return build_refine_graph(model, critics=every or _itself(model, options), **options)


def _branching(model: Any, critics: Sequence[Any], verifiers: Sequence[Any], **options: Any) -> Any:
    from .branching import build_branching_graph

    every = [*_verifier_critics(verifiers), *_model_critics(model, critics, options)]
    options = _renamed(options, paths="branching_factor", beam="beam_width")
    return build_branching_graph(model, critics=every or _itself(model, options), **options)


def _adaptive(model: Any, critics: Sequence[Any], verifiers: Sequence[Any], **options: Any) -> Any:
    from .adaptive import build_adaptive_graph

    evidence = _verifier_critics(verifiers)
    if "program" in critics:
        from ..nodes.critics.program_critic import program_critic
        from ..nodes.sandbox import Sandbox

        evidence.append(program_critic(model, Sandbox()))
    if "tests" in critics:
        from ..nodes.critics.critics import verifier_critic
        from ..nodes.sandbox import Sandbox
        from ..nodes.verify.code_checks import passes_visible_tests

        evidence.append(verifier_critic(passes_visible_tests(Sandbox())))
    evidence += _model_critics(model, [one for one in critics if one not in ("program", "tests")], options)
    if not evidence:
        raise ValueError(
            "adaptive chooses by evidence: give --verify, --critic program for numbers, or --critic tests for code"
        )
    return build_adaptive_graph(model, critics=[*evidence, *_people(options)], **options)


def _math(model: Any, critics: Sequence[Any], verifiers: Sequence[Any], **options: Any) -> Any:
    from .math_problems import build_math_graph

    judge = _judge(options)
    every = [*judge, *(critics or ([] if judge else ["program"])), *_people(options)]
    return build_math_graph(model, critic=every, **options)


def _code(model: Any, critics: Sequence[Any], verifiers: Sequence[Any], **options: Any) -> Any:
    from .code_problems import build_code_graph

    return build_code_graph(model, critics=_people(options) or None, **options)


def _writing(model: Any, critics: Sequence[Any], verifiers: Sequence[Any], **options: Any) -> Any:
    from .writing import build_writing_graph

    every = [*_model_critics(model, critics, options), *_people(options)]
    return build_writing_graph(model, verifiers=verifiers, critics=every or None, **options)


def _agent(model: Any, critics: Sequence[Any], verifiers: Sequence[Any], **options: Any) -> Any:
    from .agent import MAX_CALLS, build_agent_graph

    tools = _tools(options.pop("tools", ()), options)
    every = [*_verifier_critics(verifiers), *_models(model, critics), *_people(options)]
    options = _renamed(options, refine_prompt="refiner_prompt")
    if options.pop("revise_with_tools", False):
        options["refine"] = "base"
    if functions := options.pop("functions", ()):
        from ..nodes.agents.react import react_agent

        given = [json.loads(spec) for spec in functions]
        base = react_agent(model, tools, functions=given, max_calls=options.pop("max_calls", MAX_CALLS))
        return build_agent_graph(base, model=model, critic=every or None, **options)
    return build_agent_graph(model=model, tools=tools, critic=every or None, **options)


def _searched(options: dict[str, Any], *, top_k: int) -> Any:
    """Return what searches the --dir or --index, which are taken out of the options; `None` where neither is given."""
    folder, index = options.pop("folder", None), options.pop("index", None)
    if folder is not None and index is not None:
        raise ValueError("--dir and --index both say what is searched: give one of them")
    if index is not None:
        from ..nodes.retrieval import open_index

        return open_index(index, top_k=top_k)
    if folder is not None:
        from ..nodes.retrieval import folder_index

        return folder_index(str(folder), top_k=top_k)
    return None


def _tools(names: Sequence[str], options: dict[str, Any]) -> list[Any]:
    from ..nodes.agents.tool_critics import calculator_tool, python_tool, search_tool

    known = ("calculate", "run_python", "search")
    if unknown := [name for name in names if name not in known]:
        raise ValueError(f"there is no tool {unknown[0]!r}; known are {', '.join(known)}")
    passages = options.pop("passages", 4)
    if ("search" in names) != ("folder" in options or "index" in options):
        raise ValueError("--tool search and --dir FOLDER, or --index NAME, belong together: that is what it searches")
    found = []
    for name in dict.fromkeys(names):
        if name == "calculate":
            found.append(calculator_tool())
        elif name == "run_python":
            from ..nodes.sandbox import Sandbox

            found.append(python_tool(Sandbox()))
        else:
            found.append(search_tool(_searched(options, top_k=passages)))
    return found


def _reasoning(model: Any, critics: Sequence[Any], verifiers: Sequence[Any], **options: Any) -> Any:
    from .reasoning import build_reasoning_graph

    if verifiers:
        if critics:
            raise ValueError("in reasoning programs judge alone: give --verify or --critic")
        options["critics"] = _verifier_critics(verifiers)
    k = options.pop("passages", 4)
    searched = _searched(options, top_k=k)
    if searched is not None:
        from ..nodes.retrieval import measured

        options |= {"documents": measured(searched), "k": k}
    return build_reasoning_graph(model, critic=_other_model(critics), **options)


def _retrieval(model: Any, critics: Sequence[Any], verifiers: Sequence[Any], **options: Any) -> Any:
    from .retrieval import build_retrieval_graph

    if any(critic != "self" for critic in critics):
        raise ValueError("in retrieval --critic is self, which lets --model plan and refine the queries")
    sources, index = options.pop("folder", None), options.pop("index", None)
    if (sources is None) == (index is None):
        raise ValueError("retrieval needs a --dir, the folder whose documents are searched, or the name of an --index")
    if people := _people(options):
        options["critics"] = people
    options = _renamed(options, passages="top_k", threshold="confidence_threshold", embedding="embeddings")
    if options.get("rerank") == "none":
        options["rerank"] = None
    by = options.pop("search", "hybrid")
    options |= {"hybrid": by != "vectors", "vectors": by != "words"}
    if index is not None:
        from ..nodes.retrieval import open_index

        own = {"hybrid": options["hybrid"], "vectors": options["vectors"]}
        sources = open_index(index, embeddings=options.get("embeddings"), top_k=options.get("top_k", 5), **own)
        if sources.embeddings is not None:
            options["embeddings"] = sources.embeddings
    return build_retrieval_graph(sources, model=model, use_llm=bool(critics), **options)


def _rubric(model: Any, critics: Sequence[Any], verifiers: Sequence[Any], **options: Any) -> Any:
    from .rubric import build_rubric_graph

    options = _renamed(options, critic_prompt="judge_prompt")
    return build_rubric_graph(model, judge=_models(model, critics) or None, critics=_people(options), **options)


def _travel(model: Any, critics: Sequence[Any], verifiers: Sequence[Any], **options: Any) -> Any:
    from .travel import build_travel_graph

    options = _renamed(options, critic_prompt="judge_prompt")
    return build_travel_graph(model, judge=_models(model, critics) or None, critics=_people(options), **options)


def _unrefined_travel(model: Any, checkpointer: Any) -> Any:
    from .travel import build_travel_graph

    return build_travel_graph(model, enabled=False, checkpointer=checkpointer)


def _zero_shot(model: Any, critics: Sequence[Any], verifiers: Sequence[Any], **options: Any) -> Any:
    from .math_problems import build_zero_shot_graph

    return build_zero_shot_graph(model, **options)


def _few_shot(model: Any, critics: Sequence[Any], verifiers: Sequence[Any], **options: Any) -> Any:
    from .math_problems import build_few_shot_graph

    return build_few_shot_graph(model, **options)


def _majority(model: Any, critics: Sequence[Any], verifiers: Sequence[Any], *, n: int, **options: Any) -> Any:
    from .math_problems import build_majority_graph

    return build_majority_graph(model, samples=n, **options)


def _pipeline(model: Any, critics: Sequence[Any], verifiers: Sequence[Any], **options: Any) -> Any:
    from .pipeline import build_pipeline_graph

    if "steps" not in options:
        raise ValueError("a pipeline is run with `redraft pipeline`, which takes its steps")
    options = _renamed(options, passages="k")
    return build_pipeline_graph(options.pop("steps"), model, critic=_other_model(critics), **options)


def _verifier_critics(verifiers: Sequence[Any]) -> list[Any]:
    from ..nodes.critics.critics import verifier_critic

    return [verifier_critic(check) for check in verifiers]


def _model_critics(model: Any, critics: Sequence[Any], options: dict[str, Any]) -> list[Any]:
    """Return the models that judge as critics; a prompt of theirs is taken out of the options."""
    from ..nodes.critics.critics import model_critic

    # Without a critic it stays among the options: the builder's default critic takes it.
    prompt = options.pop("critic_prompt", None) if critics else None
    return [model_critic(one, prompt=prompt) for one in _models(model, critics)]


def _itself(model: Any, options: dict[str, Any]) -> list[Any]:
    """Return the model as its own judge; the builder's default would log what every face shows with the answer."""
    from ..nodes.critics.critics import model_critic

    return [model_critic(model, prompt=options.pop("critic_prompt", None))]


def _models(model: Any, critics: Sequence[Any]) -> list[Any]:
    return [model if critic == "self" else critic for critic in critics]


def _other_model(critics: Sequence[Any]) -> Any:
    """Return the one model that criticises; `None` where it is the writer."""
    return None if not critics or critics[0] == "self" else critics[0]


def _judge(options: dict[str, Any]) -> list[Any]:
    """Return the calibrated judge, where one is given, as a critic."""
    return [judge] if (judge := options.pop("judge", None)) is not None else []


def _people(options: dict[str, Any]) -> list[Any]:
    """Return the person who is asked after all others, where one is wanted."""
    from ..nodes.critics.critics import human_critic

    # Taken out, since no builder has an option of this name.
    return [human_critic()] if options.pop("human", False) else []


def _renamed(options: dict[str, Any], **names: str) -> dict[str, Any]:
    return {names.get(option, option): value for option, value in options.items()}


UNJUDGED = "nobody judges a baseline"
BASELINE: dict[str, Any] = {"no_critics": UNJUDGED, "no_verifiers": UNJUDGED, "conversation": "system"}

PRESETS = (
    Preset(
        "refine",
        "Drafts, judges and revises; the model judges itself.",
        _refine,
        options=(HUMAN, JUDGE),
        conversation="messages",
        serves=(
            Served("refine"),
            Served(
                "refine-with-a-person",
                "The same, and a person is asked about each draft after the model has judged it.",
                {"critics": ("self",), "human": True},
            ),
        ),
    ),
    Preset(
        "branching",
        "Searches over drafts and revisions side by side, of which the best go on.",
        _branching,
        options=(PATHS, DEPTH, BEAM),
        paths_as="refine",
        serves=(),
    ),
    Preset(
        "adaptive",
        "Judges one draft by evidence, then samples or revises by what has worked.",
        _adaptive,
        options=(HUMAN,),
        critic_names=("program", "tests"),
        serves=(),
    ),
    Preset(
        "math",
        "Word problems: an independently written program must agree.",
        _math,
        options=(HUMAN, JUDGE, EVIDENCE_PROMPT, PROGRAM_PROMPTS),
        critic_names=("program",),
        no_verifiers="its solutions are judged by --critic program, self or a model",
        conversation="system",
    ),
    Preset(
        "code",
        "Python functions, judged by the examples and asserts in the task.",
        _code,
        options=(HUMAN, EVIDENCE_PROMPT),
        no_critics="its tests decide, and where a task has none the writer itself",
        no_verifiers="write the tests into the task, as `>>> f(1)` examples or as asserts",
        conversation="system",
    ),
    Preset(
        "writing",
        "Texts; the model judges itself.",
        _writing,
        options=(HUMAN, CLAUSE_PROMPT),
        serves=(Served("writing", tool="write"),),
    ),
    Preset(
        "agent",
        "An agent that can calculate, whose answer is judged and refined.",
        _agent,
        options=(FOLDER, INDEX, TOOLS, TOOL_CALLS, REVISE_WITH_TOOLS, PASSAGES, HUMAN, FUNCTIONS),
        serves=(Served("agent", recipe={"tools": ("calculate",)}),),
        conversation="messages",
    ),
    Preset(
        "reasoning",
        "Drafts, criticises and improves three times.",
        _reasoning,
        options=(FOLDER, INDEX, PASSAGES, THRESHOLD),
        one_critic=True,
    ),
    Preset(
        "retrieval",
        "Searches a folder's files, refining its queries.",
        _retrieval,
        options=(FOLDER, INDEX, PASSAGES, EMBEDDING, RERANK, THRESHOLD, SEARCH, ANSWER, HUMAN),
        no_verifiers="the similarity of what was found decides",
        # It searches by rules, so that it runs without a key and fetches no model.
        needs_model=False,
        model_for=("answer",),
        serves=(
            Served(
                "retrieval",
                "Searches the server's documents, refining its queries.",
                documents="folder",
                tool="retrieve",
            ),
        ),
        conversation="none",
    ),
    Preset(
        "rubric",
        "Scores its answers on four weighted dimensions.",
        _rubric,
        options=(THRESHOLD, HUMAN),
        no_verifiers="its overall score decides",
    ),
    Preset(
        "travel",
        "Plans trips.",
        _travel,
        options=(THRESHOLD, HUMAN),
        no_verifiers="its overall score decides",
        serves=(
            Served("travel"),
            Served(
                # For the demonstration, which compares the two. Only Python builds it, so it has no recipe.
                "travel-unrefined",
                "Plans trips, and judges and revises nothing.",
                build=_unrefined_travel,
                listed=False,
            ),
        ),
    ),
    Preset("zero-shot", "The baseline of one call.", _zero_shot, serves=(Served("zero-shot", tool=""),), **BASELINE),
    Preset(
        "few-shot",
        "The baseline of one call after worked examples.",
        _few_shot,
        serves=(Served("few-shot", tool=""),),
        **BASELINE,
    ),
    Preset(
        "majority-N",
        "The baseline of N samples and a vote.",
        _majority,
        serves=(Served("majority-5", "The baseline of five samples and a vote.", {"preset": "majority-5"}, tool=""),),
        **BASELINE,
    ),
    Preset(
        "pipeline",
        "Drafts, criticises and improves in the steps that one writes down.",
        _pipeline,
        options=(PASSAGES, THRESHOLD, STEPS),
        one_critic=True,
        no_verifiers="a program is a step of it: EvaluateQuality('uses_words:A,B')",
        own_command="pipeline",
        forks_as="reasoning",
        serves=(),
    ),
)
