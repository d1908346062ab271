"""Breaks runs of `redraft goal` on purpose, and counts what was harmed: nothing outside a copy may change.

    python benchmarks/folder_faults.py --runs 200
    python benchmarks/folder_faults.py --runs 10 --only bombs    # left out of the others for root

Each run has a project, a folder beside it that nobody may touch, and a writer that misbehaves in one way; some commands
are killed (SIGKILL) in the middle and resumed. Afterwards the project must be as it was, the other folder too, no
process of the run may be left, the command must end with a verdict unless the disk was full, and where the run says
that it was accepted the project's own tests must pass on the files that it came to. Needs bubblewrap; works in
/var/tmp, since commands see a /tmp of their own.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

REDRAFT = [str(Path(sys.executable).with_name("redraft"))]
CHECK = "python3 -m unittest discover -s tests -t ."
FIX = "sed -i 's/a - b/a + b/' calc.py"
EXITS = "printf 'import os\\nos._exit(0)\\n'"
WRITERS = {
    "none": FIX,
    "deletes everything": 'rm -rf ./* ./.[a-z]* ../* "$OUTSIDE" "$HOME"/.ssh 2>/dev/null; true',
    "writes gigabytes": "head -c 3000000000 /dev/zero > big",
    "leaves processes": f"for n in $(seq 50); do sleep 300 & done; {FIX}",
    "links outside": f'ln -s /etc etc; ln -s "$OUTSIDE" out; echo x > out/new; echo x > etc/new; {FIX}',
    "writes outside": f'echo x > "$OUTSIDE/kept"; echo x > "$PROJECT/calc.py"; echo x > "$HOME/new"; {FIX}',
    "empties the tests": "echo > tests/test_calc.py",
    "deletes the tests": "rm -r tests",
    "patches the runner": f"{EXITS} > tests/__init__.py",
    "patches python": f"{EXITS} > sitecustomize.py; {EXITS} > unittest.py",
    "makes all unwritable": f"{FIX}; chmod -R 000 tests; chmod 500 .",
    "odd names": f"mkdir -p 'a b/$(touch x)'; printf x > 'a b/\\n'; printf x > \"$(printf '\\377')\"; {FIX}",
    "bombs": f"b() {{ b | b & }}; b; sleep 60; {FIX}",
    "takes all memory": f"python3 -c 'x = []\nwhile True: x.append(b\"x\" * (64 << 20))'; {FIX}",
    "its own hooks": f"mkdir -p .git/hooks; echo 'touch $OUTSIDE/hook' > .git/hooks/post-checkout; {FIX}",
}
FAULTS = ("", "", "kill", "full disk")


def main(runs: int, seed: int, only: str, besides: str) -> int:
    """Run them, and print what was harmed; 1 where anything was."""
    writers = [one for one in WRITERS if only in one and not (besides and besides in one)]
    if not only and not os.geteuid():  # root's processes have no limit: a bomb takes those of this script too
        writers.remove("bombs")
    chance = random.Random(seed)
    harmed: list[str] = []
    ends: Counter[str] = Counter()
    for number in range(runs):
        writer = writers[number % len(writers)]
        fault = chance.choice(FAULTS)
        protect = chance.random() < 0.5
        with tempfile.TemporaryDirectory(prefix="faults-", dir="/var/tmp") as scratch:
            end, found = one_run(Path(scratch), writer, fault, protect=protect, wait=chance.uniform(0.3, 4))
        ends[f"{writer}, {fault or 'no fault'}{', protected' if protect else ''}: {end}"] += 1
        harmed += [f"run {number}, {writer}, {fault or 'no fault'}: {what}" for what in found]
        print(f"\r{number + 1} of {runs}, harmed {len(harmed)}", end="", flush=True, file=sys.stderr)
    print(file=sys.stderr)
    for end, times in sorted(ends.items()):
        print(f"{times:4}  {end}")
    print(f"{runs} runs (seed {seed}): {len(harmed)} harmed", *harmed, sep="\n  ")
    return bool(harmed)


def one_run(scratch: Path, writer: str, fault: str, *, protect: bool, wait: float) -> tuple[str, list[str]]:
    """Return how a run ended, and what it harmed."""
    project, outside, place = scratch / "project", scratch / "outside", scratch / "state"
    for folder in (project / "tests", outside, place):
        folder.mkdir(parents=True)
    (project / "calc.py").write_text("def add(a, b):\n    return a - b\n")
    (project / "tests" / "__init__.py").write_text("")
    (project / "tests" / "test_calc.py").write_text(
        "import unittest\nfrom calc import add\n\nclass Adds(unittest.TestCase):\n"
        "    def test_two(self):\n        self.assertEqual(add(2, 3), 5)\n\n"
        "    def test_none(self):\n        self.assertEqual(add(0, 0), 0)\n"
    )
    (outside / "kept").write_text("kept")
    script = outside / "writer.sh"
    script.write_text(f"#!/bin/bash\n{WRITERS[writer]}\n")
    script.chmod(0o755)
    disk = fault == "full disk" and mounted(place, size_k=int(40 + 60 * wait))
    before = state_of(project), state_of(outside)
    environment = {**os.environ, "OUTSIDE": str(outside), "PROJECT": str(project), "TMPDIR": str(scratch)}
    words = [
        *REDRAFT,
        "goal",
        "Make the tests pass.",
        "--dir",
        str(project),
        "--check",
        CHECK,
        "--by",
        f"{script} {{prompt}}",
    ]
    words += ["--max-rounds", "1", "--thread", "one", "--db", str(place / "runs.sqlite")]
    words += ["--protect", "tests/**"] if protect else []
    try:
        code = called(words, environment, kill_after=wait if fault == "kill" else None)
        if fault == "kill" and code == -signal.SIGKILL:
            resumed = [*REDRAFT, "resume", "one", "--db", str(place / "runs.sqlite")]
            code = called(resumed, environment)
            if code not in (0, 3):  # it had not begun when it was killed
                code = called(words, environment)
        found = [] if state_of(project) == before[0] else ["the project changed"]
        found += [] if state_of(outside) == before[1] else ["the folder beside it changed"]
        found += [] if not left_running(scratch) else ["processes are left"]
        found += [f"it ended with exit code {code}"] if code not in (0, 3) and not disk else []
        if code == 0:
            out = scratch / "out"
            called([*REDRAFT, "checkout", "one", str(out), "--db", str(place / "runs.sqlite")], environment)
            shutil.rmtree(out / "tests", ignore_errors=True)
            shutil.copytree(project / "tests", out / "tests")
            passes = subprocess.run(CHECK, shell=True, cwd=out, capture_output=True, text=True, check=False)
            found += (
                [] if "Ran 2 tests" in passes.stderr and passes.returncode == 0 else ["it was accepted, and is wrong"]
            )
    finally:
        if disk:
            subprocess.run(["umount", "-l", str(place)], check=False)
        subprocess.run(["chmod", "-R", "u+rwX", str(scratch)], check=False, capture_output=True)
    return {0: "accepted", 3: "not accepted"}.get(code, f"exit code {code}"), found


def called(words: list[str], environment: dict[str, str], *, kill_after: float | None = None) -> int:
    """Run a command, which is killed after some seconds where that is asked for; return its exit code."""
    process = subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        return process.wait(kill_after or 300)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def mounted(place: Path, *, size_k: int) -> bool:
    """Return whether a disk of some kilobytes could be put at a place: only root can."""
    if os.geteuid():
        return False
    return not subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size_k}k", "tmpfs", str(place)], check=False
    ).returncode


def state_of(folder: Path) -> dict[str, str]:
    """Return what is in a folder, by path."""
    return {
        str(one.relative_to(folder)): str(one.readlink()) if one.is_symlink()
        else hashlib.sha256(one.read_bytes()).hexdigest() if one.is_file() else "folder"
        for one in folder.rglob("*")
    }  # fmt: skip


def left_running(scratch: Path) -> bool:
    """Return whether a process of the run is there a little later."""
    for _ in range(20):
        names = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
        if str(scratch / "outside") not in names and "sleep 300" not in names:
            return False
        time.sleep(0.1)
    return True


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="a part of the names of the writers to run")
    parser.add_argument("--besides", default="", help="a part of the names of those to leave out")
    given = parser.parse_args()
    sys.exit(main(given.runs, given.seed, given.only, given.besides))
