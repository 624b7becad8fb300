"""May a log be compacted now?  The states of the logs, and the moves between them.

    START    a compaction begins, or the deletion of old segments
    PAUSE    somebody is about to truncate, move or delete the log
    END      what had begun is over, one way or the other
    RESUME   one of several that had paused it is done
    RELEASE  the last of them is
    DELETE   the log is gone, and its pauses with it: another of its name may be compacted

Whoever pauses a log waits until it is PAUSED: a worker that is STOPPING may still be writing.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from odradek.protocol.types import TopicPartition


class LogCleaningState(Enum):
    IDLE = "may be compacted"
    RUNNING = "is being compacted, or old segments of it are being deleted"
    STOPPING = "is RUNNING, and has been asked to stop"
    PAUSED = "must not be compacted for the time being"


class LogCleaningEvent(Enum):
    START = "start"
    PAUSE = "stop, and do not begin again"
    END = "it has ended"
    RESUME = "one pause less"
    RELEASE = "the last pause is over"
    DELETE = "there is no such log any more"


IDLE, RUNNING = LogCleaningState.IDLE, LogCleaningState.RUNNING
STOPPING, PAUSED = LogCleaningState.STOPPING, LogCleaningState.PAUSED

#: What is not here is a mistake of the caller.
VALID_TRANSITIONS: Mapping[tuple[LogCleaningState, LogCleaningEvent], LogCleaningState] = {
    (IDLE, LogCleaningEvent.START): RUNNING,
    (IDLE, LogCleaningEvent.PAUSE): PAUSED,
    (IDLE, LogCleaningEvent.DELETE): IDLE,
    (RUNNING, LogCleaningEvent.PAUSE): STOPPING,
    (RUNNING, LogCleaningEvent.END): IDLE,
    (STOPPING, LogCleaningEvent.PAUSE): STOPPING,
    (STOPPING, LogCleaningEvent.END): PAUSED,
    (STOPPING, LogCleaningEvent.RESUME): STOPPING,
    (STOPPING, LogCleaningEvent.RELEASE): RUNNING,
    (PAUSED, LogCleaningEvent.PAUSE): PAUSED,
    (PAUSED, LogCleaningEvent.RESUME): PAUSED,
    (PAUSED, LogCleaningEvent.RELEASE): IDLE,
    (PAUSED, LogCleaningEvent.DELETE): IDLE,
}


class LogCleaningStates:
    """The states of all logs; a log that was never named is IDLE."""

    def __init__(self) -> None:
        self._states: dict[TopicPartition, LogCleaningState] = {}
        self._pause_counts: dict[TopicPartition, int] = {}

    def __getitem__(self, partition: TopicPartition) -> LogCleaningState:
        return self._states.get(partition, IDLE)

    def start(self, partition: TopicPartition) -> None:
        self._transition(partition, LogCleaningEvent.START)

    def end(self, partition: TopicPartition) -> None:
        self._transition(partition, LogCleaningEvent.END)

    def pause(self, partition: TopicPartition) -> None:
        """To be undone by ``resume``, unless the log is deleted."""
        self._transition(partition, LogCleaningEvent.PAUSE)
        self._pause_counts[partition] = self._pause_counts.get(partition, 0) + 1

    def resume(self, partition: TopicPartition) -> None:
        is_last = self._pause_counts.get(partition) == 1
        self._transition(
            partition, LogCleaningEvent.RELEASE if is_last else LogCleaningEvent.RESUME
        )
        self._pause_counts[partition] -= 1
        if is_last:
            del self._pause_counts[partition]

    def delete(self, partition: TopicPartition) -> None:
        self._transition(partition, LogCleaningEvent.DELETE)
        self._pause_counts.pop(partition, None)

    def _transition(self, partition: TopicPartition, event: LogCleaningEvent) -> None:
        state = self[partition]
        assert (state, event) in VALID_TRANSITIONS, f"{partition}: {event} while {state}"
        new_state = VALID_TRANSITIONS[state, event]
        if new_state is IDLE:
            self._states.pop(partition, None)
        else:
            self._states[partition] = new_state
