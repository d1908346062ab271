"""Nodes of the loop, one step a file, and the critics, verifiers and writers that they call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazy_names

if TYPE_CHECKING:
    from .agents.critic_tools import calculator_tool, python_tool, search_tool
    from .agents.react import react_agent
    from .agents.tool_critic import tool_critic
    from .critics.critics import human_critic, model_critic, verifier_critic
    from .critics.program_critic import program_critic
    from .reasoning.arrows import ArrowError
    from .reasoning.branch import Branch
    from .reasoning.pipeline_language import (
        Pipeline,
        PipelineError,
        SetQuery,
        SetTopic,
        UseCritique,
        UseDir,
        UseDraft,
        UseFinal,
        UseImprove,
        UseRefinementLoop,
        UseSelfCritique,
        parse_pipeline,
    )
    from .reasoning.reasoning_events import reasoning_events
    from .retrieval.documents import load_folder
    from .retrieval.graph_retriever import as_retriever
    from .retrieval.index import DocumentIndex, folder_index
    from .retrieval.result import RetrievalResult, retrieval_result
    from .rubric.assessments import assessment_of, refinement_metadata
    from .rubric.critic import rubric_critic
    from .rubric.metrics import refinement_metrics
    from .rubric.rubrics import Dimension, QualityAssessment, Rubric
    from .sandbox.result import SandboxResult, SandboxUnavailableError
    from .sandbox.sandbox import Sandbox
    from .travel import TRAVEL_TOOLS
    from .travel.indicators import feasibility, personalization
    from .travel.metadata import travel_metadata
    from .verify.code_checks import passes_visible_tests
    from .verify.code_replies import read_code
    from .verify.human_eval import code_task, passes_hidden_tests
    from .verify.verifiers import (
        arithmetic_holds,
        ends_with_answer,
        extract_number,
        has_length,
        matches,
        matches_json_schema,
        reading_level,
        same_number,
        uses_words,
        verifier,
    )
    from .writing.writers import from_runnable
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "redraft.nodes.agents.critic_tools": ["calculator_tool", "python_tool", "search_tool"],
            "redraft.nodes.agents.react": ["react_agent"],
            "redraft.nodes.agents.tool_critic": ["tool_critic"],
            "redraft.nodes.critics.critics": ["human_critic", "model_critic", "verifier_critic"],
            "redraft.nodes.critics.program_critic": ["program_critic"],
            "redraft.nodes.reasoning.arrows": ["ArrowError"],
            "redraft.nodes.reasoning.branch": ["Branch"],
            "redraft.nodes.reasoning.pipeline_language": [
                "Pipeline",
                "PipelineError",
                "SetQuery",
                "SetTopic",
                "UseCritique",
                "UseDir",
                "UseDraft",
                "UseFinal",
                "UseImprove",
                "UseRefinementLoop",
                "UseSelfCritique",
                "parse_pipeline",
            ],
            "redraft.nodes.reasoning.reasoning_events": ["reasoning_events"],
            "redraft.nodes.retrieval.documents": ["load_folder"],
            "redraft.nodes.retrieval.graph_retriever": ["as_retriever"],
            "redraft.nodes.retrieval.index": ["DocumentIndex", "folder_index"],
            "redraft.nodes.retrieval.result": ["RetrievalResult", "retrieval_result"],
            "redraft.nodes.rubric.assessments": ["assessment_of", "refinement_metadata"],
            "redraft.nodes.rubric.critic": ["rubric_critic"],
            "redraft.nodes.rubric.metrics": ["refinement_metrics"],
            "redraft.nodes.rubric.rubrics": ["Dimension", "QualityAssessment", "Rubric"],
            "redraft.nodes.sandbox.result": ["SandboxResult", "SandboxUnavailableError"],
            "redraft.nodes.sandbox.sandbox": ["Sandbox"],
            "redraft.nodes.travel": ["TRAVEL_TOOLS"],
            "redraft.nodes.travel.indicators": ["feasibility", "personalization"],
            "redraft.nodes.travel.metadata": ["travel_metadata"],
            "redraft.nodes.verify.code_checks": ["passes_visible_tests"],
            "redraft.nodes.verify.code_replies": ["read_code"],
            "redraft.nodes.verify.human_eval": ["code_task", "passes_hidden_tests"],
            "redraft.nodes.verify.verifiers": [
                "arithmetic_holds",
                "ends_with_answer",
                "extract_number",
                "has_length",
                "matches",
                "matches_json_schema",
                "reading_level",
                "same_number",
                "uses_words",
                "verifier",
            ],
            "redraft.nodes.writing.writers": ["from_runnable"],
        },
    )

__all__ = [
    "TRAVEL_TOOLS",
    "ArrowError",
    "Branch",
    "Dimension",
    "DocumentIndex",
    "Pipeline",
    "PipelineError",
    "QualityAssessment",
    "RetrievalResult",
    "Rubric",
    "Sandbox",
    "SandboxResult",
    "SandboxUnavailableError",
    "SetQuery",
    "SetTopic",
    "UseCritique",
    "UseDir",
    "UseDraft",
    "UseFinal",
    "UseImprove",
    "UseRefinementLoop",
    "UseSelfCritique",
    "arithmetic_holds",
    "as_retriever",
    "assessment_of",
    "calculator_tool",
    "code_task",
    "ends_with_answer",
    "extract_number",
    "feasibility",
    "folder_index",
    "from_runnable",
    "has_length",
    "human_critic",
    "load_folder",
    "matches",
    "matches_json_schema",
    "model_critic",
    "parse_pipeline",
    "passes_hidden_tests",
    "passes_visible_tests",
    "personalization",
    "program_critic",
    "python_tool",
    "react_agent",
    "read_code",
    "reading_level",
    "reasoning_events",
    "refinement_metadata",
    "refinement_metrics",
    "retrieval_result",
    "rubric_critic",
    "same_number",
    "search_tool",
    "tool_critic",
    "travel_metadata",
    "uses_words",
    "verifier",
    "verifier_critic",
]
