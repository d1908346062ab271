"""Builds a release and checks it: `make release`. Nothing is uploaded; the last lines say what would be.

The upload is the release workflow's, which does so when the tag is pushed.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist" / "release"
TWINE = ROOT / ".venv/release/bin/twine"


def output_of(*command: str) -> str:
    """Return what git says; empty where it fails, or where this is no checkout."""
    try:
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
    except FileNotFoundError:
        return ""


def problems(version: str, changelog: str, citation: str, tags: list[str], changes: str) -> list[str]:
    """Return what keeps a version from being released, each in a sentence.

    Args:
        version: Of pyproject.toml.
        changelog: Text of CHANGELOG.md.
        citation: Text of CITATION.cff.
        tags: Those on the commit that is checked out.
        changes: What `git status --porcelain` prints.
    """
    found = []
    if not re.search(rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", changelog, re.MULTILINE):
        found.append(f'CHANGELOG.md has no section "## [{version}] - YYYY-MM-DD".')
    unreleased = re.search(r"^## \[Unreleased\]\n(.*?)(?=^## \[|\Z)", changelog, re.MULTILINE | re.DOTALL)
    if unreleased and unreleased[1].strip():
        found.append('CHANGELOG.md still has changes under "Unreleased".')
    if not re.search(rf'^version: "?{re.escape(version)}"?$', citation, re.MULTILINE):
        found.append(f"CITATION.cff does not name version {version}.")
    if f"v{version}" not in tags:
        found.append(f"The commit has no tag v{version}: git tag -s v{version}")
    if changes:
        found.append("Files differ from the commit: see git status.")
    return found


def main() -> int:
    """Return 0 where the release is ready, 1 where something keeps it from being uploaded."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    found = problems(
        version,
        (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"),
        (ROOT / "CITATION.cff").read_text(encoding="utf-8"),
        output_of("git", "tag", "--points-at", "HEAD").split(),
        output_of("git", "status", "--porcelain"),
    )
    shutil.rmtree(DIST, ignore_errors=True)
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(DIST), str(ROOT)]
    built = subprocess.run(build, capture_output=True, text=True, check=False)
    if built.returncode:
        print(built.stdout[-2000:], built.stderr[-2000:], sep="\n", file=sys.stderr)
        print("The build failed.", file=sys.stderr)
        return 1
    files = sorted(DIST.iterdir())
    checked = subprocess.run([TWINE, "check", "--strict", *files], check=False)
    if checked.returncode:
        found.append("twine check does not pass.")
    for problem in found:
        print(f"not ready: {problem}")
    print(f"{'Would upload, once that is mended' if found else 'Would upload'} (nothing is uploaded from here):")
    for file in files:
        print(f"  {file.name}  {file.stat().st_size:,} bytes")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
