"""One sandbox for each layer, alone, so that a layer can't hide behind another."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable

import pytest
from redraft.nodes.sandbox import Layer, Sandbox, SandboxUnavailableError


@functools.cache
def _alone(layer: Layer, timeout_s: float) -> Sandbox:
    return Sandbox(layers=(layer,), timeout_s=timeout_s, memory_mb=128)


@pytest.fixture
def alone() -> Callable[..., Sandbox]:
    """Makes a sandbox of one layer; where it can't run, skips the test; fails if REDRAFT_REQUIRE_SANDBOX names it."""

    def make(layer: Layer, timeout_s: float = 10.0) -> Sandbox:
        try:
            return _alone(layer, timeout_s)
        except SandboxUnavailableError as error:
            if layer in os.environ.get("REDRAFT_REQUIRE_SANDBOX", "").split(","):
                pytest.fail(f"REDRAFT_REQUIRE_SANDBOX names {layer}, but {error}", pytrace=False)
            pytest.skip(str(error))

    return make


@pytest.fixture(params=["monty", "bubblewrap", "seccomp"])
def layer(request: pytest.FixtureRequest) -> Layer:
    """Each layer in its turn."""
    name: Layer = request.param
    return name


@pytest.fixture
def sandbox(layer: Layer, alone: Callable[..., Sandbox]) -> Sandbox:
    """`layer` alone, with time enough for a busy machine."""
    return alone(layer)


@pytest.fixture
def hasty(layer: Layer, alone: Callable[..., Sandbox]) -> Sandbox:
    """`layer` alone, for code that is expected to use up its time."""
    return alone(layer, 0.2)
