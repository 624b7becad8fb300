"""All states and events of log cleaning."""

import pytest

from odradek.protocol.types import TopicPartition
from odradek.storage.cleaner.log_cleaning_state import (
    IDLE,
    PAUSED,
    RUNNING,
    STOPPING,
    VALID_TRANSITIONS,
    LogCleaningEvent,
    LogCleaningState,
    LogCleaningStates,
)

PARTITION = TopicPartition("events", 0)
#: The events that lead to each state.
EVENTS_TO_STATE = {
    IDLE: [],
    RUNNING: ["start"],
    STOPPING: ["start", "pause"],
    PAUSED: ["pause"],
}
EVENTS = {
    "start": LogCleaningEvent.START,
    "pause": LogCleaningEvent.PAUSE,
    "end": LogCleaningEvent.END,
    "resume": LogCleaningEvent.RELEASE,
}


def states_after(*events):
    states = LogCleaningStates()
    for event in events:
        getattr(states, event)(PARTITION)
    return states


@pytest.mark.parametrize("state", list(LogCleaningState))
@pytest.mark.parametrize("event", EVENTS)
def test_every_event_follows_the_transition_table_or_fails(state, event):
    states = states_after(*EVENTS_TO_STATE[state])
    assert states[PARTITION] is state
    expected = VALID_TRANSITIONS.get((state, EVENTS[event]))
    if expected is None:
        with pytest.raises(AssertionError):
            getattr(states, event)(PARTITION)
        assert states[PARTITION] is state
    else:
        getattr(states, event)(PARTITION)
        assert states[PARTITION] is expected


def test_log_resumes_after_as_many_resumes_as_pauses():
    states = states_after("pause", "pause", "pause")
    seen = []
    for _ in range(3):
        states.resume(PARTITION)
        seen.append(states[PARTITION])
    assert seen == [PAUSED, PAUSED, IDLE]


def test_pauses_while_stopping_are_counted():
    states = states_after("start", "pause", "pause", "end", "resume")
    assert states[PARTITION] is PAUSED
    states.resume(PARTITION)
    assert states[PARTITION] is IDLE


def test_resume_while_stopping_continues_the_cleaning():
    states = states_after("start", "pause", "pause", "resume")
    assert states[PARTITION] is STOPPING
    states.resume(PARTITION)
    assert states[PARTITION] is RUNNING


def test_states_are_independent_between_logs():
    states = states_after("start")
    assert states[TopicPartition("events", 1)] is IDLE
