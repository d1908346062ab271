"""Small inputs stop nobody: whatever a caller sends, the server's loop answers others, and one request takes its share.

The server runs in a process of its own and tells which callbacks held its loop for 100 ms of CPU. `planted_faults.py`
puts back what it has found.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_HELD_S = 0.1
"""CPU time of one callback of the loop."""
MOST_AT_FIRST_S = 4.0
"""Wall time of one: no first time takes so long."""
MOST_CPU_S = 4.0
"""Of the server's process for one request."""
MOST_MEMORY = 400 << 20
"""That the server's process may have grown by when all was sent, bytes."""
PATTERNS = (
    "(a+)+$",
    "(a|aa)+!",
    r"^(\w+\s?)*$",
    "(?=(a+)+$)a",
    "[a-z]{1,1000}" * 30,
    "(x{1,30}){1,30}" * 20,
    "(?i)" + "ſ" * 400,
    "(" * 200,
    "a{99999}",
    "(?:" * 90 + ")" * 90,
)
DRAFTS = ("a" * 40 + "!", "a " * 20_000, "7" * 100_000, '{"a":' * 500, "." * 100_000, "[" + "1," * 30_000 + "1]")
ANY_OF: dict[str, Any] = {"type": "string"}
for _ in range(14):
    ANY_OF = {"anyOf": [{"type": "array", "items": ANY_OF}, {"type": "object", "additionalProperties": ANY_OF}]}
DOUBLING = {
    "$ref": "#/$defs/a0",
    "$defs": {f"a{at}": {"anyOf": [{"$ref": f"#/$defs/a{at + 1}"}] * 2} for at in range(25)} | {"a25": False},
}
SCHEMAS: tuple[Any, ...] = (
    {"patternProperties": {"^(a+)+$": {}}},
    {"propertyNames": {"pattern": "^(a+)+$"}},
    {"additionalProperties": {"pattern": "^(a|aa)+$"}, "patternProperties": {"^(a|aa)+$": {"const": 1}}},
    {"pattern": "[a-z]{1,1000}" * 40},
    {"items": {"uniqueItems": True}, "uniqueItems": True},
    {"unevaluatedProperties": {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}},
    {"multipleOf": 1e-300},
    {"minLength": 10**300, "enum": [*range(1000)]},
    {"format": "regex"},
    ANY_OF,
    DOUBLING,
)
HELD_JSON = (json.dumps({"a" * 40 + "!": 1}), json.dumps([{"a": at} for at in range(3000)]), '"' + "a" * 50_000 + '"')
BODIES: tuple[Any, ...] = (
    {},
    [],
    {"ids": [f"{at:08x}-0000-4000-8000-000000000000" for at in range(1000)]},
    {"metadata": {str(at): at for at in range(5000)}, "limit": 10**30, "offset": 10**30},
    {"input": {"task": "x" * 900_000}, "assistant_id": "refine"},
    {"assistant_id": "refine", "input": {"task": "x", "limits": {"max_rounds": 10**30}}},
    {"values": [[0] * 30_000], "messages": [{"role": "user", "content": "x"}] * 3000, "model": "redraft-refine"},
)


class Guarded:
    """The server's process, with what it said held its loop."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout
        self.process = process
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{process.stdout.readline().strip()}", timeout=60)
        self.held: list[str] = []
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout
        self.held.extend(self.process.stdout)

    def sent(self, method: str, path: str, body: Any) -> None:
        """Send one request, and look what it cost; once more where it was much, since a first one may import things."""
        assert any(self.is_cheap(method, path, body) for _ in range(2)), (path, json.dumps(body)[:500], self.held)

    def is_cheap(self, method: str, path: str, body: Any) -> bool:
        """Send one request, and return whether it held nobody up; what follows of a long reply is left."""
        before = self.cpu_s()
        self.held.clear()
        with suppress(httpx.ReadTimeout), self.client.stream(method, path, json=body, timeout=TIMES) as reply:
            assert reply.status_code < 500 or reply.status_code in (503, 504), (path, reply.status_code, reply.read())
        assert self.client.get("/healthz").json() == {"ok": True}
        assert not any(json.loads(line)["waited"] > MOST_AT_FIRST_S for line in self.held), (path, self.held)
        return not self.held and self.cpu_s() - before <= MOST_CPU_S

    def cpu_s(self) -> float:
        """Return the CPU time of the process, without those that it started."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> int:
        """Return the most memory that the process has had, in bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        return int(status.partition("VmHWM:")[2].split()[0]) << 10


TIMES = httpx.Timeout(60, read=30)


@pytest.fixture(scope="module")
def guarded() -> Iterator[Guarded]:
    """A server that has served once: what it imports then is no caller's doing."""
    if not Path("/proc/self/stat").exists():
        pytest.skip("there is no /proc to read CPU times from")
    program = str(Path(__file__).with_name("guarded_server.py"))
    process = subprocess.Popen([sys.executable, program, str(MOST_HELD_S)], stdout=subprocess.PIPE, text=True)
    server = Guarded(process)
    try:
        for verifier in ("length:-3", "matches:x", 'json_schema:{"type": "object"}'):
            server.is_cheap("POST", "/runs/wait", judged("x y", verifier))
        for path, body in structured({"type": "object"}):
            server.client.post(path, json=body)
        for method, path in routes(server):
            with suppress(httpx.ReadTimeout), server.client.stream(method, path, json={}, timeout=1):
                pass
        server.held.clear()
        grown = server.memory()
        yield server
        assert server.memory() - grown < MOST_MEMORY
    finally:
        process.kill()
        process.wait()
        server.client.close()
        server.reader.join()
        process.stdout.close()  # type: ignore[union-attr]


