"""The demonstration: one trip, planned with refinement or without, so that the two can be compared. Internal."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from ..engine.runs import Submission
from .disconnect import CLIENT_LEFT, ended_before_disconnect
from .guards import KnownCaller, KnownEngine
from .problems import answers, problem

__all__ = ["DemoAnswer", "DemoRequest", "router"]

router = APIRouter(prefix="/demo", tags=["demo"])


class DemoRequest(BaseModel, extra="forbid", strict=True):
    """The request body of the demonstration."""

    message: str = Field(min_length=1, description="The trip that is wished for.")
    enable_refinement: bool = Field(default=True, description="Whether drafts are judged and revised.")


class DemoAnswer(BaseModel):
    """The plan, and what refining did to it."""

    response: str
    refinement_enabled: bool
    refinement_metadata: dict[str, Any]
    """As `redraft.travel.travel_metadata` tells it."""
    stop_reason: str | None
    usage: dict[str, Any]
    """Of the whole run."""
    thread_id: str


@router.post("/self-refine", response_model=DemoAnswer, responses=answers(429, 502))
async def self_refine(
    body: DemoRequest, request: Request, engine: KnownEngine, caller: KnownCaller
) -> DemoAnswer | Response:
    """Return a plan for the trip, with the metadata of its refinement."""
    from ...travel import travel_metadata

    name = "travel" if body.enable_refinement else "travel-unrefined"
    run = await engine.submit(caller, Submission(assistant=name, input={"task": body.message}, keep=True))
    if not await ended_before_disconnect(request, engine, run):
        return Response(status_code=CLIENT_LEFT)
    if run.output is None or run.status != "success":
        return problem(502, "run_failed", (run.error or {}).get("message") or "the run was cancelled")
    return DemoAnswer(
        response=run.output["answer"],
        refinement_enabled=body.enable_refinement,
        refinement_metadata=travel_metadata(run.output),
        stop_reason=run.output["stop_reason"],
        usage=run.output["usage"],
        thread_id=run.thread_id,
    )
