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


class CleaningState(Enum):
    IDLE = "may be compacted"
    RUNNING = "is being compacted, or old segments of it are being deleted"
    STOPPING = "is RUNNING, and has been asked to stop"
    PAUSED = "must not be compacted for the time being"


class CleaningEvent(Enum):
    START = "begin"
    PAUSE = "stop, and do not begin again"
    END = "it has ended"
    RESUME = "one pause less"
    RELEASE = "the last pause is over"
    DELETE = "there is no such log any more"


IDLE, RUNNING = CleaningState.IDLE, CleaningState.RUNNING
STOPPING, PAUSED = CleaningState.STOPPING, CleaningState.PAUSED

#: What is not here is a mistake of the caller.
MOVES: Mapping[tuple[CleaningState, CleaningEvent], CleaningState] = {
    (IDLE, CleaningEvent.START): RUNNING,
    (IDLE, CleaningEvent.PAUSE): PAUSED,
    (IDLE, CleaningEvent.DELETE): IDLE,
    (RUNNING, CleaningEvent.PAUSE): STOPPING,
    (RUNNING, CleaningEvent.END): IDLE,
    (STOPPING, CleaningEvent.PAUSE): STOPPING,
    (STOPPING, CleaningEvent.END): PAUSED,
    (STOPPING, CleaningEvent.RESUME): STOPPING,
    (STOPPING, CleaningEvent.RELEASE): RUNNING,
    (PAUSED, CleaningEvent.PAUSE): PAUSED,
    (PAUSED, CleaningEvent.RESUME): PAUSED,
    (PAUSED, CleaningEvent.RELEASE): IDLE,
    (PAUSED, CleaningEvent.DELETE): IDLE,
}


class CleaningStates:
    """The states of all logs; a log that was never named is IDLE."""

    def __init__(self) -> None:
        self._states: dict[TopicPartition, CleaningState] = {}
        self._pauses: dict[TopicPartition, int] = {}

    def __getitem__(self, partition: TopicPartition) -> CleaningState:
        return self._states.get(partition, IDLE)

    def start(self, partition: TopicPartition) -> None:
        self._move(partition, CleaningEvent.START)

    def end(self, partition: TopicPartition) -> None:
        self._move(partition, CleaningEvent.END)

    def pause(self, partition: TopicPartition) -> None:
        """To be undone by ``resume``, unless the log is deleted."""
        self._move(partition, CleaningEvent.PAUSE)
        self._pauses[partition] = self._pauses.get(partition, 0) + 1

    def resume(self, partition: TopicPartition) -> None:
        is_last = self._pauses.get(partition) == 1
        self._move(partition, CleaningEvent.RELEASE if is_last else CleaningEvent.RESUME)
        self._pauses[partition] -= 1
        if is_last:
            del self._pauses[partition]

    def delete(self, partition: TopicPartition) -> None:
        self._move(partition, CleaningEvent.DELETE)
        self._pauses.pop(partition, None)

    def _move(self, partition: TopicPartition, event: CleaningEvent) -> None:
        state = self[partition]
        assert (state, event) in MOVES, f"{partition}: {event} while {state}"
        moved = MOVES[state, event]
        if moved is IDLE:
            self._states.pop(partition, None)
        else:
            self._states[partition] = moved
