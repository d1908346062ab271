"""Agent Protocol, as far as `langgraph-sdk` and `RemoteGraph` use it, and reasons for the rest. Internal."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from . import assistants_api, forks_api, protocol_api, runs_api, thread_states_api, threads_api
from .problems import problem

__all__ = ["NOT_SERVED", "router"]

PRESETS = "assistants are the presets, which are not made or changed over HTTP"
CRONS = "runs at set times are not served; let the system's scheduler ask for them"
STORE = "there is no store; what a run knows is in its thread"

NOT_SERVED = {
    ("POST", "/assistants"): PRESETS,
    ("PATCH", "/assistants/{assistant_id}"): PRESETS,
    ("DELETE", "/assistants/{assistant_id}"): PRESETS,
    ("POST", "/assistants/{assistant_id}/latest"): PRESETS,
    ("POST", "/threads/{thread_id}/runs/crons"): CRONS,
    ("POST", "/runs/crons"): CRONS,
    ("PATCH", "/runs/crons/{cron_id}"): CRONS,
    ("DELETE", "/runs/crons/{cron_id}"): CRONS,
    ("POST", "/runs/crons/search"): CRONS,
    ("POST", "/runs/crons/count"): CRONS,
    ("PUT", "/store/items"): STORE,
    ("GET", "/store/items"): STORE,
    ("DELETE", "/store/items"): STORE,
    ("POST", "/store/items/search"): STORE,
    ("POST", "/store/namespaces"): STORE,
}
"""By method and path, the reason; an answer with one helps more than a bare 404."""

router = APIRouter()
for part in (assistants_api, threads_api, forks_api, thread_states_api, runs_api, protocol_api):
    router.include_router(part.router)


def _refuse(method: str, path: str, reason: str) -> None:
    async def refuse() -> Response:
        return problem(404, "not_served", reason)

    router.add_api_route(path, refuse, methods=[method], include_in_schema=False)


for (_method, _path), _reason in NOT_SERVED.items():
    _refuse(_method, _path, _reason)
