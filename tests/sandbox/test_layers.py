"""Which layer decides, and what is said where one can't run; a machine that lacks one is a child process here."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from redraft.sandbox import Layer, Sandbox
from redraft.sandbox.dialect import difference
from redraft.sandbox.monty import MontyLayer
from redraft.sandbox.result import Limits

DIFFERENCES = Path(__file__).parents[2] / "benchmarks" / "monty_differences.py"

SQUARE = "def f(x):\n    return x * x"
LACKING = "import string\nstring.digits"
"""A module that Monty does not have."""


@pytest.fixture
def layered(alone: Callable[..., Sandbox]) -> Sandbox:
    """Monty, then CPython under seccomp, which needs no namespaces."""
    alone("monty")
    alone("seccomp")
    return Sandbox(layers=("monty", "seccomp"))


def test_a_run_in_monty_is_final_and_a_check_is_not(layered: Sandbox) -> None:
    """A value comes from the fast layer; a verdict, and what Monty is known to do otherwise, come from CPython."""
    assert layered.layers == ("monty", "seccomp")
    assert layered.run("1 + 1").layer == "monty"
    assert layered.check(SQUARE, "assert f(2) == 4", "f").layer == "seccomp"
    for code, value in (
        ("round(2.5)", 2),
        ("import re\nre.sub('x*', '-', 'x,')", "--,-"),
        ("str([1] * 3)", "[1, 1, 1]"),
    ):
        assert layered.run(code).value == value


def test_anything_but_a_value_is_run_again(layered: Sandbox) -> None:
    """What Monty can't run, or calls wrong, is decided by CPython."""
    assert (layered.run(LACKING).value, layered.run(LACKING).layer) == ("0123456789", "seccomp")
    wrong = layered.run("1 / 0")
    assert (wrong.status, wrong.layer) == ("failed", "seccomp")


def test_what_monty_does_otherwise_is_refused(alone: Callable[..., Sandbox]) -> None:
    """Of generated programs, none that Monty runs and is trusted with gives another value than CPython."""
    alone("monty")
    spec = importlib.util.spec_from_file_location("monty_differences", DIFFERENCES)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    limits = Limits(timeout_s=30, memory_mb=64, max_output=100)
    with MontyLayer(limits, parallel=1)._session(30.0) as session:
        for _, expression in module.programs(500, 20):
            if not difference(expression) and (value := module.in_monty(session, expression)) is not None:
                raised = value.endswith(("Error", "Exception")) and value.isidentifier()
                assert raised or value == module.in_cpython(expression), expression


def test_what_a_layer_lacks_is_no_failure_of_the_code(alone: Callable[..., Sandbox]) -> None:
    """Where only Monty runs, code beyond its Python is `unsupported`, and code that is wrong `failed`."""
    sandbox = alone("monty")
    assert sandbox.run(LACKING).status == "unsupported"
    assert sandbox.run("1 / 0").status == "failed"


@pytest.mark.parametrize("code", ["import numpy", "def f(x):\n    import numpy"])
def test_a_package_that_is_not_there_can_not_be_told(code: str, sandbox: Sandbox) -> None:
    """Code that needs an installed package is `unsupported`, by its own doing unless the task has the package too."""
    verdict = sandbox.check(code, "assert f(1) is None", "f")
    assert (verdict.status, verdict.by_code) == ("unsupported", True)
    verdict = sandbox.check(code, "assert f(1) is None", "f", helpers="if 0:\n    import numpy")
    assert (verdict.status, verdict.by_code) == ("unsupported", verdict.layer == "monty")


def test_a_layer_that_is_not_known_is_named_at_build() -> None:
    """A typing error in `layers` is refused with the names there are."""
    with pytest.raises(ValueError, match="monty, bubblewrap, seccomp"):
        Sandbox(layers=("docker",))  # type: ignore[arg-type]


@pytest.mark.parametrize("inputs", [{"two words": 1}, {"class": 1}, {"x": object()}])
def test_an_input_that_can_not_cross_is_refused(inputs: dict[str, object], sandbox: Sandbox) -> None:
    """A mistake of the caller is a TypeError, not a failure of the code."""
    with pytest.raises(TypeError):
        sandbox.run("1", inputs)


BUILD = """
import sys
for name in {hidden!r}:
    sys.modules[name] = None
from redraft.sandbox import Sandbox, SandboxUnavailableError
try:
    sandbox = Sandbox(layers={layers!r})
    print(*sandbox.layers, sandbox.run("6 * 7").value)
except SandboxUnavailableError as error:
    print("refused:", error)
"""


def _build(*layers: str, path: str = "", hidden: tuple[str, ...] = (), user: int | None = None) -> list[str]:
    given = [sys.executable, "-c", BUILD.format(layers=layers, hidden=hidden)]
    env = {**os.environ, "PATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    extra = {} if user is None else {"user": user, "group": user, "extra_groups": []}
    done = subprocess.run(given, env=env, cwd="/", capture_output=True, text=True, check=True, **extra)  # type: ignore[call-overload]
    return str(done.stdout).splitlines()


def test_without_bwrap_the_filter_alone_is_used(alone: Callable[..., Sandbox]) -> None:
    """A machine without bubblewrap still runs code, under seccomp."""
    alone("seccomp")
    assert _build("bubblewrap", "seccomp") == ["seccomp 42"]


def test_denied_namespaces_mean_the_filter_alone(tmp_path: Path, alone: Callable[..., Sandbox]) -> None:
    """Where bwrap is installed but may not make a namespace, as in many containers, seccomp steps in."""
    alone("seccomp")
    bwrap = tmp_path / "bwrap"
    bwrap.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    bwrap.chmod(0o755)
    assert _build("bubblewrap", "seccomp", path=str(tmp_path)) == ["seccomp 42"]
    (refusal,) = _build("bubblewrap", path=str(tmp_path))
    assert "No permissions to create new namespace" in refusal


def test_where_nothing_can_run_one_line_says_what_to_install() -> None:
    """A machine without any layer refuses at build, and names the packages that would help."""
    (refusal,) = _build("monty", "bubblewrap", "seccomp", hidden=("pydantic_monty", "pyseccomp"))
    assert refusal.startswith("refused: no sandbox can run here: monty needs pip install '.[sandbox]' in a checkout")
    if sys.platform == "linux":
        assert "libseccomp2" in refusal


def test_without_bwrap_its_package_is_named(alone: Callable[..., Sandbox]) -> None:
    """Someone who asks for bubblewrap alone is told how to get it."""
    alone("seccomp")
    (refusal,) = _build("bubblewrap")
    assert "apt install bubblewrap" in refusal


@pytest.mark.parametrize("layer", ["bubblewrap", "seccomp"])
@pytest.mark.skipif(getattr(os, "geteuid", int)() != 0, reason="without root, as all tests run here already")
def test_no_root_is_needed(layer: Layer, alone: Callable[..., Sandbox]) -> None:
    """A user without any rights runs code in the same layers, or is told in one line what this machine denies them."""
    alone(layer)
    try:
        (said,) = _build(layer, path=os.environ["PATH"], user=65534)
    except (PermissionError, subprocess.CalledProcessError):
        pytest.skip("this Python installation is closed to other users")
    assert said.endswith(" 42") or "refused by this machine" in said
