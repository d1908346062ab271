"""Planted faults: does the suite notice when the product is wrong?

Each fault is planted in a temporary copy of the checkout, and the tests beside it run as `make test` selects them, up
to the first that fails. Those run again without the faults, so that a test that fails anyway catches nothing.

    .venv/bin/python benchmarks/planted_faults.py              # all; --list, --only TEXT, --part 1/2
    .venv/bin/python benchmarks/planted_faults.py --cases all  # as make test-all selects them

A fault is anchored on a text that stands once in the product, in whichever file; where it is gone, which a test
notices, the fault is to be anchored anew. Exits with 1 where a fault was missed or has lost its anchor.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LEFT_OUT = shutil.ignore_patterns(".git", ".venv", "build", "dist", "__pycache__", ".*_cache", "notebooks")


@dataclass(frozen=True)
class Fault:
    """A mistake as somebody might make it."""

    kind: str
    old: str
    """Stands once in the product."""
    new: str
    tests: str
    """Paths below tests/, in the order in which they run."""


FAULTS = (
    Fault(
        "routing: a run with a reason to stop goes on until it was revised",
        'return "__end__" if state.get("stop_reason") else "refine"',
        'return "__end__" if state.get("stop_reason") and state.get("rounds") else "refine"',
        "graphs/test_loop.py graphs",
    ),
    Fault(
        "routing: the recursion limit of the caller is not looked at",
        'out_of_steps = state.get("remaining_steps", steps_a_round + 1) <= steps_a_round',
        "out_of_steps = False",
        "graphs/test_limits.py graphs",
    ),
    Fault(
        "budgets: a budget of tokens that is just used up is not spent",
        'usage["total_tokens"] >= tokens or',
        'usage["total_tokens"] > tokens or',
        "graphs/test_limits.py state graphs",
    ),
    Fault(
        "budgets: a call of unknown price costs nothing",
        "if dollars is not None and (cost is None or cost >= dollars):",
        "if dollars is not None and cost is not None and cost >= dollars:",
        "graphs/test_limits.py state graphs",
    ),
    Fault(
        "budgets: dollars that nobody knows are summed as 0",
        'total["cost_usd"] = None if so_far is None or cost is None else so_far + cost',
        'total["cost_usd"] = (so_far or 0) + (cost or 0)',
        "state/test_folds.py graphs",
    ),
    Fault(
        "budgets: patience is lost a round late",
        "return without_gain >= patience",
        "return without_gain > patience",
        "graphs/test_limits.py state graphs",
    ),
    Fault(
        "limits: changed limits forget the ones in force",
        "else {**(current or {}), **(changed or {})}",
        "else {**(changed or {})}",
        "graphs/test_limits.py state",
    ),
    Fault(
        "stop reasons: a draft that is accepted with the last token is not accepted",
        "if any(draft.accepted for draft in drafts):",
        "if any(draft.accepted for draft in drafts) and not _spent(summary.usage, limits):",
        "graphs/test_limits.py graphs/test_rules.py",
    ),
    Fault(
        "best, not last: what nobody scored stands before what was scored",
        "place = 3 if accepted else 0 if refuted else 1 if score is None else 2",
        "place = 3 if accepted else 0 if refuted else 2 if score is None else 1",
        "state/test_summary.py state graphs",
    ),
    Fault(
        "best, not last: a verifier's no counts as an opinion",
        "place = 3 if accepted else 0 if refuted else 1 if score is None else 2",
        "place = 3 if accepted else 1 if score is None else 2",
        "state/test_summary.py state graphs",
    ),
    Fault(
        "best, not last: the search ends with its worst path",
        "for path in sorted(paths, key=order, reverse=True):",
        "for path in sorted(paths, key=order):",
        "graphs/test_branching.py",
    ),
    Fault(
        "verdicts: the stop phrase counts anywhere in a reply",
        "return bool(phrase.strip()) and bare(reply, len(wanted)) == wanted",
        "return bool(phrase.strip()) and wanted in reply.casefold()",
        "nodes/writing nodes/critics test_injections.py",
    ),
    Fault(
        "server: a caller's JSON schema is searched by Python's `re`, and counts no steps",
        "errors_of = _schema_checker(_bounded(dialect), schema)",
        "errors_of = _schema_checker(dialect, schema)",
        "server/test_loop_guard.py",
    ),
    Fault(
        "server: a caller's verifiers are built on the event loop",
        "options = await off_loop(checked_options, assistant, self.settings, options)",
        "options = checked_options(assistant, self.settings, options)",
        "server/test_loop_guard.py",
    ),
    Fault(
        "server: structured replies are read on the event loop",
        'await off_loop(_misfit, f"json_schema:{self._schema}", text)',
        '_misfit(f"json_schema:{self._schema}", text)',
        "server/test_loop_guard.py",
    ),
    Fault(
        "server: threads are looked for on the event loop",
        "every = await off_loop(agreeing)",
        "every = agreeing()",
        "server/test_loop_guard.py",
    ),
    Fault(
        "server: a page of threads is read on the event loop",
        "return await off_loop(read, status=body.status, limit=limit, offset=offset)",
        "return read(status=body.status, limit=limit, offset=offset)",
        "server/test_loop_guard.py",
    ),
    Fault(
        "server: drafts become HTML on the event loop",
        '"html": await off_loop(drawn, "thread", facts),',
        '"html": drawn("thread", facts),',
        "server/test_loop_guard.py",
    ),
    Fault(
        "verdicts: of a key that is named twice the last value counts",
        "if len(value) < len(pairs):",
        "if False:",
        "nodes/critics test_injections.py",
    ),
    Fault(
        "verdicts: an accepted draft that a program rejected",
        "fine = not mark.strip() and lone_number(answer) is not None",
        "fine = lone_number(answer) is not None",
        "nodes/verify",
    ),
    Fault(
        "drafts: a draft that differs in white space is a new one",
        "if any(same_text(text, draft) for draft in earlier):",
        "if text in [*earlier]:",
        "nodes/writing graphs/test_rules.py",
    ),
    Fault(
        "drafts: what follows the answer's closing tag stays in it",
        "rest = rest[: closed.start()].rstrip()",
        "rest = rest.rstrip()",
        "models",
    ),
    Fault(
        "quoting: a text can hold its own fence",
        "while not code or any(code in other for other in others):",
        "while not code:",
        "nodes/writing test_injections.py",
    ),
    Fault(
        "quoting: nothing is fenced",
        'return f"{MEANING.format(code=code)}\\n[begin {code}]\\n{text}\\n[end {code}]"',
        "return text",
        "nodes/writing test_injections.py",
    ),
    Fault(
        "leases: a lease keeps nobody off",
        "AND expires_at > {NOW} AND expires_at <= {NOW} + %(longest)s",
        "AND expires_at < {NOW} AND expires_at <= {NOW} + %(longest)s",
        "state/storage/test_runs.py state/threads state/storage",
    ),
    Fault(
        "leases: one of a clock that was set back holds for ever",
        'return f"expires_at > {self.now} AND expires_at <= {self.now} + %(longest)s"',
        'return f"expires_at > {self.now}"',
        "state/storage/test_runs.py state/threads state/storage",
    ),
    Fault(
        "journal: a reply is paid again after a crash",
        'rows = self._saver._query(SELECT, {"thread_id": thread_id, "call": call})',
        "rows: Any = []",
        "graphs/test_journal.py",
    ),
    Fault(
        "record: a changed event is not noticed",
        "if digest(event) != following[index]]",
        "if not following[index]]",
        "state/threads state",
    ),
    Fault(
        "record: a replay believes the result",
        "    if recorded == recomputed:\n        return []\n",
        "    return []\n",
        "state/threads state",
    ),
    Fault(
        "secrets: short keys are shown",
        "for part in parts if len(part) >= SHORTEST",
        "for part in parts if len(part) >= 4 * SHORTEST",
        "state/test_masking.py faces/test_secrets.py",
    ),
    Fault(
        "answers: the first mark wins",
        "for mark in reversed(list(MARK.finditer(text))):",
        "for mark in list(MARK.finditer(text)):",
        "nodes/verify",
    ),
    Fault(
        "statistics: fixed and broken are exchanged",
        "fixed, broken = pairs.count((False, True)), pairs.count((True, False))",
        "broken, fixed = pairs.count((False, True)), pairs.count((True, False))",
        "evals/test_paired.py evals/test_ledger.py evals/test_diagnosis.py evals/test_comparison.py",
    ),
    Fault(
        "statistics: too little data rules a gain out",
        'return "no gain" if interval[1] < wanted else "undecided"',
        'return "no gain" if interval[0] < wanted else "undecided"',
        "evals/test_paired.py evals/test_ledger.py evals/test_diagnosis.py evals/test_comparison.py",
    ),
    Fault(
        "retrieval: a passage that two searches find is not better",
        "scores[key] = scores.get(key, 0.0) + 1 / (RANK_CONSTANT + len(seen))",
        "scores[key] = 1 / (RANK_CONSTANT + len(seen))",
        "retrieval",
    ),
    Fault(
        "sandbox: what one layer can't run is not tried in the other",
        "if self._native is not None and (result is None or not result.ok):",
        "if self._native is not None and result is None:",
        "sandbox",
    ),
    Fault(
        "sandbox: a failed check passes",
        'return self.status == "ok"',
        'return self.status != "timeout"',
        "sandbox",
    ),
    Fault(
        "HTTP: what is not there is a bad request",
        'NotThereError: (404, "not_found"),',
        'NotThereError: (400, "not_found"),',
        "server",
    ),
    Fault(
        "HTTP: the token of the metrics opens everything",
        'if path != "/metrics":',
        'if path == "/":',
        "server/test_ceilings.py server",
    ),
    Fault(
        "HTTP: a page of another site uses the server",
        'if _split(f"//{host}").hostname not in self._hosts:',
        "if not host:",
        "server/test_guards.py server/test_origins.py",
    ),
    Fault(
        "recipes: what a thread's recipe reaches is not asked about",
        "for spec in (*self.verifiers, *self.critics) if opened_file(spec)]",
        "for spec in self.critics if opened_file(spec)]",
        "faces/cli/test_foreign_recipes.py faces/test_run_config.py",
    ),
    Fault(
        "exit codes: bad input ends with the code of a failed run",
        '"""Error in what the user gave."""\n\n    exit_code = 2',
        '"""Error in what the user gave."""\n\n    exit_code = 1',
        "faces/cli/test_run.py",
    ),
    Fault(
        "exit codes: an answer that nobody accepted is a success",
        "UNACCEPTED = 3",
        "UNACCEPTED = 0",
        "faces/cli/test_run.py",
    ),
)


def main() -> int:
    """Plant the faults one after the other; 0 if each was caught."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--list", action="store_true", help="say where each fault is anchored and what is gone, and run nothing"
    )
    parser.add_argument("--only", default="", help="those whose kind holds this text")
    parser.add_argument("--part", default="1/1", help="each second one: 1/2 and 2/2, to share the work")
    parser.add_argument("--cases", default="some", choices=("some", "all"), help="as make test or make test-all")
    options = parser.parse_args()
    part, parts = map(int, options.part.split("/"))
    chosen = [fault for fault in FAULTS if options.only in fault.kind][part - 1 :: parts]
    folders = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-dir"]
    if options.list:
        files = sources(ROOT, folders)
        places = [anchor(fault, files) for fault in chosen]
        for fault, place in zip(chosen, places, strict=True):
            print(f"{place.relative_to(ROOT) if place else 'GONE'}: {fault.kind}")
        moved = {word for fault in chosen for word in fault.tests.split() if not (ROOT / "tests" / word).exists()}
        for word in sorted(moved):
            print(f"GONE: tests/{word}")
        return 0 if all(places) and not moved else 1
    with tempfile.TemporaryDirectory(prefix="redraft-faults-") as name:
        copy = Path(name) / "copy"
        shutil.copytree(ROOT, copy, ignore=LEFT_OUT, symlinks=True)
        site = link(copy, Path(name) / "site", folders)
        outcomes = [tried(fault, copy, site, folders, options.cases) for fault in chosen]
        found = [outcome for outcome in outcomes if outcome not in ("missed", "gone")]
        anyway = failures(copy, site, found) if found else []
    caught = [outcome for outcome in found if outcome not in anyway]
    for name in anyway:
        print(f"missed  {name} fails without a fault, too")
    print(f"{len(caught)} of {len(chosen)} caught, {outcomes.count('gone')} without anchor")
    return 0 if len(caught) == len(chosen) else 1


