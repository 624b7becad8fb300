"""Read and write interest of one socket in an event loop.  Kafka: SelectionKey.interestOps.

Owner: the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any


class SocketWatcher:
    """Watches nothing at first."""

    __slots__ = ("_descriptor", "_loop", "is_reading", "is_writing")

    def __init__(self, loop: asyncio.AbstractEventLoop, descriptor: int) -> None:
        self._loop = loop
        self._descriptor = descriptor
        self.is_reading = False
        self.is_writing = False

    def watch_readable(self, callback: Callable[..., Any], *arguments: Any) -> None:
        self.is_reading = True
        self._loop.add_reader(self._descriptor, callback, *arguments)

    def watch_writable(self, callback: Callable[..., Any], *arguments: Any) -> None:
        self.is_writing = True
        self._loop.add_writer(self._descriptor, callback, *arguments)

    def stop_reading(self) -> None:
        if self.is_reading:
            self.is_reading = False
            self._loop.remove_reader(self._descriptor)

    def stop_writing(self) -> None:
        if self.is_writing:
            self.is_writing = False
            self._loop.remove_writer(self._descriptor)

    def stop(self) -> None:
        self.stop_reading()
        self.stop_writing()
