"""Very many members of groups, on connections of their own, in one event loop.

Owner: the loop that runs them.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.codec import decode, decode_prefix
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.header import ResponseHeader, response_header_version
from odradek.protocol.registry import api
from tests.support.group_wire import NO_METADATA
from tests.support.wire_client import frame

REBALANCE_IN_PROGRESS = ErrorCode.REBALANCE_IN_PROGRESS.code


class LoopMember:
    """Joins, syncs and then sends heartbeats until it is told to stop."""

    def __init__(self, address: str, group: str, *, session_ms: int) -> None:
        self._address = address
        self._named: dict[str, Any] = {"group_id": group}
        self._session_ms = session_ms

    async def join(self) -> None:
        host, _, port = self._address.rpartition(":")
        self._reader, self._writer = await asyncio.open_connection(host, int(port))
        await self.join_again()

    async def join_again(self) -> None:
        """And sync, until nobody else joins in between; the first time, as a new member."""
        error = REBALANCE_IN_PROGRESS
        while error == REBALANCE_IN_PROGRESS:
            error = await self._join_and_sync()
        assert not error, ErrorCode.for_code(error)

    async def _join_and_sync(self) -> int:
        self._named.pop("generation_id", None)
        joined = await self.call(
            ApiKey.JOIN_GROUP,
            3,
            session_timeout_ms=self._session_ms,
            rebalance_timeout_ms=60_000,
            protocol_type="consumer",
            protocols=[{"name": "range", "metadata": NO_METADATA}],
        )
        assert joined.error_code == 0, joined
        self._named |= {"member_id": joined.member_id, "generation_id": joined.generation_id}
        parts = [{"member_id": each.member_id, "assignment": b"x"} for each in joined.members]
        synced = await self.call(ApiKey.SYNC_GROUP, 2, assignments=parts)
        code: int = synced.error_code
        return code

    async def beat(
        self, until: asyncio.Event, told: Counter[str], at_once: asyncio.Semaphore
    ) -> None:
        """``told`` counts the answers; ``at_once`` bounds for how many members wait together."""
        while not until.is_set():
            async with at_once:
                answer = await self.call(ApiKey.HEARTBEAT, 2)
            told[ErrorCode.for_code(answer.error_code).name] += 1
            if answer.error_code == REBALANCE_IN_PROGRESS:
                await self.join_again()
            try:
                async with asyncio.timeout(self._session_ms / 5000):
                    await until.wait()
            except TimeoutError:
                continue

    async def call(self, key: ApiKey, version: int, **values: Any) -> Any:
        self._writer.write(frame(key, version, **self._named, **values))
        await self._writer.drain()
        size = int.from_bytes(await self._reader.readexactly(4), "big")
        body = await self._reader.readexactly(size)
        _, position = decode_prefix(ResponseHeader, response_header_version(key, version), body)
        return decode(api(key).response, version, body, position)

    def close(self) -> None:
        self._writer.close()
