"""What is installed is what was looked at: known versions, known files, known licences."""

from __future__ import annotations

import importlib.util
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def script(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, ROOT / f"requirements/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


LICENCES, RENEW, AUDIT = script("licences"), script("renew"), script("audit")


def wanted(options: list[str]) -> list[str]:
    """Return what a set asks for, as pyproject.toml has it."""
    needs = list(PROJECT["project"]["dependencies"]) if "pyproject.toml" in options else []
    for option in options:
        kind, _, name = option.partition("=")
        if kind == "--extra":
            needs += PROJECT["project"]["optional-dependencies"][name]
        elif kind == "--group":
            needs += PROJECT["dependency-groups"][name.partition(":")[2]]
    return needs


@pytest.mark.parametrize("name", RENEW.SETS)
def test_each_set_is_pinned_by_hash(name: str) -> None:
    """`make` installs the versions of constraints.txt, each file known by its hash, wherever it comes from."""
    pins = re.sub(r"(?m)^#.*\n", "", (ROOT / "constraints.txt").read_text(encoding="utf-8")).split()
    text = (ROOT / f"requirements/{name}.txt").read_text(encoding="utf-8")
    assert "://" not in text
    entries = re.sub(r"\\\n\s*", "", re.sub(r"(?m)^#.*\n", "", text)).splitlines()
    assert all(re.fullmatch(r"[^ ]+==[^ ]+( ; [^-]+?)?( ?--hash=sha256:[0-9a-f]{64})+", one) for one in entries)
    found = {Requirement(one.split(" --hash")[0]) for one in entries}
    versions = {LICENCES.normal(one.name): str(one.specifier) for one in found}
    assert {f"{one}{version}" for one, version in versions.items()} <= {
        f"{LICENCES.normal(pin.split('==')[0])}=={pin.split('==')[1]}" for pin in pins
    }
    for need in map(Requirement, wanted(RENEW.SETS[name])):
        assert need.specifier.contains(versions[LICENCES.normal(need.name)][2:]), need


def test_nothing_is_installed_but_by_hash() -> None:
    """No install of the Makefile or the image takes a file that is not known, or looks for more than is listed."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "--no-deps" in re.findall(r"(?m)^INSTALL := (.*)", makefile)[0]
    dockerfile = re.sub(r"\\\n\s*", "", (ROOT / "Dockerfile").read_text(encoding="utf-8"))
    installs = [
        line for line in (makefile + dockerfile).splitlines() if re.search("install .*--requirement|^LOCKED", line)
    ]
    assert len(installs) == 5
    assert all("--require-hashes" in line for line in installs)
    assert all("--no-deps" in line for line in re.findall("pip install.*", dockerfile))


def test_every_licence_is_one_that_is_allowed() -> None:
    """Whoever ships redraft in closed software owes nobody their source: each package's licence is a permissive one."""
    found = LICENCES.installed()
    exceptions = LICENCES.EXCEPTIONS
    assert len(found) > 100
    assert {name: spdx for name, spdx in found.items() if not LICENCES.is_spdx(spdx)}.items() <= exceptions.items()
    listed = LICENCES.PAGE.read_text(encoding="utf-8")
    assert [name for name, spdx in found.items() if f"| {name} | {spdx} |" not in listed] == []


FAKE_AUDIT = """
import sys
if "--format=json" in sys.argv:
    print({probe!r})
sys.exit({code})
"""
KNOWN, SKIPPED = '{"name": "certifi", "vulns": []}', '{"name": "certifi", "skip_reason": "could not be reached"}'


@pytest.mark.parametrize(
    ("probe", "code", "required", "returned", "said"),
    [
        (f'{{"dependencies": [{KNOWN}]}}', 0, "", 0, "Audited install, demo, dev, serve: no known vulnerabilities."),
        (f'{{"dependencies": [{KNOWN}]}}', 1, "", 1, "Audited install, demo, dev, serve: see above."),
        (f'{{"dependencies": [{SKIPPED}]}}', 0, "", 0, "NOT AUDITED: nothing was looked up"),
        (f'{{"dependencies": [{SKIPPED}]}}', 0, "1", 1, "NOT AUDITED: nothing was looked up"),
        ('{"dependencies": []}', 0, "1", 1, "NOT AUDITED: nothing was looked up"),
        ("", 1, "", 0, "NOT AUDITED: nothing was looked up"),
        ("", 1, "1", 1, "NOT AUDITED: nothing was looked up"),
    ],
)
def test_an_audit_that_did_not_happen_is_called_that(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    probe: str,
    code: int,
    required: str,
    returned: int,
    said: str,
) -> None:
    """Where the database can't be reached the last line says so, and it is a failure where an audit is required."""
    fake = tmp_path / "audit.py"
    fake.write_text(FAKE_AUDIT.format(probe=probe, code=code))
    monkeypatch.setattr(AUDIT, "AUDIT", [sys.executable, str(fake)])
    monkeypatch.setenv("REDRAFT_REQUIRE_AUDIT", required)
    assert AUDIT.main() == returned
    assert capsys.readouterr().out.splitlines()[-1].startswith(said)


def test_the_workflows_require_an_audit() -> None:
    """Where everything is run before a change lands, and before a release, not to be audited is a failure."""
    for name in ("ci", "release"):
        text = (ROOT / f".github/workflows/{name}.yml").read_text(encoding="utf-8")
        steps = [step for job in yaml.safe_load(text)["jobs"].values() for step in job["steps"]]
        (run,) = [step for step in steps if step.get("run") == ".ci/run"]
        assert run["env"] == {"REDRAFT_REQUIRE_AUDIT": "1"}


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"version": "0.3.0"}, ["no section", "does not name version 0.3.0", "no tag v0.3.0"]),
        ({"changelog": "## [Unreleased]\n\n- A change.\n\n## [0.2.0] - 2026-12-01\n"}, ["under"]),
        ({"tags": ["v0.1.0"]}, ["no tag v0.2.0"]),
        ({"changes": " M README.md"}, ["git status"]),
        ({}, []),
    ],
)
def test_a_release_says_what_is_missing(changed: dict[str, Any], told: list[str]) -> None:
    """`make release` names what keeps a version from being uploaded: changelog, citation, tag, or changed files."""
    ready = {
        "version": "0.2.0",
        "changelog": "## [Unreleased]\n\n## [0.2.0] - 2026-12-01\n\n- A change.\n",
        "citation": "cff-version: 1.2.0\nversion: 0.2.0\n",
        "tags": ["v0.2.0"],
        "changes": "",
    }
    found = script("release").problems(**{**ready, **changed})
    assert len(found) == len(told)
    assert all(words in problem for words, problem in zip(told, found, strict=True))
