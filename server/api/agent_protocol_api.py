"""Agent Protocol, as far as `langgraph-sdk` and `RemoteGraph` use it, and reasons for the rest. Internal."""

from __future__ import annotations

from fastapi import APIRouter, Response

from . import assistants_api, forks_api, protocol_api, runs_api, store_api, thread_states_api, threads_api
from .problems import problem

__all__ = ["NOT_SERVED", "router"]

CRONS = "runs at set times are not served; let the system's scheduler ask for them"

STORAGE = "how many bytes a thread takes is not served; the database tells how much it holds"

NOT_SERVED = {
    ("GET", "/threads/{thread_id}/storage"): STORAGE,
    ("POST", "/threads/{thread_id}/runs/crons"): CRONS,
    ("POST", "/runs/crons"): CRONS,
    ("GET", "/runs/crons/{cron_id}"): CRONS,
    ("PATCH", "/runs/crons/{cron_id}"): CRONS,
    ("DELETE", "/runs/crons/{cron_id}"): CRONS,
    ("POST", "/runs/crons/search"): CRONS,
    ("POST", "/runs/crons/count"): CRONS,
}
"""By method and path, the reason; an answer with one helps more than a bare 404."""

router = APIRouter()
for part in (assistants_api, threads_api, forks_api, thread_states_api, runs_api, protocol_api, store_api):
    router.include_router(part.router)


def _refuse(method: str, path: str, reason: str) -> None:
    async def refuse() -> Response:
        return problem(404, "not_served", reason)

    router.add_api_route(path, refuse, methods=[method], include_in_schema=False)


for (_method, _path), _reason in NOT_SERVED.items():
    _refuse(_method, _path, _reason)
