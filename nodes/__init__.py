"""Nodes of the loop, one step a file, and the critics, verifiers and writers that they call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazy_names

if TYPE_CHECKING:
    from ..state.stopping import Arm
    from .agents.react import react_agent
    from .agents.tool_critics import calculator_tool, mcp_tools, python_tool, search_tool, tool_critic, uses_tools
    from .critics.calibrated import calibrated
    from .critics.critics import human_critic, model_critic, verifier_critic
    from .critics.program_critic import program_critic
    from .reasoning.arrows import ArrowError
    from .reasoning.branches import Branch, reasoning_events
    from .reasoning.pipeline_language import (
        EvaluateQuality,
        Pipeline,
        PipelineError,
        SetQuery,
        SetTopic,
        StepKind,
        UseCritique,
        UseDir,
        UseDraft,
        UseFinal,
        UseImprove,
        UseIndex,
        UseRefinementLoop,
        UseSelfCritique,
        UseThinking,
        parse_pipeline,
        register_step,
    )
    from .rubric.critic import rubric_critic
    from .rubric.rubrics import (
        Dimension,
        QualityAssessment,
        Rubric,
        assessment_of,
        refinement_metadata,
        refinement_metrics,
    )
    from .runtime.tool_calls import idempotency_key
    from .runtime.traces import phoenix_feedback
    from .verify.code_checks import passes_visible_tests
    from .verify.code_replies import code_task, read_code
    from .verify.json_schema import matches_json_schema
    from .verify.numeric_answers import ends_with_answer, extract_number, same_number
    from .verify.stated import stated_requirements
    from .verify.text_verifiers import avoids_words, has_length, matches, reading_level, uses_words
    from .verify.verifiers import as_stated, verifier
    from .writing.prompt_files import builder_prompts
    from .writing.writers import AdaptiveWriter, from_runnable
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "redraft.nodes.agents.react": ["react_agent"],
            "redraft.nodes.agents.tool_critics": [
                "calculator_tool",
                "mcp_tools",
                "python_tool",
                "search_tool",
                "tool_critic",
                "uses_tools",
            ],
            "redraft.nodes.critics.calibrated": ["calibrated"],
            "redraft.nodes.critics.critics": ["human_critic", "model_critic", "verifier_critic"],
            "redraft.nodes.critics.program_critic": ["program_critic"],
            "redraft.nodes.reasoning.arrows": ["ArrowError"],
            "redraft.nodes.reasoning.branches": ["Branch", "reasoning_events"],
            "redraft.nodes.reasoning.pipeline_language": [
                "EvaluateQuality",
                "Pipeline",
                "PipelineError",
                "SetQuery",
                "SetTopic",
                "StepKind",
                "UseCritique",
                "UseDir",
                "UseDraft",
                "UseFinal",
                "UseImprove",
                "UseIndex",
                "UseRefinementLoop",
                "UseSelfCritique",
                "UseThinking",
                "parse_pipeline",
                "register_step",
            ],
            "redraft.nodes.rubric.critic": ["rubric_critic"],
            "redraft.nodes.rubric.rubrics": [
                "Dimension",
                "QualityAssessment",
                "Rubric",
                "assessment_of",
                "refinement_metadata",
                "refinement_metrics",
            ],
            "redraft.nodes.runtime.tool_calls": ["idempotency_key"],
            "redraft.nodes.runtime.traces": ["phoenix_feedback"],
            "redraft.nodes.verify.code_checks": ["passes_visible_tests"],
            "redraft.nodes.verify.code_replies": ["code_task", "read_code"],
            "redraft.nodes.verify.json_schema": ["matches_json_schema"],
            "redraft.nodes.verify.numeric_answers": ["ends_with_answer", "extract_number", "same_number"],
            "redraft.nodes.verify.stated": ["stated_requirements"],
            "redraft.nodes.verify.text_verifiers": [
                "avoids_words",
                "has_length",
                "matches",
                "reading_level",
                "uses_words",
            ],
            "redraft.nodes.verify.verifiers": ["as_stated", "verifier"],
            "redraft.nodes.writing.prompt_files": ["builder_prompts"],
            "redraft.nodes.writing.writers": ["AdaptiveWriter", "from_runnable"],
            "redraft.state.stopping": ["Arm"],
        },
    )

__all__ = [
    "AdaptiveWriter",
    "Arm",
    "ArrowError",
    "Branch",
    "Dimension",
    "EvaluateQuality",
    "Pipeline",
    "PipelineError",
    "QualityAssessment",
    "Rubric",
    "SetQuery",
    "SetTopic",
    "StepKind",
    "UseCritique",
    "UseDir",
    "UseDraft",
    "UseFinal",
    "UseImprove",
    "UseIndex",
    "UseRefinementLoop",
    "UseSelfCritique",
    "UseThinking",
    "as_stated",
    "assessment_of",
    "avoids_words",
    "builder_prompts",
    "calculator_tool",
    "calibrated",
    "code_task",
    "ends_with_answer",
    "extract_number",
    "from_runnable",
    "has_length",
    "human_critic",
    "idempotency_key",
    "matches",
    "matches_json_schema",
    "mcp_tools",
    "model_critic",
    "parse_pipeline",
    "passes_visible_tests",
    "phoenix_feedback",
    "program_critic",
    "python_tool",
    "react_agent",
    "read_code",
    "reading_level",
    "reasoning_events",
    "refinement_metadata",
    "refinement_metrics",
    "register_step",
    "rubric_critic",
    "same_number",
    "search_tool",
    "stated_requirements",
    "tool_critic",
    "uses_tools",
    "uses_words",
    "verifier",
    "verifier_critic",
]
