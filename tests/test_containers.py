"""Whoever builds the image and starts it with its database finds that what the two files name is there."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
LINES = re.sub(r"\\\n\s*", "", (ROOT / "Dockerfile").read_text(encoding="utf-8")).splitlines()
STEPS = [line.split(maxsplit=1) for line in LINES if line and not line.startswith("#")]
COMPOSE: Any = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
SERVER: Any = COMPOSE["services"]["redraft"]
WORKER: Any = COMPOSE["services"]["worker"]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def steps(name: str) -> list[str]:
    return [told.strip() for step, told in STEPS if step == name]


def entry() -> list[str]:
    found: list[str] = json.loads(steps("ENTRYPOINT")[-1])
    return found


def test_every_path_that_is_copied_exists() -> None:
    """The image gets each folder of the package, what builds it, and nothing else of the checkout."""
    copied = {path for told in steps("COPY") if not told.startswith("--") for path in told.split()[:-1]}
    assert all((ROOT / path).exists() for path in copied)
    packages = {path.partition("/")[0] for path in PYPROJECT["tool"]["setuptools"]["package-dir"].values()}
    hashes = {"requirements/install.txt", "requirements/serve.txt"}
    assert packages | {"pyproject.toml", PYPROJECT["project"]["readme"], "LICENSE"} | hashes == copied
    allowed = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert allowed[0] == "*"
    assert {line[1:] for line in allowed if line.startswith("!")} == copied


def test_every_extra_exists() -> None:
    """The image is installed with extras that there are, with what `REDRAFT_ENCRYPTION_KEY` needs among them, and their
    packages are in the file of hashes."""
    extras = set(",".join(re.findall(r'"\.\[([\w,]+)\]"', " ".join(steps("RUN")))).split(","))
    offered = PYPROJECT["project"]["optional-dependencies"]
    assert {"serve", "postgres", "encryption"} <= extras <= offered.keys()
    hashed = (ROOT / "requirements/serve.txt").read_text(encoding="utf-8").lower().replace("_", "-")
    for needed in (Requirement(one) for extra in extras for one in offered[extra]):
        assert f"\n{needed.name.lower()}==" in hashed, needed


def test_the_image_is_safe_to_start() -> None:
    """It runs as nobody in particular, is asked for its health where the server tells it, and carries no secret."""
    assert int(steps("USER")[-1]) > 0
    assert "/healthz" in steps("HEALTHCHECK")[0]
    assert STEPS.index(["USER", steps("USER")[-1]]) > max(at for at, (step, _) in enumerate(STEPS) if step == "RUN")
    named = " ".join(steps("ENV") + steps("ARG")).upper()
    assert not re.search("TOKEN|KEY|PASSWORD|SECRET", named)
    python = re.fullmatch(r"python:(3\.\d+)-slim", steps("FROM")[-1])
    assert python
    assert f"Programming Language :: Python :: {python[1]}" in PYPROJECT["project"]["classifiers"]


def test_the_command_line_is_one_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`redraft` takes the words that the image and the compose file start it with, and without a token it refuses."""
    from redraft.faces.cli.main import app
    from redraft.server import Settings

    program, command, *words = [*entry(), *SERVER["command"]]
    assert program in PYPROJECT["project"]["scripts"]
    serve: Any = typer.main.get_command(app).get_command(None, command)  # type: ignore[attr-defined]
    for name in SERVER["environment"]:
        monkeypatch.setenv(name, "postgresql://redraft@db/redraft")
    given = serve.make_context(command, words).params
    assert (given["host"], given["port"]) == ("0.0.0.0", 8000)
    assert given["db"].startswith("postgresql://")
    assert given["model"]
    assert given["token_file"] == Path("/run/secrets/tokens")
    assert given["no_work"] is True
    program, command, *words = WORKER["entrypoint"]
    worker: Any = typer.main.get_command(app).get_command(None, command)  # type: ignore[attr-defined]
    assert worker.make_context(command, words).params["db"] == given["db"]
    assert not {"ports", "secrets"} & WORKER.keys()  # nobody reaches it, so that it needs no token
    assert all(WORKER[name] == SERVER[name] for name in WORKER.keys() & SERVER.keys())
    with pytest.raises(ValueError, match="a token is needed"):
        Settings(host=given["host"])


def test_every_variable_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the compose file puts into the environment is read by the command, by its models or by the database's
    client; no value is a secret."""
    from psycopg.pq import Conninfo
    from redraft.faces.cli.main import app

    serve: Any = typer.main.get_command(app).get_command(None, "serve")  # type: ignore[attr-defined]
    by_options: set[str] = set()
    for option in serve.params:
        by_options.update([option.envvar] if isinstance(option.envvar, str) else option.envvar or [])
    by_client = {option.envvar.decode() for option in Conninfo.get_defaults() if option.envvar}
    assert SERVER["environment"].keys() <= by_options | by_client | {"OPENAI_API_KEY"}
    for name, value in [*SERVER["environment"].items(), *COMPOSE["services"]["db"]["environment"].items()]:
        if re.search("KEY|PASSWORD|TOKEN", name):
            assert re.fullmatch(r"\$\{\w+:\?[^}]+\}", value), name
    assert COMPOSE["secrets"].keys() == set(SERVER["secrets"])


def test_the_two_belong_together() -> None:
    """The server waits for the database, knows its user and name, and is reached from this machine alone; its files
    can't be written to."""
    database = COMPOSE["services"]["db"]
    user, name = database["environment"]["POSTGRES_USER"], database["environment"]["POSTGRES_DB"]
    assert SERVER["environment"]["REDRAFT_DB"] == f"postgresql://{user}@db/{name}"
    assert SERVER["depends_on"] == {"db": {"condition": "service_healthy"}}
    assert {user, name} <= set(database["healthcheck"]["test"])
    assert [mount.split(":")[0] for mount in database["volumes"]] == list(COMPOSE["volumes"])
    port = steps("EXPOSE")[-1]
    assert SERVER["ports"] == [f"127.0.0.1:{port}:{port}"]
    assert port in entry()
    assert SERVER["read_only"] is True
    assert SERVER["cap_drop"] == ["ALL"]
    assert "privileged" not in SERVER
