"""The settings of every topic, with the defaults for topics without overrides.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from odradek.protocol.types import TopicPartition
from odradek.storage.log_loader import LoadLogParams
from odradek.storage.producer_state.producer_state_manager import ProducerSettings
from odradek.storage.settings import TopicSettings


class TopicSettingsRegistry:
    """Settings by topic name."""

    def __init__(
        self,
        defaults: TopicSettings,
        producer_settings: ProducerSettings,
        topics: Mapping[str, TopicSettings] | None = None,
    ) -> None:
        self.defaults = defaults
        self.producer_settings = producer_settings
        self._topics = dict(topics or {})

    def __getitem__(self, topic: str) -> TopicSettings:
        return self._topics.get(topic, self.defaults)

    def update(self, topic: str, settings: TopicSettings | None) -> None:
        """Set the settings of a topic; None returns it to the defaults."""
        self._topics.pop(topic, None)
        if settings is not None:
            self._topics[topic] = settings

    def load_params(
        self,
        directory: Path,
        partition: TopicPartition,
        *,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        now_ms: int,
    ) -> LoadLogParams:
        """Return the parameters to open a log with the settings of its topic."""
        return LoadLogParams(
            directory=directory,
            partition=partition,
            settings=self[partition.topic],
            producer_settings=self.producer_settings,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            now_ms=now_ms,
        )
