"""The cleaning state of each log, and the transitions between the states.

Kafka: LogCleaningState with LogCleaningInProgress, LogCleaningAborted and LogCleaningPaused.

    START    a compaction or a deletion of old segments starts
    PAUSE    the log is about to be truncated, moved or deleted
    END      the compaction or deletion has ended, successfully or not
    RESUME   one of several pauses ends
    RELEASE  the last pause ends
    DELETE   the log is deleted with its pauses; a new log of that name may be compacted

After PAUSE the caller waits until the state is PAUSED: a STOPPING worker may still be writing.

Owner: the event loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from odradek.protocol.types import TopicPartition


class LogCleaningState(Enum):
    IDLE = "may be compacted"
    RUNNING = "is being compacted, or its old segments are being deleted"
    STOPPING = "is RUNNING and must stop"
    PAUSED = "must not be compacted until the last pause ends"


class LogCleaningEvent(Enum):
    START = "start"
    PAUSE = "stop and do not start again"
    END = "the running task has ended"
    RESUME = "one pause ends"
    RELEASE = "the last pause ends"
    DELETE = "the log is deleted"


IDLE, RUNNING = LogCleaningState.IDLE, LogCleaningState.RUNNING
STOPPING, PAUSED = LogCleaningState.STOPPING, LogCleaningState.PAUSED

#: Any other combination is a bug of the caller.
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
    """The states of all logs.  A log without an entry is IDLE."""

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
        """Pause a log until ``resume``, or until the log is deleted.  Pauses are counted."""
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
