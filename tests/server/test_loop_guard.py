"""Small inputs stop nobody: whatever a caller sends, the server's loop answers others, and one request takes its share.

The server runs in a process of its own and tells which callbacks held its loop for 100 ms of CPU; a slower machine has
longer, by what the same piece of work takes on it. `planted_faults.py` puts back what the guard has found.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import product
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import httpx
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

YARDSTICK_S = 0.085
"""CPU time of `yardstick` on the machine that these limits were set on."""
MOST_HELD_S = 0.1
"""CPU time of one callback of the loop."""
MOST_AT_FIRST_S = 4.0
"""Wall time of one: no first time takes so long."""
MOST_CPU_S = 4.0
"""Of the server's process for one request."""
MOST_MEMORY = 150 << 20
"""That the server's process may grow by for one request, bytes."""
TOKENS = ("guarded-token-0123456789", "another-token-0123456789")
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
ANY_OF = {
    "$ref": "#/$defs/a14",
    "$defs": {"a0": {"type": "string"}} | {
        f"a{at + 1}": {"anyOf": [{"type": "array", "items": {"$ref": f"#/$defs/a{at}"}},
                                 {"type": "object", "additionalProperties": {"$ref": f"#/$defs/a{at}"}}]}
        for at in range(14)
    },
}  # fmt: skip
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
    dict.fromkeys(("messages", "input", "ids", "thread_ids", "namespace", "select", "values", "prefix"), [[]] * 8000),
    dict.fromkeys(("messages", "input", "tools", "verifiers", "command", "supersteps"), [{"role": 1}] * 5000),
    {"ids": [f"{at:08x}-0000-4000-8000-000000000000" for at in range(1000)]},
    {"metadata": {str(at): at for at in range(5000)}, "limit": 10**30, "offset": 10**30},
    {"input": {"task": "x" * 900_000}, "assistant_id": "refine"},
    {"assistant_id": "refine", "input": {"task": "x", "limits": {"max_rounds": 10**30}}},
    {"values": [[0] * 30_000], "messages": [{"role": "user", "content": "x"}] * 3000, "model": "redraft-refine"},
)
FILTERS: tuple[dict[str, Any], ...] = (
    {f"n{at}": {"$ne": 1} for at in range(32_000)},
    {f"n{at}": None for at in range(60_000)},
    {f"n{at}": None for at in range(3000)},
    {f"n{at}": {"$ne": 1} for at in range(100)},
    {f"n{at}": None for at in range(100)},
    {"v": {f"${at}": 1 for at in range(60_000)}},
)
OPTIONS: tuple[Any, ...] = (
    10**300,
    -1,
    True,
    "self",
    "x" * 400_000,
    [*("checklist:self", "rubric:self", "self")] * 3000,
    [f"length:{at}" for at in range(5000)],
    [json.dumps({"type": "function", "function": {"name": f"f{at}", "parameters": ANY_OF}}) for at in range(64)],
    json.dumps(DOUBLING),
    json.dumps(ANY_OF),
    {"a": {"a": [{}] * 3000}},
)
TABLE = "|a" * 500 + "|\n" + "|-" * 500 + "|\n" + "|\n" * 9000
SLOW_TYPE = json.dumps({"patternProperties": {"^(a+)+\\1$": {}}})


def yardstick() -> float:
    """Return the CPU-seconds of a fixed piece of Python and JSON, in the middle of five tries."""
    rows = [{"name": str(at), "at": at} for at in range(50_000)]
    times = []
    for _ in range(5):
        began = time.process_time()
        json.loads(json.dumps(rows))
        times.append(time.process_time() - began)
    return median(times)


class Guarded:
    """The server's process, with what it said held its loop."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout
        self.process = process
        self.client = httpx.Client(
            base_url=f"http://127.0.0.1:{process.stdout.readline().strip()}", timeout=TIMES, headers=bearer(0)
        )
        self.own: dict[str, str] = {}
        """Ids that its caller has, by the names of the paths' parameters."""
        self.held: list[str] = []
        self.cost = ""
        """Of the last request."""
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout
        self.held.extend(self.process.stdout)

    def sent(self, method: str, path: str, body: Any) -> None:
        """Send one request, and look what it cost; once more where it was much, since a first one may import things."""
        cheap = any(self.is_cheap(method, path, body) for _ in range(2))
        assert cheap, f"{self.cost} {path} {json.dumps(body)[:500]} {''.join(self.held)}"

    def is_cheap(self, method: str, path: str, body: Any) -> bool:
        """Send one request, and return whether it held nobody up and took its share; a long reply is left."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5", encoding="utf-8")  # the peak of memory begins anew
        before, held_before = self.cpu_s(), self.memory()
        self.held.clear()
        with self.client.stream(method, path, json=body) as reply:
            assert reply.status_code < 500 or reply.status_code in (503, 504), (path, reply.status_code, reply.read())
        assert self.client.get("/healthz").json() == {"ok": True}
        used, grown = self.cpu_s() - before, self.memory() - held_before
        told = [json.loads(line) for line in self.held]
        # How much longer a piece of work takes here than where the limits were set, at this moment.
        slowness = max(1.0, yardstick() / YARDSTICK_S) if told or used > MOST_CPU_S else 1.0
        assert not any(one["waited"] > MOST_AT_FIRST_S * slowness for one in told), (path, self.held)
        self.cost = f"{used:.2f} s of CPU, {grown >> 20} MB, {slowness:.1f} times as slow"
        kept_waiting = any(one["held"] > MOST_HELD_S * slowness for one in told)
        return not kept_waiting and used <= MOST_CPU_S * slowness and grown <= MOST_MEMORY

    def cpu_s(self) -> float:
        """Return the CPU time of the process, without those that it started."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> int:
        """Return the most memory that the process has had, in bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        return int(status.partition("VmHWM:")[2].split()[0]) << 10

    def begun(self, thread_id: str, *bodies: Any) -> None:
        """Run a new thread of the caller's once for each body."""
        assert self.client.post("/threads", json={"thread_id": thread_id}).status_code == 200
        for body in bodies:
            reply = self.client.post(f"/threads/{thread_id}/runs/wait", json=body)
            assert reply.status_code == 200, reply.text


