"""redraft's own presets, as the registry holds them. Internal.

Builders are named by path, or imported when they are called: a help page lists all presets and must not import
langgraph. `travel_preset.py` and `retrieval_preset.py` are registered by entry points, as a package of one's own is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .preset import ASK, DOCUMENTS, HUMAN, INDEX, JUDGE, RUNGS, THRESHOLD, TOP_K, Option, Preset, Served

__all__ = ["PRESETS"]


def _refine(model: Any, critics: Sequence[Any], verifiers: Sequence[Any], **options: Any) -> Any:
    from .loop import build_refine_graph

    # Named, since the builder's own default would log what every face shows with the answer.
    judges = critics or ([] if verifiers or options.get("answer_type") is not None else [model])
    return build_refine_graph(model, critics=judges, verifiers=verifiers, **options)


def _math(model: Any, critics: Sequence[Any], verifiers: Sequence[Any], **options: Any) -> Any:
    from ..nodes.critics.critics import HumanCritic
    from .math_problems import build_math_graph

    # A person judges beside the program, not in its place.
    alone = all(isinstance(critic, HumanCritic) for critic in critics)
    return build_math_graph(model, critic=["program", *critics] if alone else critics, **options)


def _majority(model: Any, critics: Sequence[Any], verifiers: Sequence[Any], *, n: int, **options: Any) -> Any:
    from .math_problems import build_majority_graph

    return build_majority_graph(model, samples=n, **options)


def _pipeline(
    model: Any, critics: Sequence[Any], verifiers: Sequence[Any], *, pipeline: str = "", **options: Any
) -> Any:
    from .pipeline import build_pipeline_graph

    if not pipeline:
        raise ValueError("a pipeline is run with `redraft pipeline`, which takes its steps")
    return build_pipeline_graph(pipeline, model, critic=critics[0] if critics else None, **options)


UNJUDGED = "nobody judges a baseline"
BASELINE: dict[str, Any] = {"no_critics": UNJUDGED, "no_verifiers": UNJUDGED, "conversation": "system"}
EVIDENCE_PROMPT = Option("evidence_prompt", str)

PRESETS = (
    Preset(
        "refine",
        "Drafts, judges and revises; the model judges itself.",
        _refine,
        takes_checkpoints=True,
        options=(HUMAN, ASK, JUDGE, RUNGS),
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
        "redraft.graphs.branching:build_branching_graph",
        takes_checkpoints=True,
        options=(
            Option(
                "branching_factor",
                int,
                "--branching-factor",
                "Drafts, and revisions of each in a level (default: 3).",
                metavar="N",
                least=1,
                aliases=("paths",),
            ),
            Option("depth", int, "--depth", "Levels of revisions (default: 2).", metavar="N", least=0),
            Option(
                "beam_width",
                int,
                "--beam-width",
                "Paths that go on from a level (default: 1).",
                metavar="N",
                least=1,
                aliases=("beam",),
            ),
        ),
        paths_as="refine",
        serves=(),
    ),
    Preset(
        "adaptive",
        "Judges one draft by evidence, then samples or revises by what has worked.",
        "redraft.graphs.adaptive:build_adaptive_graph",
        takes_checkpoints=True,
        options=(HUMAN, ASK),
        serves=(),
    ),
    Preset(
        "math",
        "Word problems: an independently written program must agree.",
        _math,
        takes_checkpoints=True,
        options=(HUMAN, ASK, JUDGE, EVIDENCE_PROMPT, Option("program_prompts", tuple[str, ...], default=())),
        critic_names=("program",),
        no_verifiers="its solutions are judged by --critic program, self or a model",
        conversation="system",
    ),
    Preset(
        "code",
        "Python functions, judged by the examples and asserts in the task.",
        "redraft.graphs.code_problems:build_code_graph",
        takes_checkpoints=True,
        options=(HUMAN, ASK, EVIDENCE_PROMPT),
        no_critics="its tests decide, and where a task has none the writer itself",
        no_verifiers="write the tests into the task, as `>>> f(1)` examples or as asserts",
        conversation="system",
    ),
    Preset(
        "writing",
        "Texts; the model judges itself.",
        "redraft.graphs.writing:build_writing_graph",
        takes_checkpoints=True,
        options=(HUMAN, ASK, RUNGS, Option("clause_prompt", str)),
        serves=(Served("writing", tool="write"),),
    ),
    Preset(
        "agent",
        "An agent that can calculate, whose answer is judged and refined.",
        "redraft.graphs.agent:build_agent_graph",
        takes_checkpoints=True,
        options=(
            DOCUMENTS,
            INDEX,
            Option(
                "tools",
                tuple[str, ...],
                "--tool",
                "A tool: calculate, run_python, or search (with --documents or --index); may be repeated.",
                metavar="NAME",
                default=(),
            ),
            Option(
                "max_calls",
                int,
                "--max-calls",
                "Tool calls that an agent may make for an answer; default 50.",
                metavar="N",
                least=1,
                aliases=("max_tool_calls",),
            ),
            Option(
                "revise_with_tools",
                bool,
                "--revise-with-tools",
                "The agent itself revises its answers, with its tools; else the model does, without.",
                default=False,
            ),
            TOP_K,
            HUMAN,
            Option("functions", tuple[str, ...], default=()),
        ),
        serves=(Served("agent", recipe={"tools": ("calculate",)}),),
        conversation="messages",
    ),
    Preset(
        "reasoning",
        "Drafts, criticises and improves three times.",
        "redraft.graphs.reasoning:build_reasoning_graph",
        takes_checkpoints=True,
        options=(DOCUMENTS, INDEX, TOP_K, THRESHOLD),
        one_critic=True,
    ),
    Preset(
        "rubric",
        "Scores its answers on four weighted dimensions.",
        "redraft.graphs.rubric:build_rubric_graph",
        takes_checkpoints=True,
        options=(THRESHOLD, HUMAN),
        no_verifiers="its overall score decides",
    ),
    Preset(
        "zero-shot",
        "The baseline of one call.",
        "redraft.graphs.math_problems:build_zero_shot_graph",
        takes_checkpoints=True,
        serves=(Served("zero-shot", tool=""),),
        **BASELINE,
    ),
    Preset(
        "few-shot",
        "The baseline of one call after worked examples.",
        "redraft.graphs.math_problems:build_few_shot_graph",
        takes_checkpoints=True,
        serves=(Served("few-shot", tool=""),),
        **BASELINE,
    ),
    Preset(
        "majority-N",
        "The baseline of N samples and a vote.",
        _majority,
        takes_checkpoints=True,
        serves=(Served("majority-5", "The baseline of five samples and a vote.", {"preset": "majority-5"}, tool=""),),
        **BASELINE,
    ),
    Preset(
        "pipeline",
        "Drafts, criticises and improves in the steps that one writes down.",
        _pipeline,
        options=(
            TOP_K,
            THRESHOLD,
            Option(
                "pipeline",
                str,
                reaches="show the model files of the folders and indexes that its pipeline looks in, and open files it "
                "names: {}",
                aliases=("steps",),
            ),
        ),
        one_critic=True,
        no_verifiers="a program is a step of it: EvaluateQuality('uses_words:A,B')",
        own_command="pipeline",
        forks_as="reasoning",
        serves=(),
    ),
)
