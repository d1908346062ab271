"""Checks of a tree by commands: pytest, ruff, a script. Internal."""

from __future__ import annotations

import re
import threading
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from ..state.critique import Critique
from .boxed import Box, Finished
from .drafts import draft_text, read_draft
from .trees import Trees, fenced, matches, shortened, shown

__all__ = ["Check", "TreeVerifier", "command", "counted", "failures", "startup_files"]

MOST_FEEDBACK = 4000
STARTUP: tuple[str, ...] = (
    "conftest.py",
    "sitecustomize.py",
    "usercustomize.py",
    "*.pth",
    "pytest.ini",
    "tox.ini",
    "setup.cfg",
)
STARTUP += ("pyproject.toml", "package.json", "Makefile", "noxfile.py")


@dataclass(frozen=True)
class Check:
    """A command that says whether the files are right. Build it with `command`."""

    command: str
    report: str = ""
    confirm: int = 2
    timeout_s: float = 300


def command(line: str, *, report: str = "", confirm: int = 2, timeout_s: float = 300) -> Check:
    """Return a check that runs a command in a copy of the files: it passes with the exit code 0.

    Its score is the share of tests that pass, where its output tells (pytest, unittest, TAP, mypy, ruff) or it writes
    `report`. What it prints is the feedback.

    Args:
        line: As typed in a shell: `"pytest -q"`.
        report: A JUnit XML file that it writes, relative to the folder.
        confirm: How often it must pass before it accepts: a check that passes and fails on the same files wavers.
        timeout_s: Seconds until it is ended, which fails.

    Raises:
        ValueError: `line` is empty, or `confirm` or `timeout_s` is not above 0.

    Example:
        >>> from redraft.folders import command
        >>> command("pytest -q").confirm
        2
    """
    if not line.strip() or confirm < 1 or timeout_s <= 0:
        raise ValueError(
            f"a check is a command, run at least once within some seconds, not {line!r}, {confirm}, {timeout_s}"
        )
    return Check(line, report, confirm, timeout_s)


class Count(NamedTuple):
    """What a run of tests says of itself."""

    passed: int
    total: int

    @property
    def share(self) -> float:
        return self.passed / self.total if self.total else 0.0


@dataclass(frozen=True)
class Judged:
    """One run of a check."""

    done: Finished
    count: Count | None

    @property
    def passed(self) -> bool:
        return self.done.code == 0 and not self.done.ended


@dataclass(frozen=True, eq=False)
class TreeVerifier:
    """A check in the role of a verifier: it is given a draft, and runs on a copy of the tree that the draft names.

    Args:
        check: The command.
        trees: Where trees are kept.
        box: How the command is kept in its copy.
        oracle: It is hidden: run at the end, and told to no writer.
    """

    check: Check
    trees: Trees
    box: Box = field(default_factory=Box)
    oracle: bool = False
    _before: dict[str, Count | None] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def name(self) -> str:
        return self.check.command

    def __call__(self, task: str, draft: str, state: Mapping[str, Any]) -> Critique:
        """Run it, and say what it found; the draft passes if it does, each time."""
        made, base = read_draft(draft), state["base_tree"]
        if not draft.startswith(draft_text(self.trees, base, made.tree, made.notes).rstrip()):
            return Critique(f"The text was edited, and is not what the tree {made.tree} holds: {EDITED}", False, 0.0)
        runs: list[Judged] = []
        while len(runs) < self.check.confirm and all(run.passed for run in runs):
            runs.append(self._run(made.tree))
        last = runs[-1]
        objection = self._objection(runs, before=base if made.tree != base else None)
        notes = [f"Note: {note}" for note in made.notes]
        told = [objection, *notes] if objection else []
        evidence = {
            "command": self.check.command,
            "code": last.done.code,
            "runs": len(runs),
            "tests": list(last.count) if last.count else None,
            "startup_files": startup_files(self.trees, base, made.tree),
        }
        score = 1.0 if not objection else min(last.count.share, 0.99) if last.count and not last.passed else 0.0
        return Critique("\n".join(told), not objection, score, evidence=evidence)

    def found(self, base: str) -> str:
        """Return what fails on the folder as it was found; empty where nothing does."""
        run = self._run(base)
        with self._lock:
            self._before[base] = run.count
        return "" if run.passed else self._failure(run)

    def _objection(self, runs: Sequence[Judged], before: str | None) -> str:
        """Return what is wrong; empty where the check passed each time, on all tests that there were before."""
        last = runs[-1]
        line = self.check.command
        if last.passed:
            count = None if before is None else self._counted_before(before)
            if count is None or (last.count is not None and last.count.total >= count.total):
                return ""
            now = "no test" if last.count is None else f"{last.count.total} tests"
            return f"`{line}` ran {now}, where it ran {count.total} before the work began: none may be taken away."
        return self._failure(last, wavers=len(runs) > 1)

    def _failure(self, run: Judged, *, wavers: bool = False) -> str:
        why = run.done.ended or f"it ended with {run.done.code}"
        more = ". It had passed on the same files: it wavers." if wavers else "."
        printed = (
            fenced(shortened(run.done.output, MOST_FEEDBACK)) if run.done.output.strip() else "It printed nothing."
        )
        return f"`{self.check.command}` fails: {why}{more}\n\n{printed}"

    def _counted_before(self, base: str) -> Count | None:
        """Return how many tests ran on the folder as it was found; it is looked at once."""
        with self._lock:
            if base not in self._before:
                self._before[base] = self._run(base).count
            return self._before[base]

    def _run(self, tree: str) -> Judged:
        with self.trees.copy(tree) as folder:
            done = replace(self.box, timeout_s=self.check.timeout_s).run(self.check.command, folder)
            return Judged(done, _reported(folder, self.check.report) or counted(done.output))


