"""The licence of each installed package as an SPDX expression: `python requirements/licences.py` lists them in docs/.

Packages say it in three ways, of which only the newest is SPDX; `SAID` reads the others.
"""

from __future__ import annotations

import re
import sysconfig
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/licences.md"

ALLOWED = {"0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "CNRI-Python", "ISC", "MIT", "MIT-0",
           "MIT-CMU", "MPL-2.0", "PSF-2.0", "Unlicense", "Zlib"}  # fmt: skip
"""What redraft may be used with in closed software, too."""
EXCEPTIONS = {"psycopg": "LGPL-3.0-only", "psycopg-binary": "LGPL-3.0-only", "psycopg-pool": "LGPL-3.0-only"}
"""In the extra `postgres` alone, and used as they are, which the LGPL allows to any program; LangGraph's saver
for PostgreSQL has no other driver."""
BY_HAND = {"agent-client-protocol": "Apache-2.0", "dulwich": "Apache-2.0", "quickjs-ng": "MIT", "resvg-py": "MIT"}
"""Of packages whose metadata say nothing: from their licence files. Of dulwich's two licences this one is chosen."""

_APACHE, _BSD3 = "Apache-2.0", "BSD-3-Clause"
SAID = {
    "2-clause BSD": "BSD-2-Clause", "3-Clause BSD License": _BSD3, "Apache 2.0": _APACHE, "BSD": _BSD3,
    "Apache License, Version 2.0": _APACHE, "Apache Software License": _APACHE, "BSD 2-Clause License": "BSD-2-Clause",
    "BSD 3-Clause License": _BSD3, "BSD License": _BSD3, "ISC License (ISCL)": "ISC", "ISC License": "ISC",
    "ISC license": "ISC", "MIT License": "MIT", "MIT, BSD": "MIT AND BSD-3-Clause",
    "MIT License, Apache License, Version 2.0": "MIT OR Apache-2.0", "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0", "The MIT License (MIT)": "MIT",
    "BSD-3-Clause, Apache-2.0, dependency licenses": "BSD-3-Clause AND Apache-2.0",
}  # fmt: skip
"""What packages write in place of an SPDX expression → that expression."""


def licence(package: metadata.PackageMetadata) -> str:
    """Return the SPDX expression of a package's licence; as it was said, where that is not understood."""
    if told := BY_HAND.get(normal(package["Name"])) or package.get("License-Expression"):
        return str(told)
    said = (package.get("License") or "").strip().partition("\n")[0]  # some put the licence's whole text there
    classified = [one.split("::")[-1].strip() for one in package.get_all("Classifier", []) if one.startswith("License")]
    names = [said] if said in SAID or is_spdx(said) else [one for one in classified if one in SAID]
    return " AND ".join(SAID.get(name, name) for name in names) or said or "unknown"


def is_spdx(expression: str) -> bool:
    """Return whether every licence in an expression is one that is allowed."""
    return set(re.split(r"\s+(?:AND|OR)\s+|[()\s]+", expression)) - {""} <= ALLOWED and bool(expression)


def normal(name: str) -> str:
    """Return the one name that the index knows a package by."""
    return re.sub(r"[-_.]+", "-", name).lower()


def locked() -> set[str]:
    """Return the names of the packages that the demo, the tests and the image install."""
    files = [ROOT / f"requirements/{name}.txt" for name in ("install", "demo", "dev", "serve")]
    return {normal(line.split("==")[0]) for file in files for line in file.read_text().splitlines() if "==" in line}


def installed() -> dict[str, str]:
    """Return the licence of each locked package that is installed here."""
    # Not the whole search path: Ray puts a folder with packages of its own on it.
    places = sorted({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})
    found = {normal(one.metadata["Name"]): licence(one.metadata) for one in metadata.distributions(path=places)}
    return {name: found[name] for name in sorted(found.keys() & locked())}


def main() -> None:
    """Write the page."""
    rows = "".join(f"| {name} | {spdx} |\n" for name, spdx in installed().items())
    PAGE.write_text(f"{HEAD}\n| package | licence |\n| --- | --- |\n{rows}", encoding="utf-8")


HEAD = """# Licences

redraft is MIT. These packages are installed with all its extras and for its tests, each with its licence as SPDX has it
(`requirements/licences.py` writes this page from the packages' own metadata, and a test holds it to the list of allowed
ones there). psycopg, in the extra `postgres` alone, is under the LGPL, and used as it is.
"""

if __name__ == "__main__":
    main()
