"""The settings of every topic, and of those that have none of their own.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from odradek.protocol.types import TopicPartition
from odradek.storage.log_loader import LogPlace
from odradek.storage.producers.state import ProducerSettings
from odradek.storage.settings import TopicSettings


class TopicTable:
    """Settings by the name of the topic."""

    def __init__(
        self,
        defaults: TopicSettings,
        producers: ProducerSettings,
        topics: Mapping[str, TopicSettings] | None = None,
    ) -> None:
        self.defaults = defaults
        self.producers = producers
        self._topics = dict(topics or {})

    def __getitem__(self, topic: str) -> TopicSettings:
        return self._topics.get(topic, self.defaults)

    def change(self, topic: str, settings: TopicSettings | None) -> None:
        """None: the topic has no settings of its own any more."""
        self._topics.pop(topic, None)
        if settings is not None:
            self._topics[topic] = settings

    def place(
        self,
        directory: Path,
        partition: TopicPartition,
        *,
        recovery_point: int = 0,
        start_offset: int = 0,
        now_ms: int,
    ) -> LogPlace:
        """Where a log is, with all that is needed to open it."""
        return LogPlace(
            directory=directory,
            partition=partition,
            settings=self[partition.topic],
            producer_settings=self.producers,
            recovery_point=recovery_point,
            start_offset=start_offset,
            now_ms=now_ms,
        )
