"""Browser apps of other sites use the server where its owner says so, and find out what it is."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from pydantic import ValidationError
from redraft.server import Settings

APP = "https://app.example:8443"


def preflight(client: httpx.Client, origin: str, method: str = "POST") -> httpx.Response:
    asked = {"Origin": origin, "Access-Control-Request-Method": method}
    return client.request(
        "OPTIONS", "/threads", headers={**asked, "Access-Control-Request-Headers": "content-type,x-api-key"}
    )


@pytest.mark.parametrize("with_tokens", [True, False])
def test_pages_of_a_named_site_may_use_the_server(start_server: Any, tokens: Any, with_tokens: bool) -> None:
    """A page of the site that `--allow-origin` names asks, is answered, and reads where its run is; no other page may,
    and a token is needed as before."""
    server = start_server(allow_origins=(APP,), tokens=tokens if with_tokens else ())
    with httpx.Client(base_url=server.url) as client:
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
            allowed = preflight(client, APP, method)
            assert (allowed.status_code, allowed.headers["access-control-allow-origin"]) == (200, APP)
            assert "x-api-key" in allowed.headers["access-control-allow-headers"]
        for other in ("https://app.example", "http://app.example:8443", "https://evil.example", "null"):
            assert preflight(client, other).status_code == 400
            refused = client.post("/threads", json={}, headers={"Origin": other})
            assert refused.status_code == (401 if with_tokens else 403)
            assert "access-control-allow-origin" not in refused.headers
        known = {"X-Api-Key": tokens[0]} if with_tokens else {}
        made = client.post("/threads", json={}, headers={"Origin": APP, **known})
        assert (made.status_code, made.headers["access-control-allow-origin"]) == (200, APP)
        assert "Content-Location" in made.headers["access-control-expose-headers"]
        if with_tokens:
            told = client.post("/threads", json={}, headers={"Origin": APP})
            # The page is told why, in place of a failure without a reason.
            assert (told.status_code, told.headers["access-control-allow-origin"]) == (401, APP)


def test_origins_are_named_as_browsers_send_them() -> None:
    """An origin with a path, a pattern or no scheme is refused when the server starts, and so are all sites at once
    where no token is needed."""
    for wrong in (
        "app.example",
        "https://app.example/",
        "https://*.example",
        "ftp://app.example",
        "null",
        "",
        "file://",
    ):
        with pytest.raises(ValidationError, match="as a browser sends it"):
            Settings(allow_origins=(wrong,))
    with pytest.raises(ValidationError, match="name the origins"):
        Settings(allow_origins=("*",))
    assert Settings(allow_origins=("*",), tokens=("long-enough-0123456789",)).allow_origins == ("*",)


def test_the_server_says_what_it_is(start_server: Any, tokens: Any) -> None:
    """`/ok` and `/docs` answer anybody, `/info` callers: versions, what is served, and every operation on a page that
    loads nothing from elsewhere."""
    server = start_server(tokens=tokens)
    with httpx.Client(base_url=server.url) as client:
        assert client.get("/ok").json() == client.get("/ok", params={"check_db": "1"}).json() == {"ok": True}
        assert client.get("/info").status_code == 401
        client.headers["X-Api-Key"] = tokens[0]
        told = client.get("/info").json()
        assert told["flags"] == {"assistants": True, "crons": False, "langsmith": False}
        assert told["version"]
        page = client.get("/docs")
        assert page.headers["content-security-policy"].startswith("default-src 'none'")
        assert "<script" not in page.text
        for path, methods in client.get("/openapi.json").json()["paths"].items():
            for method in methods:
                assert f"{method.upper()} {path}</code>" in page.text
