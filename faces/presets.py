"""The graphs that the shell and LangGraph's server know by name, and how each is built from what a user named."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["PRESETS", "build_preset", "checked_preset"]

PRESETS = (
    "refine",
    "branching",
    "math",
    "code",
    "writing",
    "agent",
    "reasoning",
    "retrieval",
    "rubric",
    "travel",
    "zero-shot",
    "few-shot",
    "majority-N",
)
"""Names of the presets and of the baselines of `math`; `majority-N` stands for `majority-5` and its like."""

ONLY_FOR = {
    "folder": ("agent", "reasoning", "retrieval"),
    "passages": ("agent", "reasoning", "retrieval", "pipeline"),
    "tools": ("agent",),
    "threshold": ("reasoning", "retrieval", "rubric", "travel", "pipeline"),
    "paths": ("branching",),
    "depth": ("branching",),
    "beam": ("branching",),
    "human": ("refine", "math", "code", "writing", "agent", "retrieval", "rubric", "travel"),
}
"""Options that only some graphs know."""
OPTION_OF = {"folder": "dir", "tools": "tool"}

TOOLS = ("calculate", "run_python", "search")
"""What an agent on the shell can be given."""

MAJORITY = re.compile(r"majority-([1-9][0-9]{0,2})")


def checked_preset(name: str) -> str:
    """Return the name.

    Raises:
        ValueError: There is no such graph.
    """
    if (name in (*PRESETS, "pipeline") and name != "majority-N") or MAJORITY.fullmatch(name):
        return name
    raise ValueError(f"there is no graph {name!r}; known are {', '.join(PRESETS)}")


def build_preset(name: str, model: Any, *, critics: Sequence[Any], verifiers: Sequence[Any], **options: Any) -> Any:
    """Return the graph.

    Args:
        name: One of `PRESETS`.
        model: Writes.
        critics: Models that judge, `"self"` for the writer, or a name that the preset knows.
        verifiers: Programs that judge.
        options: As `build_refine_graph` takes them.

    Raises:
        ValueError: The preset has no use for a critic or verifier that was named, or as its builder.
    """
    builders: dict[str, Callable[..., Any]] = {
        "refine": _refine,
        "branching": _branching,
        "math": _math,
        "code": _code,
        "writing": _writing,
        "agent": _agent,
        "reasoning": _reasoning,
        "retrieval": _retrieval,
        "rubric": _rubric,
        "travel": _travel,
        "pipeline": _pipeline,
    }
    for option, presets in ONLY_FOR.items():
        if option in options and name not in presets:
            raise ValueError(f"--{OPTION_OF.get(option, option)} is for --graph {', '.join(presets)}")
    return builders.get(name, partial(_baseline, name))(model, critics, verifiers, options)


def _refine(model: Any, critics: Sequence[Any], verifiers: Sequence[Any], options: dict[str, Any]) -> Any:
    from ..graphs.loop import build_refine_graph

    every = [*_verifier_critics(verifiers), *_model_critics(model, critics, options), *_people(options)]
    return build_refine_graph(model, critics=every or None, **options)


def _branching(model: Any, critics: Sequence[Any], verifiers: Sequence[Any], options: dict[str, Any]) -> Any:
    from ..graphs.branching import build_branching_graph

    named = {"paths": "branching_factor", "beam": "beam_width"}
    every = [*_verifier_critics(verifiers), *_model_critics(model, critics, options)]
    options = {named.get(option, option): value for option, value in options.items()}
    return build_branching_graph(model, critics=every or None, **options)


def _math(model: Any, critics: Sequence[Any], verifiers: Sequence[Any], options: dict[str, Any]) -> Any:
    from ..graphs.math_problems import build_math_graph

    _no_use(verifiers, "--verify", "math: its solutions are judged by --critic program, self or a model")
    return build_math_graph(model, critic=[*(critics or ["program"]), *_people(options)], **options)


def _code(model: Any, critics: Sequence[Any], verifiers: Sequence[Any], options: dict[str, Any]) -> Any:
    from ..graphs.code_problems import build_code_graph

    _no_use(verifiers, "--verify", "code: write the tests into the task, as `>>> f(1)` examples or as asserts")
    _no_use(critics, "--critic", "code: its tests decide, and where a task has none the writer itself")
    return build_code_graph(model, critics=_people(options) or None, **options)


def _writing(model: Any, critics: Sequence[Any], verifiers: Sequence[Any], options: dict[str, Any]) -> Any:
    from ..graphs.writing import build_writing_graph

    built = [*_model_critics(model, critics, options), *_people(options)]
    return build_writing_graph(model, verifiers=verifiers, critics=built or None, **options)


def _agent(model: Any, critics: Sequence[Any], verifiers: Sequence[Any], options: dict[str, Any]) -> Any:
    from ..graphs.agent import build_agent_graph

    if "program" in critics:
        raise ValueError("--critic program is for --graph math")
    judges = [model if one == "self" else one for one in critics]
    tools = _tools(options.pop("tools", ()), options.pop("folder", None), options.pop("passages", 4))
    if refiner_prompt := options.pop("refine_prompt", None):
        options["refiner_prompt"] = refiner_prompt
    given = [*_verifier_critics(verifiers), *judges, *_people(options)] or None
    return build_agent_graph(model=model, tools=tools, critic=given, **options)


def _tools(names: Sequence[str], folder: str | None, passages: int) -> list[Any]:
    from ..nodes.agents.critic_tools import calculator_tool, python_tool, search_tool

    if unknown := [name for name in names if name not in TOOLS]:
        raise ValueError(f"there is no tool {unknown[0]!r}; known are {', '.join(TOOLS)}")
    if ("search" in names) != (folder is not None):
        raise ValueError("--tool search and --dir FOLDER belong together: it searches the folder's files")
    found = []
    for name in dict.fromkeys(names):
        if name == "calculate":
            found.append(calculator_tool())
        elif name == "run_python":
            from ..nodes.sandbox import Sandbox

            found.append(python_tool(Sandbox()))
        else:
            from ..nodes.retrieval.index import folder_index

            found.append(search_tool(folder_index(str(folder), top_k=passages)))
    return found


def _reasoning(model: Any, critics: Sequence[Any], verifiers: Sequence[Any], options: dict[str, Any]) -> Any:
    from ..graphs.reasoning import build_reasoning_graph
    from ..nodes.retrieval.index import folder_index

    _no_use(verifiers, "--verify", "reasoning: nothing is accepted there but by a --threshold")
    k = options.pop("passages", 4)
    if folder := options.pop("folder", None):
        options |= {"documents": folder_index(folder, top_k=k), "k": k}
    return build_reasoning_graph(model, critic=_one_critic(critics, "reasoning"), **options)


def _retrieval(model: Any, critics: Sequence[Any], verifiers: Sequence[Any], options: dict[str, Any]) -> Any:
    from ..graphs.retrieval import build_retrieval_graph

    _no_use(verifiers, "--verify", "retrieval: the similarity of what was found decides")
    if any(critic != "self" for critic in critics):
        raise ValueError("in retrieval --critic is self, which lets --model plan and refine the queries")
    folder = options.pop("folder", None)
    if folder is None:
        raise ValueError("retrieval needs a --dir: the folder whose text and Markdown files are searched")
    named = {"passages": "top_k", "threshold": "confidence_threshold"}
    if people := _people(options):
        options["critics"] = people
    options = {named.get(option, option): value for option, value in options.items()}
    return build_retrieval_graph(folder, model=model, use_llm=bool(critics), **options)


def _rubric(model: Any, critics: Sequence[Any], verifiers: Sequence[Any], options: dict[str, Any]) -> Any:
    from ..graphs.rubric import build_rubric_graph

    _no_use(verifiers, "--verify", "rubric: its overall score decides")
    return build_rubric_graph(model, judge=_panel(model, critics), critics=_people(options), **_judged(options))


def _travel(model: Any, critics: Sequence[Any], verifiers: Sequence[Any], options: dict[str, Any]) -> Any:
    from ..graphs.travel import build_travel_graph

    _no_use(verifiers, "--verify", "travel: its overall score decides")
    return build_travel_graph(model, judge=_panel(model, critics), critics=_people(options), **_judged(options))


def _panel(model: Any, critics: Sequence[Any]) -> list[Any] | None:
    """Return the models that judge; several vote."""
    if "program" in critics:
        raise ValueError("--critic program is for --graph math")
    return [model if one == "self" else one for one in critics] or None


def _judged(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options with the critic's prompt under the name that a rubric knows it by."""
    return {"judge_prompt" if name == "critic_prompt" else name: value for name, value in options.items()}


