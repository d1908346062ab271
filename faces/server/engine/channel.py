"""The channel between the processes of one PostgreSQL database, on LISTEN and NOTIFY. Internal."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from .relay_records import CHANNEL

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Channel"]

LOG = logging.getLogger("redraft.server")
RECONNECT_S = 2.0


class Channel:
    """Hears what other processes tell. What was missed is looked up, so that a hint that is lost costs only time.

    Args:
        conninfo: Of the database.
        heard: Called with each hint, and with an empty one whenever some may have been missed.
    """

    def __init__(self, conninfo: str, heard: Callable[[str], None]) -> None:
        self.is_open = False
        self._conninfo = conninfo
        self._heard = heard

    async def listen(self) -> None:
        """Listen until cancelled; a connection that broke is made anew."""
        import psycopg

        while True:
            try:
                async with await psycopg.AsyncConnection.connect(self._conninfo, autocommit=True) as conn:
                    await conn.execute(f"LISTEN {CHANNEL}")
                    self.is_open = True
                    self._heard("")
                    async for notice in conn.notifies():
                        self._heard(notice.payload)
            except psycopg.Error as error:
                # Also a kind of event loop that psycopg can't use: then all is looked up now and then.
                LOG.debug("what other processes tell can't be heard: %s", type(error).__name__)
            finally:
                self.is_open = False
            await asyncio.sleep(RECONNECT_S)
