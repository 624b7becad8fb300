"""Notifies the controller when the configuration of a topic enables unclean leader election.

The controller can then elect a leader for a partition that has none.  It observes the default for
all topics itself.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Callable

from odradek.storage.settings import TopicSettings


class UncleanElectionObserver:
    """An observer of topic configurations."""

    def __init__(self, on_enabled: Callable[[str], None]) -> None:
        self._on_enabled = on_enabled

    def configure(self, topic: str, settings: TopicSettings | None) -> None:
        if settings is not None and settings.unclean_leader_election_enable:
            self._on_enabled(topic)

    def configure_defaults(self, defaults: TopicSettings) -> None:
        """Does nothing: the controller observes the defaults."""
