"""The part of the Agent Protocol that `langgraph-sdk` and `RemoteGraph` work against, unchanged."""

from __future__ import annotations

from fastapi import APIRouter

from . import assistants_api, not_served_api, runs_api, thread_states_api, threads_api

__all__ = ["router"]

router = APIRouter()
for part in (assistants_api, threads_api, thread_states_api, runs_api, not_served_api):
    router.include_router(part.router)
