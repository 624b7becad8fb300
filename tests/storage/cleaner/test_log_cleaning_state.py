"""Every state and every event of a log's compaction."""

import pytest

from odradek.protocol.types import TopicPartition
from odradek.storage.cleaner.states import (
    IDLE,
    MOVES,
    PAUSED,
    RUNNING,
    STOPPING,
    CleaningEvent,
    CleaningState,
    CleaningStates,
)

PARTITION = TopicPartition("events", 0)
#: How to come to each state.
WAYS = {
    IDLE: [],
    RUNNING: ["start"],
    STOPPING: ["start", "pause"],
    PAUSED: ["pause"],
}
EVENTS = {
    "start": CleaningEvent.START,
    "pause": CleaningEvent.PAUSE,
    "end": CleaningEvent.END,
    "resume": CleaningEvent.RELEASE,
}


def states_after(*events):
    states = CleaningStates()
    for event in events:
        getattr(states, event)(PARTITION)
    return states


@pytest.mark.parametrize("state", list(CleaningState))
@pytest.mark.parametrize("event", EVENTS)
def test_every_event_leads_where_the_table_says_or_is_a_mistake(state, event):
    states = states_after(*WAYS[state])
    assert states[PARTITION] is state
    expected = MOVES.get((state, EVENTS[event]))
    if expected is None:
        with pytest.raises(AssertionError):
            getattr(states, event)(PARTITION)
        assert states[PARTITION] is state
    else:
        getattr(states, event)(PARTITION)
        assert states[PARTITION] is expected


def test_a_log_is_released_by_as_many_as_have_paused_it():
    states = states_after("pause", "pause", "pause")
    seen = []
    for _ in range(3):
        states.resume(PARTITION)
        seen.append(states[PARTITION])
    assert seen == [PAUSED, PAUSED, IDLE]


def test_pauses_while_it_is_stopping_count():
    states = states_after("start", "pause", "pause", "end", "resume")
    assert states[PARTITION] is PAUSED
    states.resume(PARTITION)
    assert states[PARTITION] is IDLE


def test_who_does_not_wait_for_it_to_stop_lets_it_run_on():
    states = states_after("start", "pause", "pause", "resume")
    assert states[PARTITION] is STOPPING
    states.resume(PARTITION)
    assert states[PARTITION] is RUNNING


def test_logs_have_states_of_their_own():
    states = states_after("start")
    assert states[TopicPartition("events", 1)] is IDLE
