"""The page, its scripts and its style: the same files for everybody, under a strict policy. Internal."""

from __future__ import annotations

from functools import cache

from fastapi import APIRouter, Request, Response

from ...faces import views
from ...faces.views.documents import content_hash, part, style

__all__ = ["ASSETS", "POLICY", "asset", "router"]

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

router = APIRouter(include_in_schema=False)


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
    router.add_api_route(_path, _serve, methods=["GET", "HEAD"])