TIMES = httpx.Timeout(60, read=180)
"""No request is left before its end, which would hide what it does then."""


def bearer(number: int) -> dict[str, str]:
    """Return the headers of one of the two callers."""
    return {"Authorization": f"Bearer {TOKENS[number]}"}


@pytest.fixture(scope="module")
def guarded() -> Iterator[Guarded]:
    """A server that has served once: what it imports then is no caller's doing."""
    if not Path("/proc/self/stat").exists():
        pytest.skip("there is no /proc to read CPU times from")
    program = str(Path(__file__).with_name("guarded_server.py"))
    # What is freed is given back at once, so that each request's memory is its own.
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "30000"}
    command = [sys.executable, program, str(MOST_HELD_S), *TOKENS]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    server = Guarded(process)
    try:
        for verifier in ("length:-3", "matches:x", 'json_schema:{"type": "object"}'):
            server.is_cheap("POST", "/runs/wait", judged("x y", verifier))
        for path, body in structured({"type": "object"}):
            server.client.post(path, json=body)
        server.own = {"thread_id": OWN, "assistant_id": "own-0"}
        server.begun(OWN, *[judged(f"{at}\n{TABLE}", "length:-3") for at in range(8)])
        server.begun(TYPED, judged("{}") | {"context": {"answer_type": SLOW_TYPE}})
        server.own["run_id"] = server.client.get(f"/threads/{OWN}/runs").json()[0]["run_id"]
        state = server.client.get(f"/threads/{OWN}/state").json()
        server.own["checkpoint_id"] = state["checkpoint_id"]
        for method, path in routes(server):
            with suppress(httpx.ReadTimeout), server.client.stream(method, path, json={}, timeout=1):
                pass
        yield server
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
    once = {"limits": {"max_rounds": 0}}
    chat = {
        "messages": [{"role": "user", "content": "x"}],
        "response_format": {"type": "json_schema", "json_schema": form},
    }
    return [
        ("/v1/chat/completions", {"model": "redraft-refine", **chat, **once}),
        (
            "/v1/responses",
            {"model": "redraft-refine", "input": "x", "text": {"format": {"type": "json_schema"} | form}, **once},
        ),
    ]


def routes(server: Guarded, own: bool = False) -> list[tuple[str, str]]:
    """Return every method and path that the server describes, with an id that nobody has, or ids of the caller's."""
    described = server.client.get("/openapi.json").json()["paths"]
    paths = [(method.upper(), path) for path, methods in described.items() for method in methods]
    ids = server.own if own else {}
    return [(method, re.sub(r"\{(\w+)[^}]*\}", lambda name: ids.get(name[1], NOBODYS), path)) for method, path in paths]


NOBODYS, OWN, TYPED, OTHERS = (f"{at}1111111-2222-4333-8444-555555555555" for at in range(1, 5))


@pytest.mark.one_of_each
@pytest.mark.parametrize("pattern", PATTERNS, ids=range(len(PATTERNS)))
def test_patterns_of_callers_hold_nobody_up(guarded: Guarded, pattern: str) -> None:
    """A caller's regular expressions that take for ever end in a verdict, and others are served meanwhile."""
    for draft in DRAFTS:
        guarded.sent("POST", "/runs/wait", judged(draft, *(f"matches:{at}{pattern}"[:500] for at in "12345678")))


@pytest.mark.one_of_each
@pytest.mark.parametrize("schema", SCHEMAS, ids=range(len(SCHEMAS)))
def test_schemas_of_callers_hold_nobody_up(guarded: Guarded, schema: Any) -> None:
    """A caller's JSON Schema that takes for ever ends in a verdict, and others are served meanwhile."""
    for draft in (*HELD_JSON, *DRAFTS):
        guarded.sent("POST", "/runs/wait", judged(draft, f"json_schema:{json.dumps(schema)}"))


