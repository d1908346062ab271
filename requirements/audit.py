"""Looks for known vulnerabilities in what is installed, by pip-audit: a part of `make supply`.

Where the database can't be reached the last line says that nothing was audited. That fails nothing, unless
REDRAFT_REQUIRE_AUDIT=1 asks for an audit, as the workflows do.
"""

from __future__ import annotations

import json
import os
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
        found = json.loads(probe.stdout)["dependencies"]
    except (ValueError, KeyError):
        return False
    return bool(found) and all("skip_reason" not in one for one in found)


def main() -> int:
    """Return 0 where nothing is known, or where nothing could be asked and nobody requires that it is."""
    if not reached():
        print("NOT AUDITED: nothing was looked up, since the database of vulnerabilities can't be reached from here.")
        return int(os.environ.get("REDRAFT_REQUIRE_AUDIT") == "1")
    named = [f"--requirement=requirements/{name}.txt" for name in SETS]
    code = subprocess.run([*AUDIT, *named], cwd=ROOT, check=False).returncode
    print(f"Audited {', '.join(SETS)}: {'see above' if code else 'no known vulnerabilities'}.")
    return code


if __name__ == "__main__":
    sys.exit(main())