def _pipeline(model: Any, critics: Sequence[Any], verifiers: Sequence[Any], options: dict[str, Any]) -> Any:
    from ..graphs.pipeline import build_pipeline_graph

    _no_use(verifiers, "--verify", "a pipeline")
    if "steps" not in options:
        raise ValueError("a pipeline is run with `redraft pipeline`, which takes its steps")
    steps = options.pop("steps")
    k = options.pop("passages", 4)
    return build_pipeline_graph(steps, model, critic=_one_critic(critics, "a pipeline"), k=k, **options)


def _one_critic(critics: Sequence[Any], where: str) -> Any:
    if len(critics) > 1 or "program" in critics:
        raise ValueError(f"in {where} one model criticises: give --critic once, a model or self")
    return None if not critics or critics[0] == "self" else critics[0]


def _baseline(name: str, model: Any, critics: Sequence[Any], verifiers: Sequence[Any], options: dict[str, Any]) -> Any:
    from ..graphs.math_problems import build_few_shot_graph, build_majority_graph, build_zero_shot_graph

    _no_use([*critics, *verifiers], "--critic and --verify", f"{name}: nobody judges a baseline")
    if found := MAJORITY.fullmatch(name):
        return build_majority_graph(model, samples=int(found[1]), **options)
    return {"zero-shot": build_zero_shot_graph, "few-shot": build_few_shot_graph}[name](model, **options)


def _verifier_critics(verifiers: Sequence[Any]) -> list[Any]:
    from ..nodes.critics.critics import verifier_critic

    return [verifier_critic(check) for check in verifiers]


def _model_critics(model: Any, critics: Sequence[Any], options: dict[str, Any]) -> list[Any]:
    from ..nodes.critics.critics import model_critic

    if "program" in critics:
        raise ValueError("--critic program is for --graph math")
    prompt = options.pop("critic_prompt", None) if critics else None
    return [model_critic(model if critic == "self" else critic, prompt=prompt) for critic in critics]


def _people(options: dict[str, Any]) -> list[Any]:
    """Return the person who is asked after all others, where one is wanted."""
    from ..nodes.critics.critics import human_critic

    return [human_critic()] if options.pop("human", False) else []


def _no_use(given: Sequence[Any], option: str, why: str) -> None:
    if given:
        raise ValueError(f"{option} has no use in {why}")
