"""Graph builders: the loop, and the presets built on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazy_names

if TYPE_CHECKING:
    from .adaptive import build_adaptive_graph
    from .agent import build_agent_graph
    from .branching import Variation, build_branching_graph
    from .code_problems import build_code_graph
    from .loop import build_refine_graph
    from .many import BatchProgress, GivenUpError, ManyResult, arun_many, run_many
    from .math_problems import build_few_shot_graph, build_majority_graph, build_math_graph, build_zero_shot_graph
    from .middleware import RefineMiddleware
    from .pipeline import build_pipeline_graph
    from .preset import Option, Preset, Served
    from .reasoning import (
        InParallel,
        best_branch,
        build_reasoning_graph,
        critique,
        draft,
        improve,
        load_documents,
        refinement_loop,
        safe,
        think,
    )
    from .refining_agent import RefiningAgent
    from .rubric import DEFAULT_RUBRIC, build_rubric_graph
    from .writing import build_writing_graph, writing_task

    __all__ = [
        "DEFAULT_RUBRIC",
        "BatchProgress",
        "GivenUpError",
        "InParallel",
        "ManyResult",
        "Option",
        "Preset",
        "RefineMiddleware",
        "RefiningAgent",
        "Served",
        "Variation",
        "arun_many",
        "best_branch",
        "build_adaptive_graph",
        "build_agent_graph",
        "build_branching_graph",
        "build_code_graph",
        "build_few_shot_graph",
        "build_majority_graph",
        "build_math_graph",
        "build_pipeline_graph",
        "build_reasoning_graph",
        "build_refine_graph",
        "build_rubric_graph",
        "build_writing_graph",
        "build_zero_shot_graph",
        "critique",
        "draft",
        "improve",
        "load_documents",
        "refinement_loop",
        "run_many",
        "safe",
        "think",
        "writing_task",
    ]
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "redraft.graphs.adaptive": ["build_adaptive_graph"],
            "redraft.graphs.agent": ["build_agent_graph"],
            "redraft.graphs.branching": ["Variation", "build_branching_graph"],
            "redraft.graphs.code_problems": ["build_code_graph"],
            "redraft.graphs.loop": ["build_refine_graph"],
            "redraft.graphs.many": ["BatchProgress", "GivenUpError", "ManyResult", "arun_many", "run_many"],
            "redraft.graphs.math_problems": [
                "build_few_shot_graph",
                "build_majority_graph",
                "build_math_graph",
                "build_zero_shot_graph",
            ],
            "redraft.graphs.middleware": ["RefineMiddleware"],
            "redraft.graphs.pipeline": ["build_pipeline_graph"],
            "redraft.graphs.preset": ["Option", "Preset", "Served"],
            "redraft.graphs.reasoning": [
                "InParallel",
                "best_branch",
                "build_reasoning_graph",
                "critique",
                "draft",
                "improve",
                "load_documents",
                "refinement_loop",
                "safe",
                "think",
            ],
            "redraft.graphs.refining_agent": ["RefiningAgent"],
            "redraft.graphs.rubric": ["DEFAULT_RUBRIC", "build_rubric_graph"],
            "redraft.graphs.writing": ["build_writing_graph", "writing_task"],
        },
        needs={"RefineMiddleware": "langchain"},
    )
