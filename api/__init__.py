"""LangGraph workflows that draft, get feedback, check and refine, and show whether refining helped.

The names below are what most users need; `redraft.state`, `redraft.models`, `redraft.nodes`, `redraft.graphs`
and `redraft.faces`, and the rooms `redraft.evals`, `redraft.retrieval`, `redraft.sandbox`, `redraft.server` and
`redraft.travel`, offer the rest of the public API. Each name is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._lazy import lazy_names

if TYPE_CHECKING:
    from ._version import __version__
    from .graphs import (
        RefineMiddleware,
        arun_many,
        build_adaptive_graph,
        build_agent_graph,
        build_branching_graph,
        build_code_graph,
        build_math_graph,
        build_pipeline_graph,
        build_reasoning_graph,
        build_refine_graph,
        build_rubric_graph,
        build_writing_graph,
        run_many,
    )
    from .models import chat_model
    from .nodes import calibrated, human_critic, model_critic, uses_words, verifier_critic
    from .retrieval import build_retrieval_graph
    from .sandbox import Sandbox
    from .state import Critique, Event, Limits, Thread, open_checkpointer, tuned_gc
    from .travel import build_travel_graph

    __all__ = [
        "Critique",
        "Event",
        "Limits",
        "RefineMiddleware",
        "Sandbox",
        "Thread",
        "__version__",
        "arun_many",
        "build_adaptive_graph",
        "build_agent_graph",
        "build_branching_graph",
        "build_code_graph",
        "build_math_graph",
        "build_pipeline_graph",
        "build_reasoning_graph",
        "build_refine_graph",
        "build_retrieval_graph",
        "build_rubric_graph",
        "build_travel_graph",
        "build_writing_graph",
        "calibrated",
        "chat_model",
        "human_critic",
        "model_critic",
        "open_checkpointer",
        "run_many",
        "tuned_gc",
        "uses_words",
        "verifier_critic",
    ]
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "redraft._version": ["__version__"],
            "redraft.graphs": [
                "RefineMiddleware",
                "arun_many",
                "build_adaptive_graph",
                "build_agent_graph",
                "build_branching_graph",
                "build_code_graph",
                "build_math_graph",
                "build_pipeline_graph",
                "build_reasoning_graph",
                "build_refine_graph",
                "build_rubric_graph",
                "build_writing_graph",
                "run_many",
            ],
            "redraft.models": ["chat_model"],
            "redraft.nodes": ["calibrated", "human_critic", "model_critic", "uses_words", "verifier_critic"],
            "redraft.retrieval": ["build_retrieval_graph"],
            "redraft.sandbox": ["Sandbox"],
            "redraft.state": ["Critique", "Event", "Limits", "Thread", "open_checkpointer", "tuned_gc"],
            "redraft.travel": ["build_travel_graph"],
        },
        needs={"RefineMiddleware": "langchain"},
    )