def sources(root: Path, folders: dict[str, str]) -> list[Path]:
    """Return the product's files."""
    return sorted(path for folder in {*folders.values()} for path in (root / folder).rglob("*.py"))


def link(copy: Path, site: Path, folders: dict[str, str]) -> Path:
    """Lay out the copy as it is imported, and return what to put on the path."""
    package = site / "redraft"
    package.mkdir(parents=True)
    for path in (copy / folders["redraft"]).iterdir():
        (package / path.name).symlink_to(path)
    for name, folder in folders.items():
        if name != "redraft":
            (package / name.removeprefix("redraft.")).symlink_to(copy / folder)
    return site


def anchor(fault: Fault, files: list[Path]) -> Path | None:
    """Return the file where a fault's text stands once, or None."""
    places = [path for path in files if fault.old in (text := path.read_text()) and text.count(fault.old) == 1]
    return places[0] if len(places) == 1 else None


def tried(fault: Fault, copy: Path, site: Path, folders: dict[str, str], cases: str) -> str:
    """Plant a fault, run its tests, and take it out again; print and return what came of it."""
    path = anchor(fault, sources(copy, folders))
    if path is None:
        print(f"gone    {fault.kind}: its text stands nowhere, or twice; anchor it anew: {fault.old!r}", flush=True)
        return "gone"
    text, before, began = path.read_text(), path.stat(), time.monotonic()
    path.write_text(text.replace(fault.old, fault.new))
    try:
        # One after the other: pytest would merge a file with its folder, and begin with the folder's first.
        runs = (failures(copy, site, ["-x", word, "--cases", cases]) for word in fault.tests.split())
        failed = next(filter(None, runs), [])
    finally:
        path.write_text(text)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # what was compiled of it holds again
    outcome, by = ("caught", f": {failed[0]}") if failed else ("missed", "")
    print(f"{outcome}  {fault.kind} ({path.relative_to(copy)}, {time.monotonic() - began:.0f} s){by}", flush=True)
    return failed[0] if failed else outcome


def failures(copy: Path, site: Path, words: list[str]) -> list[str]:
    """Run pytest, and return the names of the tests that fail."""
    paths = [f"tests/{word}" if Path(copy, "tests", word.partition("::")[0]).exists() else word for word in words]
    command = [sys.executable, "-m", "pytest", "-q", "-n0", "-rfE", "--tb=no", "-p", "no:cacheprovider", *paths]
    environment = {**os.environ, "PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": ""}
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)
    names = re.findall(r"^(?:FAILED|ERROR) tests/(.*?)(?: - .*)?$", done.stdout, re.MULTILINE)
    if done.returncode and not names:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return names


if __name__ == "__main__":
    sys.exit(main())
