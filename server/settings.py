"""Server settings: address, storage, and the limits that no caller can raise. Internal."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, Field, field_validator, model_validator

from ..faces.pipeline_text import read_pipeline
from ..faces.problems import DEFAULT_DB, BadInputError
from ..faces.run_config import kept_spec
from ..state.limits import MOST, MOST_TOKENS

__all__ = ["LOOPBACK", "Settings", "check_shared"]

LOOPBACK = ("127.0.0.1", "localhost", "::1")
"""Hosts that only programs on this machine reach."""

SHORTEST_TOKEN = 16
NAME = re.compile("[a-z][a-z0-9-]{0,63}")
HOST = re.compile("[a-z0-9.-]+|[0-9a-f:]+")
ORIGIN = re.compile(r"https?://(?:[a-z0-9.-]+|\[[0-9a-f:]+\])(?::[0-9]{1,5})?")


def check_shared(db: str) -> None:
    """Raise ValueError unless workers can share a database: with SQLite one process serves and works."""
    from ..state.storage.checkpointers import kind_and_place

    if kind_and_place(db)[0] != "postgres":
        raise ValueError("workers apart from the server need PostgreSQL; with SQLite one process does both")


def _webhook_host(host: str) -> str:
    if not HOST.fullmatch(host):
        raise ValueError(f"a webhook is allowed by the name or number of its host, not {host!r}")
    return host


def _origin(origin: str) -> str:
    if origin != "*" and not ORIGIN.fullmatch(origin):
        raise ValueError(f"an origin is as a browser sends it, https://app.example:8443, not {origin!r}")
    return origin


Spec = Annotated[str, AfterValidator(kept_spec)]


class Settings(BaseModel, extra="forbid", frozen=True, hide_input_in_errors=True):
    """Settings of a server.

    Raises:
        ValueError: A value makes no sense, or the host is reachable from elsewhere and there is no token.
    """

    host: str = "127.0.0.1"
    port: int = Field(default=8000, ge=0, le=65535)
    """0 takes a free one."""
    db: str = DEFAULT_DB
    """As `open_checkpointer` takes it."""
    model: Spec = "local"
    """Spec of the model that writes, as `chat_model` takes it."""
    models: tuple[Spec, ...] = ()
    """Specs of further models that a caller may name instead."""
    documents: str | None = None
    """Folder whose files the preset `retrieval` searches; without it, or an `index`, that preset is not served."""
    index: str | None = None
    """A stored index that the preset `retrieval` searches in place of a folder."""
    prompts: str | None = None
    """File of prompts by name, for the preset of its kind of problems; read once."""
    judge: str | None = None
    """A file of `redraft calibrate`, for the presets that take one; read once."""
    evaluations: str | None = None
    """Folder of `redraft eval`, or above several: their reports open from the page, for who started the server."""
    pipelines: dict[str, str] = {}
    """Pipelines by the names under which they are served; each begins with the task of its caller."""
    recipes: dict[str, dict[str, Any]] = {}
    """Recipes by the names under which they are served, as `redraft choose` writes them."""
    work: bool = True
    """Execute runs here; else workers do, for which the database must be PostgreSQL."""
    prices: str | None = None
    """A file of prices, as `PriceTable.from_file` takes it, beside those that are known."""
    tokens: tuple[str, ...] = Field(default=(), repr=False)
    """Each stands for a caller of its own; without any, everybody who reaches the server is one caller."""
    metrics_tokens: tuple[str, ...] = Field(default=(), repr=False)
    """Each reads the numbers of all callers, and nothing else."""
    allow_origins: tuple[Annotated[str, AfterValidator(_origin)], ...] = ()
    """Sites whose pages may use the server from a browser, as `https://app.example`; `*`, with tokens only: all."""
    allow_webhooks: tuple[Annotated[str, AfterValidator(_webhook_host)], ...] = ()
    """Hosts that a webhook may lead to although they are on this machine or in its network."""

    max_body_bytes: int = Field(default=1_048_576, ge=1024)
    max_body_seconds: float = Field(default=30.0, gt=0)
    """Time within which a request's body must have arrived."""
    max_header_seconds: float = Field(default=10.0, gt=0)
    """Time within which a request's headers must have arrived."""
    max_connections_a_peer: int = Field(default=2048, ge=1)
    """Connections of one address; where a proxy stands in front, all are the proxy's."""
    max_task_characters: int = Field(default=50_000, ge=1)
    max_rounds: int = Field(default=10, ge=0)
    max_concurrent_runs: int = Field(default=256, ge=1)
    queue_length: int = Field(default=1024, ge=0)
    """Runs that wait for one of those to end."""
    max_seconds_a_run: float = Field(default=900.0, gt=0)
    """By the clock, from its start to its end; a run that takes longer is ended, and its thread can be resumed."""

    max_calls_a_run: int | None = Field(default=1000, ge=1, le=MOST)
    """Model calls, whichever node, agent, tool or judge makes them; likewise the five below."""
    max_tokens_a_run: int | None = Field(default=None, ge=1, le=MOST_TOKENS)
    max_cost_usd_a_run: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    max_calls_a_day: int | None = Field(default=None, ge=1, le=MOST_TOKENS)
    """Of a caller; days are those of UTC, by the clock of the database."""
    max_tokens_a_day: int | None = Field(default=None, ge=1, le=MOST_TOKENS)
    max_cost_usd_a_day: float | None = Field(default=None, gt=0, allow_inf_nan=False)

    max_attempts: int = Field(default=3, ge=1)
    """Processes that may die of a run, one after another and without a step further, before it is given up."""

    default_ttl: float | None = Field(default=None, gt=0, le=52_560_000)
    """Minutes without a change after which a thread is deleted, as LangGraph's `checkpointer.ttl`; `None`: never."""
    ttl_includes_interrupted: bool = False
    """Delete also threads that wait for a person, or whose run was cancelled."""
    sweep_interval_minutes: float = Field(default=5.0, gt=0)
    """How often threads are looked through for that."""
    sweep_limit: int = Field(default=1000, ge=1)
    """Threads that are deleted each time, at most."""

    @field_validator("pipelines", "recipes")
    @classmethod
    def _named(cls, served: dict[str, Any]) -> dict[str, Any]:
        for name in served:
            if not NAME.fullmatch(name):
                raise ValueError(f"it is served under a name of small letters, digits and -, not {name!r}")
        return served

    @field_validator("pipelines")
    @classmethod
    def _readable(cls, pipelines: dict[str, str]) -> dict[str, str]:
        read = {}
        for name, steps in pipelines.items():
            try:
                pipeline = read_pipeline(steps)
            except BadInputError as error:
                raise ValueError(f"the pipeline {name}: {error}") from None
            if any(step.name == "SetTopic" for step in pipeline.steps):
                raise ValueError(f"the pipeline {name} sets its topic, which is the caller's task: leave SetTopic out")
            read[name] = str(pipeline)
        return read

    @model_validator(mode="after")
    def _sound(self) -> Settings:
        if not self.work:
            check_shared(self.db)
            if not self.queue_length:
                raise ValueError("where workers run what waits, some runs must be allowed to wait: --max-waiting")
        if short := [
            token
            for token in (*self.tokens, *self.metrics_tokens)
            if len(token) < SHORTEST_TOKEN or not token.isascii()
        ]:
            raise ValueError(f"a token has {len(short[0])} characters; use at least {SHORTEST_TOKEN}, ASCII only")
        if set(self.tokens) & set(self.metrics_tokens):
            raise ValueError("a token for the metrics of all is no caller's token: use another one")
        if "*" in self.allow_origins and not self.tokens:
            raise ValueError("without tokens any page could use the server: name the origins that may")
        if self.host not in LOOPBACK and not self.tokens:
            raise ValueError(
                f"{self.host!r} can be reached from other machines, so a token is needed: "
                "--token-file FILE, or REDRAFT_SERVE_TOKENS"
            )
        return self
