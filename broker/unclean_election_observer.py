"""Tells the controller when a topic's own configuration comes to allow unclean elections.

A partition that has no leader may then get one at once.  What holds for all topics the controller
sees by itself.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Callable

from odradek.storage.settings import TopicSettings


class UncleanElectionObserver:
    """An observer of topics' settings."""

    def __init__(self, on_enabled: Callable[[str], None]) -> None:
        self._on_enabled = on_enabled

    def configure(self, topic: str, settings: TopicSettings | None) -> None:
        if settings is not None and settings.unclean_leader_election_enable:
            self._on_enabled(topic)

    def configure_defaults(self, defaults: TopicSettings) -> None:
        """Not a topic's own."""
