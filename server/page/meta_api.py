"""The server about itself: that it lives, its version, its operations, and the files of its page. Internal."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from typing import Any

from fastapi import APIRouter, Request, Response

from ...faces import views
from ...faces.views.documents import content_hash, html_environment, part, style
from ..api.guards import KnownEngine
from ..api.wire import json_response

__all__ = ["ASSETS", "OPEN", "router"]

ASSETS = {
    "/": ("page.html", "text/html; charset=utf-8"),
    "/page/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page/icon.svg": ("icon.svg", "image/svg+xml"),
    **{
        f"/page/{name}.js": (f"{name}.js", "text/javascript; charset=utf-8")
        for name in ("calls", "compare", "fragments", "home", "live", "main", "stream", "thread")
    },
}
"""Path of each file, with its name and type. They tell nothing of anybody's, so they need no token."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types redraft"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # Kept by the browser, and asked about each time: a new version shows at once.
    "Cache-Control": "no-cache",
}

router = APIRouter(tags=["server"])


@cache
def asset(path: str) -> tuple[bytes, str]:
    """Return a file of the page, and what tells whether it has changed."""
    name, _ = ASSETS[path]
    text = part(__package__, name)
    if name == "page.css":
        text = style() + part(views.__name__, "page.css") + text
    return text.encode(), f'"{content_hash(text)}"'


async def _serve(request: Request) -> Response:
    path = request.scope["path"]
    body, tag = asset(path)
    headers = {**HEADERS, "ETag": tag}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(body, media_type=ASSETS[path][1], headers=headers)


for _path in ASSETS:
    router.add_api_route(_path, _serve, methods=["GET", "HEAD"], include_in_schema=False)


OPEN = ("/healthz", "/ok", "/docs", *ASSETS)
"""Paths that need no token: they tell nothing of anybody's."""


@router.get("/healthz")
async def healthz() -> Response:
    """Say that the server lives."""
    return json_response({"ok": True})


@router.get("/ok")
async def ok(engine: KnownEngine, check_db: bool = False) -> Response:
    """Say that the server lives, and with `check_db=1` that its database answers."""
    if check_db:
        await engine.db.read(engine.records.clock)  # raises where it does not answer
    return json_response({"ok": True})


@router.get("/info")
async def info() -> Response:
    """Return the versions, and which parts of LangGraph's platform are served."""
    from langgraph.version import __version__ as langgraph

    return json_response(
        {
            "version": version("redraft"),
            "langgraph_py_version": langgraph,
            "flags": {"assistants": True, "crons": False, "langsmith": False},
            "host": {"kind": "self-hosted"},
        }
    )


@router.get("/docs", include_in_schema=False)
async def docs(request: Request) -> Response:
    """Show every operation on a page without scripts: those of FastAPI's page are loaded from another site."""
    template = html_environment(extra="serve").from_string(part(__package__, "docs.html.j2"))
    html = template.render(sections=_sections(request.app.openapi()))
    return Response(html, media_type="text/html; charset=utf-8", headers=HEADERS)


def _sections(openapi: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Return the operations by tag, each with what it takes and what it may answer."""
    schemas = openapi["components"]["schemas"]
    sections: dict[str, list[dict[str, Any]]] = {}
    for path, methods in openapi["paths"].items():
        for method, described in methods.items():
            body = described.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
            parameters = [
                (parameter["name"], parameter["in"], parameter["schema"])
                for parameter in described.get("parameters", ())
            ]
            parameters += [(name, "body", schema) for name, schema in _fields(body, schemas)]
            operation = {
                "method": method.upper(),
                "path": path,
                "line": described.get("description") or described.get("summary", ""),
                "takes": [(name, place, _kind(schema)) for name, place, schema in parameters],
                "answers": {status: parameter["description"] for status, parameter in described["responses"].items()},
            }
            sections.setdefault(described.get("tags", ["others"])[0], []).append(operation)
    return sections


def _fields(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the fields of a body with their schemas, also where it may be left out or is a list."""
    for place in (schema, *schema.get("anyOf", ()), schema.get("items", {})):
        if name := place.get("$ref"):
            return list(schemas[name.rpartition("/")[2]].get("properties", {}).items())
    return list(schema.get("properties", {}).items())


def _kind(schema: Mapping[str, Any]) -> str:
    """Return a type in a few words."""
    if "enum" in schema or "const" in schema:
        return " | ".join(map(str, schema.get("enum", [schema.get("const")])))
    if options := schema.get("anyOf"):
        return " | ".join(kind for option in options if (kind := _kind(option)) != "null")
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    inner = f" of {_kind(schema['items'])}" if schema.get("items") else ""
    return str(schema.get("type", "any")) + inner
