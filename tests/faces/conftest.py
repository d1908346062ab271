"""The shell, called as a user calls it, in an empty folder."""

from __future__ import annotations

import importlib.util
import json
import os
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from redraft.faces.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@dataclass(frozen=True)
class Shown:
    """What a command printed, and the code that it ended with."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Shown]:
    """Call `redraft` with words as the shell would have split them."""
    monkeypatch.chdir(tmp_path)
    for name in ("REDRAFT_MODEL", "REDRAFT_DB", "REDRAFT_DEBUG", "REDRAFT_ENCRYPTION_KEY", "REDRAFT_SEAL_KEY"):
        monkeypatch.delenv(name, raising=False)

    def call(*words: str) -> Shown:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(words)
        shown = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return Shown(ended.value.code, shown.out, shown.err)

    return call


@pytest.fixture
def scripted(tmp_path: Path) -> Callable[..., str]:
    """Write a script of replies; its spec."""
    written = 0

    def write(*replies: str | dict[str, Any]) -> str:
        nonlocal written
        written += 1
        path = tmp_path / f"replies-{written}.jsonl"
        path.write_text("".join(json.dumps(reply) + "\n" for reply in replies), encoding="utf-8")
        return f"scripted:{path}"

    return write


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One Chromium for all tests; where there is none they are skipped, in CI they fail."""
    # The tests are no package, so that none of their modules can be imported under two names.
    spec = importlib.util.spec_from_file_location("redraft_tests_chromium", Path(__file__).with_name("chromium.py"))
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with ExitStack() as stack:
        try:
            found = stack.enter_context(module.started(tmp_path_factory.mktemp("chromium")))
        except LookupError as missing:
            if os.environ.get("REDRAFT_REQUIRE_CHROMIUM"):
                pytest.fail(f"REDRAFT_REQUIRE_CHROMIUM is set, but {missing}", pytrace=False)
            pytest.skip(str(missing))
        yield found


@pytest.fixture
def chromium(browser: Any) -> Any:
    """The browser, as a desk has it."""
    browser.looks(1400)
    return browser