EDITED = "files are changed in a copy (`redraft checkout`), and not in the text of a draft."


def failures(folder: Path, commands: Sequence[str], *, plain: bool = False) -> str:
    """Return what of some commands fails in a folder, each run on a copy; empty where all pass."""
    with TemporaryDirectory(prefix="redraft-") as scratch:
        trees = Trees(scratch)
        tree = trees.snapshot(folder).tree
        judges = [TreeVerifier(command(line), trees, box=Box(plain, hidden=(str(folder),))) for line in commands]
        return "\n\n".join(text for judge in judges if (text := judge.found(tree)))


def startup_files(trees: Trees, base: str, tree: str) -> list[str]:
    """Return the changed files that run, or say what runs, before a test does: who judges should have seen them."""
    changed = [one.path for one in trees.changes(base, tree)]
    return [shown(path) for path in changed if matches(path.rpartition("/")[2], STARTUP)]


PYTEST = re.compile(r"^=*\s*((?:\d+ [a-z]+(?:, )?)+) in [\d.]+s.*$", re.MULTILINE)
RAN = re.compile(r"^Ran (\d+) tests? in ", re.MULTILINE)
FAILED = re.compile(r"^FAILED \((.*)\)$", re.MULTILINE)
TAP = re.compile(r"^(not )?ok\b", re.MULTILINE)
FOUND = re.compile(r"^Found (\d+) errors?\b", re.MULTILINE)


def counted(output: str) -> Count | None:
    """Return the tests that passed, and all, as the last summary in an output has them; `None` where it has none.

    A linter that found N errors counts as one of N + 1.
    """
    if lines := PYTEST.findall(output):
        counts = {word.rstrip("s"): int(number) for number, word in re.findall(r"(\d+) ([a-z]+)", lines[-1])}
        good = counts.get("passed", 0) + counts.get("xfailed", 0)
        return Count(good, good + counts.get("failed", 0) + counts.get("error", 0))
    if ran := RAN.findall(output):
        failed = sum(
            int(number)
            for line in FAILED.findall(output)[-1:]
            for number in re.findall(r"(?:failures|errors)=(\d+)", line)
        )
        return Count(int(ran[-1]) - failed, int(ran[-1]))
    if results := TAP.findall(output):
        return Count(results.count(""), len(results))
    return Count(1, int(found[-1]) + 1) if (found := FOUND.findall(output)) else None


def _reported(folder: Path, name: str) -> Count | None:
    """Return what a JUnit XML file says; `None` where there is none that can be read."""
    place = folder / name
    if not name or place.is_symlink() or not place.is_file():
        return None
    try:
        root = ET.fromstring(place.read_bytes()[: 16 << 20])  # noqa: S314  expat bounds what entities expand to
        suites = [root] if root.tag == "testsuite" else root.findall("testsuite")
        sums = {
            key: sum(int(one.get(key) or 0) for one in suites) for key in ("tests", "failures", "errors", "skipped")
        }
    except (ET.ParseError, ValueError):
        return None
    ran = sums["tests"] - sums["skipped"]
    return Count(ran - sums["failures"] - sums["errors"], ran)
