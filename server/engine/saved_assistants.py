"""Assistants that callers made: a preset with a model and options of theirs, in versions. Internal."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from ...graphs.registry import option_names
from ...nodes.runtime.killable import off_loop
from ..settings import Settings
from .assistants import Assistant, Assistants
from .call_options import call_options, checked_options
from .item_records import Item
from .records import Database, now
from .requests import can_be_id, checked_id
from .runs import BadRequestError, Caller, NotThereError, TakenError

__all__ = ["SavedAssistants"]

MOST_ASSISTANTS, MOST_VERSIONS = 500, 50
"""Of one caller, and of one assistant."""
NOT_OPTIONS = frozenset({"thread_id", "checkpoint_id", "checkpoint_ns", "assistant_id", "graph_id", "user_id"})
"""Keys of LangGraph's own in `configurable`."""


class SavedAssistants:
    """The presets, which stay as they are, and the assistants that callers made, each reached by its owner alone.

    A version is what clients read: `graph_id`, `config`, `context`, `metadata`, `name`, `description`, `version` and
    `created_at`. Of `context`, and of `config["configurable"]`, `model` is a model that the server allows, and the rest
    options of the preset that callers may set.

    Args:
        db: Where they are.
        presets: What they are made of.
        settings: The limits.
    """

    def __init__(self, db: Database, presets: Assistants, settings: Settings) -> None:
        self._items = db.records.saved
        self._db = db
        self._presets = presets
        self._settings = settings

    async def create(
        self, caller: Caller, assistant_id: str | None, fields: Mapping[str, Any], *, if_exists: str
    ) -> dict[str, Any]:
        """Make an assistant, and return it.

        Raises:
            BadRequestError: An option makes no sense, or is no caller's to set.
            NotThereError: There is no such preset.
            TakenError: The id is in use.
        """
        name = str(uuid.uuid4()) if assistant_id is None else checked_id(assistant_id)
        if name in self._presets.known:
            raise TakenError("a preset of the server has this id")
        version = await self._version(fields, {"metadata": {}, "config": {}, "context": {}, "name": name}, 1)
        if await self._db.read(self._items.count, caller.id) >= MOST_ASSISTANTS:
            raise BadRequestError(f"a caller has {MOST_ASSISTANTS} assistants at most")
        added = await self._db.write(
            self._items.put, caller.id, (), name, {"latest": 1, "versions": [version]}, now=now(), new=True
        )
        if not added and if_exists != "do_nothing":
            raise TakenError("this assistant id is in use")
        return await self.get(caller, name)

    async def get(self, caller: Caller, assistant_id: str) -> dict[str, Any]:
        """Return an assistant in its latest version.

        Raises:
            NotThereError: There is none of this id, or it is another's.
        """
        if assistant_id in self._presets.known:
            return _preset_json(self._presets.get(assistant_id))
        return _assistant_json(await self._item(caller, assistant_id))

    async def every(self, caller: Caller) -> list[dict[str, Any]]:
        """Return all of a caller's, the last changed first, and behind them the presets that are listed."""
        async with self._db.turns[caller.id]:
            keys = await off_loop(self._items.keys, caller.id)
            # One after the other: no more than one is in memory with its earlier versions.
            own = [
                _assistant_json(item)
                for _, key in keys
                if (item := await off_loop(self._items.get, caller.id, (), key)) is not None
            ]
        return own + [_preset_json(preset) for preset in self._presets.known.values() if preset.served.listed]

    async def versions(self, caller: Caller, assistant_id: str) -> list[dict[str, Any]]:
        """Return the versions of an assistant, the newest first; a preset has one."""
        if assistant_id in self._presets.known:
            return [_preset_json(self._presets.get(assistant_id))]
        item = await self._item(caller, assistant_id)
        return [{**version, "assistant_id": item.key} for version in reversed(item.value["versions"])]

    async def update(self, caller: Caller, assistant_id: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Add a version, which becomes the latest, and return it; metadata are put over those before."""

        async def added(item: Item) -> dict[str, Any]:
            before = _latest(item)
            metadata = {**before["metadata"], **(fields.get("metadata") or {})}
            versions = item.value["versions"]
            if fields.get("graph_id") not in (None, before["graph_id"]):
                before = {**before, "context": {}, "config": {}}  # another preset has other options
            version = await self._version({**fields, "metadata": metadata}, before, versions[-1]["version"] + 1)
            return {"latest": version["version"], "versions": [*versions, version][-MOST_VERSIONS:]}

        return await self._change(caller, assistant_id, added)

    async def set_latest(self, caller: Caller, assistant_id: str, version: int) -> dict[str, Any]:
        """Make an earlier version the one that is run, and return it."""

        async def chosen(item: Item) -> dict[str, Any]:
            if version not in {one["version"] for one in item.value["versions"]}:
                raise NotThereError("there is no such version")
            return {**item.value, "latest": version}

        return await self._change(caller, assistant_id, chosen)

    async def delete(self, caller: Caller, assistant_id: str) -> None:
        """Forget an assistant; its threads stay."""
        await self._item(caller, assistant_id)
        await self._db.write(self._items.remove, caller.id, (), assistant_id)

    async def resolved(
        self,
        caller: Caller,
        assistant_id: str,
        context: Mapping[str, Any] | None = None,
        configurable: Mapping[str, Any] | None = None,
    ) -> tuple[str, str | None, dict[str, Any]]:
        """Return the preset that a run is made with, the model, and the options: those of a run go over its
        assistant's. What else is `configurable` is not looked at: clients of LangGraph's send all that they hold there.

        Raises:
            BadRequestError: The context holds something else.
            NotThereError: There is no such assistant.
        """
        saved = await self.get(caller, assistant_id)
        known = {"model", *call_options(self._presets.get(saved["graph_id"]), self._settings).model_fields}
        own = {name: value for name, value in (configurable or {}).items() if option_names().get(name, name) in known}
        return (saved["graph_id"], *_parted({**_own(saved), **own, **(context or {})}))

    async def _version(self, fields: Mapping[str, Any], before: Mapping[str, Any], number: int) -> dict[str, Any]:
        """Return a version: what is given, and for the rest what was before."""
        merged = {
            name: fields[name] if fields.get(name) is not None else before.get(name)
            for name in ("graph_id", "config", "context", "metadata", "name", "description")
        }
        preset = self._presets.get(str(merged["graph_id"]))
        model, options = _parted(_own(merged))
        self._presets.spec(model)
        if options:
            await off_loop(checked_options, preset, self._settings, options)
        return {**merged, "version": number, "created_at": now()}

    async def _item(self, caller: Caller, assistant_id: str) -> Item:
        if assistant_id in self._presets.known:
            raise BadRequestError("a preset of the server stays as it is: make an assistant of it (POST /assistants)")
        is_id = can_be_id(assistant_id)
        item = await self._db.read(self._items.get, caller.id, (), assistant_id) if is_id else None
        if item is None:
            raise NotThereError("there is no such assistant")
        return item

    async def _change(
        self, caller: Caller, assistant_id: str, change: Callable[[Item], Awaitable[Mapping[str, Any]]]
    ) -> dict[str, Any]:
        """Write what a function makes of an assistant, and return the assistant as written."""
        while True:
            item = await self._item(caller, assistant_id)
            changed = item._replace(value=await change(item), updated_at=now())
            # Only as it was read: else of two requests at once one would undo what the other has written.
            put = partial(self._items.put, caller.id, (), assistant_id, changed.value)
            if await self._db.write(put, now=changed.updated_at, instead=item):
                return _assistant_json(changed)


def _latest(item: Item) -> dict[str, Any]:
    return next(version for version in item.value["versions"] if version["version"] == item.value["latest"])


SINCE = "2026-01-01T00:00:00+00:00"


def _preset_json(preset: Assistant) -> dict[str, Any]:
    return {
        "assistant_id": preset.id,
        "graph_id": preset.id,
        "config": {},
        "context": {},
        "created_at": SINCE,
        "updated_at": SINCE,
        "metadata": {"created_by": "system"},
        "version": 1,
        "name": preset.id,
        "description": preset.served.line,
    }


def _assistant_json(item: Item) -> dict[str, Any]:
    return {
        **_latest(item),
        "assistant_id": item.key,
        "created_at": item.created_at,
        "updated_at": item.updated_at,
    }


def _own(version: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a version, from the two places that mean the same."""
    configurable = (version["config"] or {}).get("configurable") or {}
    if not isinstance(configurable, dict):
        raise BadRequestError("config.configurable must be an object")
    return {**configurable, **(version["context"] or {})}


def _parted(settings: Mapping[str, Any]) -> tuple[str | None, dict[str, Any]]:
    """Return the model and the options."""
    model = settings.get("model")
    if model is not None and not isinstance(model, str):
        raise BadRequestError("model is the spec of a model")
    return model, {name: value for name, value in settings.items() if name != "model" and name not in NOT_OPTIONS}