@pytest.mark.one_of_each
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


@pytest.mark.one_of_each
@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
def test_bodies_of_callers_hold_nobody_up(guarded: Guarded, body: Any) -> None:
    """Each path answers large and senseless bodies, and others are served meanwhile."""
    for method, path in routes(guarded):
        if method != "GET":
            guarded.sent(method, path, body)


@pytest.mark.one_of_each
@pytest.mark.parametrize("filters", FILTERS, ids=range(len(FILTERS)))
def test_filters_of_callers_hold_nobody_up(guarded: Guarded, filters: dict[str, Any]) -> None:
    """However many conditions a caller looks for things by, others are served meanwhile."""
    guarded.sent("POST", "/store/items/search", {"namespace_prefix": ["a"], "limit": 1, "filter": filters})
    own = (f"threads/{OWN}/history", "assistants/own-0/versions")
    for path in ("threads/search", "threads/count", "assistants/search", "assistants/count", *own):
        guarded.sent("POST", f"/{path}", {"metadata": filters})


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("store/items/search", {"limit": 1000}),
        ("store/namespaces", {"limit": 1000}),
        ("assistants/search", {"limit": 1}),
        ("assistants/search", {"limit": 1000, "sort_by": "name"}),
        ("assistants/own-0/versions", {"limit": 1000}),
        ("threads/search", {"limit": 1000, "select": ["metadata"]}),
        ("threads/search", {"limit": 1000, "select": [str(at) for at in range(60_000)]}),
        ("threads/search", {"limit": 10, "status": "idle", "ids": [f"thread-{at}" for at in range(1000)]}),
        ("threads/count", {"metadata": {"n1": None}}),
    ],
    ids=range(9),
)
def test_lists_of_what_a_caller_keeps_hold_nobody_up(guarded: Guarded, path: str, body: Any) -> None:
    """However much a caller keeps, its lists are read beside the others' requests, and no more than is shown."""
    guarded.sent("POST", f"/{path}", body)


def test_what_a_caller_has_is_read_beside_the_others(guarded: Guarded) -> None:
    """Each path answers for threads, runs and assistants that are there, and others are served meanwhile."""
    for method, path in routes(guarded, own=True):
        if method == "GET":
            guarded.sent(method, f"{path}?limit=1000", None)
    for path in (f"threads/{OWN}", f"threads/{OWN}/diff", f"compare?one={OWN}&two={OWN}", "threads", "home"):
        guarded.sent("GET", f"/page/{path}", None)
    guarded.sent("GET", f"/page/runs/{guarded.own['run_id']}/live", None)


@pytest.mark.one_of_each
@pytest.mark.parametrize("value", OPTIONS, ids=range(len(OPTIONS)))
def test_options_of_callers_hold_nobody_up(guarded: Guarded, value: Any) -> None:
    """Each option that a caller may set of each assistant, critics among them, is taken or refused soon."""
    asked = 0
    for assistant in guarded.client.post("/assistants/search", json={"limit": 1000}).json():
        name = assistant["assistant_id"]
        if name.startswith("own-"):  # its caller's, of these presets
            continue
        schemas = guarded.client.get(f"/assistants/{name}/schemas").json()
        for option in (schemas.get("context_schema") or {}).get("properties", {}):
            given = {"task": "x", "draft": "a b", "limits": {"max_rounds": 0}}
            body = {"assistant_id": name, "input": given, "context": {option: value}}
            guarded.sent("POST", "/runs/wait", body)
            asked += 1
    assert asked > 20  # presets' options are many


@pytest.mark.slow
def test_forks_of_typed_threads_take_their_share(guarded: Guarded) -> None:
    """While a caller's forks wait for a check that takes for ever, another caller reads their own pages."""
    body = {"at": 0, "draft": json.dumps({"a" * 40 + "!": 1})}
    pool = ThreadPoolExecutor(FORKS)
    with httpx.Client(base_url=guarded.client.base_url, headers=bearer(1), timeout=TIMES) as other:
        other.post("/threads", json={"thread_id": OTHERS}).raise_for_status()
        names = [f"fork-{at}" for at in range(FORKS)]
        forks = [
            pool.submit(guarded.client.post, f"/threads/{TYPED}/fork", json={**body, "thread_id": name})
            for name in names
        ]
        search = {"ids": names, "select": ["thread_id"], "limit": FORKS}
        while len(guarded.client.post("/threads/search", json=search).json()) < FORKS:
            assert not any(fork.done() for fork in forks)  # each is noted before its draft is checked
        # The caller's own search took its turn among the forks: what ends from here on was waited for by another.
        done = sum(fork.done() for fork in forks)
        other.get(f"/page/threads/{OTHERS}").raise_for_status()
    ended = [fork.done() for fork in forks]
    assert not all(ended)
    assert sum(ended) - done < FORKS // 2
    pool.shutdown(wait=False)  # the rest ends with the server


FORKS = 12