def judged(draft: str, *verifiers: str) -> Any:
    """Return the body of a run that has a draft judged by a caller's verifiers."""
    given = {"task": "x", "draft": draft, "limits": {"max_rounds": 0}}
    return {"assistant_id": "refine", "input": given, "context": {"verifiers": verifiers}}


def structured(schema: Any) -> list[tuple[str, Any]]:
    """Return requests for an answer that fits a schema, by the paths of OpenAI's clients."""
    form = {"name": "a", "schema": schema, "strict": True}
    chat = {
        "messages": [{"role": "user", "content": "x"}],
        "response_format": {"type": "json_schema", "json_schema": form},
    }
    return [
        ("/v1/chat/completions", {"model": "redraft-refine", **chat}),
        (
            "/v1/responses",
            {"model": "redraft-refine", "input": "x", "text": {"format": {"type": "json_schema"} | form}},
        ),
    ]


def routes(server: Guarded) -> list[tuple[str, str]]:
    """Return every method and path that the server describes, with an id that nobody has."""
    described = server.client.get("/openapi.json").json()["paths"]
    anyone = "11111111-2222-4333-8444-555555555555"
    paths = [(method.upper(), path) for path, methods in described.items() for method in methods]
    return [(method, "/".join(anyone if "{" in part else part for part in path.split("/"))) for method, path in paths]


@pytest.mark.parametrize("pattern", PATTERNS, ids=range(len(PATTERNS)))
def test_patterns_of_callers_hold_nobody_up(guarded: Guarded, pattern: str) -> None:
    """A caller's regular expressions that take for ever end in a verdict, and others are served meanwhile."""
    for draft in DRAFTS:
        guarded.sent("POST", "/runs/wait", judged(draft, *(f"matches:{at}{pattern}"[:500] for at in "12345678")))


@pytest.mark.parametrize("schema", SCHEMAS, ids=range(len(SCHEMAS)))
def test_schemas_of_callers_hold_nobody_up(guarded: Guarded, schema: Any) -> None:
    """A caller's JSON Schema that takes for ever ends in a verdict, and others are served meanwhile."""
    for draft in (*HELD_JSON, *DRAFTS):
        guarded.sent("POST", "/runs/wait", judged(draft, f"json_schema:{json.dumps(schema)}"))


@pytest.mark.parametrize("schema", SCHEMAS, ids=range(len(SCHEMAS)))
def test_structured_replies_hold_nobody_up(guarded: Guarded, schema: Any) -> None:
    """An answer asked for in a form that takes for ever to check is answered all the same, and others are served."""
    for path, body in structured(schema):
        guarded.sent("POST", path, body)


@pytest.mark.parametrize("name", ["length", "uses_words", "reading_level"])
def test_other_verifiers_hold_nobody_up(guarded: Guarded, name: str) -> None:
    """Whatever a caller gives a verifier to count with, others are served meanwhile."""
    arguments = ("1-" + "9" * 400, "-" + "9" * 400, "a,b" * 160, "0.0000001", ",".join("ab" * 120), "é" * 490)
    for argument, draft in product(arguments, DRAFTS):
        guarded.sent("POST", "/runs/wait", judged(draft, f"{name}:{argument}"[:500]))


@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
def test_bodies_of_callers_hold_nobody_up(guarded: Guarded, body: Any) -> None:
    """Each path answers large and senseless bodies, and others are served meanwhile."""
    for method, path in routes(guarded):
        if method != "GET":
            guarded.sent(method, path, body)
