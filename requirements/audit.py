"""Looks for known vulnerabilities in what is installed, by pip-audit: a part of `make supply`.

Where the database can't be reached that is said, and nothing fails: a check that did not happen is no finding.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
AUDIT = [ROOT / ".venv/supply/bin/pip-audit", "--disable-pip", "--no-deps", "--progress-spinner=off", "--timeout=10"]
SETS = ("install", "demo", "dev", "serve")


def reached() -> bool:
    """Return whether the database knows of a package that is surely in it: pip-audit skips what it can't find."""
    pin = next(line for line in (ROOT / "constraints.txt").read_text().splitlines() if line.startswith("certifi=="))
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as one:
        one.write(f"{pin}\n")
        one.flush()
        probe = subprocess.run(
            [*AUDIT, "--format=json", "--requirement", one.name], capture_output=True, text=True, check=False
        )
    try:
        return all("skip_reason" not in found for found in json.loads(probe.stdout)["dependencies"])
    except (ValueError, KeyError):
        return False


def main() -> int:
    """Return 0 where nothing is known, or nothing could be asked."""
    if not reached():
        print("Not audited: the database of vulnerabilities can't be reached from here.")
        return 0
    named = [f"--requirement=requirements/{name}.txt" for name in SETS]
    return subprocess.run([*AUDIT, *named], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
