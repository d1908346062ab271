"""Writes each set of packages that is installed to a file of its own, with the hashes: `make requirements`."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
UV = ROOT / ".venv/supply/bin/uv"
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
HEAD = "# The versions of constraints.txt with the hashes of their wheels, written by `make requirements`.\n"


def extras(pattern: str, text: str) -> list[str]:
    """Return the options that name the extras which a file installs."""
    found = re.search(pattern, text)
    if found is None:
        raise SystemExit(f"no extras at {pattern!r}")
    return [f"--extra={name}" for name in found[1].split(",")]


SETS = {
    "install": ["--group=pyproject.toml:install"],
    "demo": ["pyproject.toml", "--extra=local"],
    "dev": ["pyproject.toml", "--group=pyproject.toml:dev", *extras(r"(?m)^EXTRAS := (\S+)$", MAKEFILE)],
    "serve": ["pyproject.toml", *extras(r'"\.\[([\w,]+)\]"', DOCKERFILE)],
    "docs": ["--group=pyproject.toml:docs"],
    "release": ["--group=pyproject.toml:release"],
    "supply": ["--group=pyproject.toml:supply"],
}


def main() -> None:
    """Resolve each set for every platform and Python, and write it."""
    options = [
        "--quiet",
        "--universal",  # one file, with markers, for Python 3.11 and later on every system
        "--python-version=3.11",
        "--only-binary=:all:",
        "--generate-hashes",
        "--no-annotate",
        "--no-header",
        "--constraint=constraints.txt",
    ]
    for name, wanted in SETS.items():
        command = [UV, "pip", "compile", *options, *wanted]
        found = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
        (ROOT / f"requirements/{name}.txt").write_text(HEAD + found.stdout, encoding="utf-8")


if __name__ == "__main__":
    main()
