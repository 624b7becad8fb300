"""What a leader knows about its followers: their log end offsets and the ISR."""

import pytest

from odradek.broker.replicas.leader_state import (
    INELIGIBLE_BACKOFF_MS,
    UNKNOWN_BROKER_EPOCH,
    FollowerFetchState,
    LeaderState,
)

LAG_MS = 1000


def leader_state(in_sync=(1, 2, 3), *, start_offset=0):
    return LeaderState(
        local_broker_id=1,
        epoch=0,
        leader_epoch_start_offset=start_offset,
        replicas=(1, 2, 3),
        isr=in_sync,
        now_ms=0,
    )


def record_fetch(leader, replica, offset, *, log_end=10, now_ms=0):
    return leader.update_follower_fetch_state(
        replica,
        fetch_offset=offset,
        follower_start_offset=0,
        leader_end_offset=log_end,
        now_ms=now_ms,
    )


def high_watermark(leader, log_end=10, *, now_ms=0):
    return leader.compute_high_watermark(log_end, now_ms=now_ms, lag_max_ms=LAG_MS)


def test_high_watermark_is_the_smallest_log_end_offset_of_the_isr():
    leader = leader_state()
    assert high_watermark(leader) is None  # no follower has fetched yet
    record_fetch(leader, 2, 7)
    assert high_watermark(leader) is None
    record_fetch(leader, 3, 5)
    assert high_watermark(leader) == 5
    assert high_watermark(leader_state(in_sync=[1])) == 10


def test_caught_up_follower_outside_the_isr_holds_the_high_watermark():
    leader = leader_state(in_sync=[1, 2])
    record_fetch(leader, 2, 10)
    record_fetch(leader, 3, 10, now_ms=5000)
    assert high_watermark(leader, 12, now_ms=6000) == 10
    record_fetch(leader, 2, 12, log_end=12)
    assert high_watermark(leader, 12, now_ms=6000) == 10
    assert high_watermark(leader, 12, now_ms=6001) == 12  # it lags by now


def test_follower_of_a_pending_isr_expansion_holds_the_high_watermark():
    leader = leader_state(in_sync=[1])
    record_fetch(leader, 2, 3)
    assert high_watermark(leader, now_ms=9 * LAG_MS) == 10
    leader.pending_isr = frozenset({1, 2})
    assert high_watermark(leader, now_ms=9 * LAG_MS) == 3


def test_follower_of_a_pending_isr_shrink_holds_the_high_watermark():
    leader = leader_state()
    record_fetch(leader, 2, 10)
    record_fetch(leader, 3, 4)
    leader.pending_isr = frozenset({1, 2})
    assert high_watermark(leader, now_ms=9 * LAG_MS) == 4


@pytest.mark.parametrize(
    ("offset", "is_eligible"),
    [(7, False), (8, True), (10, True)],
    ids=["behind", "at it", "beyond"],
)
def test_follower_at_the_high_watermark_is_eligible_for_the_isr(offset, is_eligible):
    leader = leader_state(in_sync=[1, 2])
    record_fetch(leader, 3, offset)
    assert (leader.expanded_isr(3, high_watermark=8) is not None) == is_eligible


def test_follower_below_the_start_of_the_leader_epoch_is_not_eligible():
    leader = leader_state(in_sync=[1, 2], start_offset=9)
    record_fetch(leader, 3, 8)
    assert leader.expanded_isr(3, high_watermark=8) is None
    record_fetch(leader, 3, 9)
    assert leader.expanded_isr(3, high_watermark=8) == {1, 2, 3}


def test_no_change_is_proposed_for_isr_members_non_replicas_or_while_one_is_pending():
    leader = leader_state(in_sync=[1, 2])
    for replica in (2, 3, 4):
        record_fetch(leader, replica, 10)
    assert leader.expanded_isr(2, high_watermark=8) is None
    assert leader.expanded_isr(4, high_watermark=8) is None
    leader.pending_isr = frozenset({1})
    assert leader.expanded_isr(3, high_watermark=8) is None
    assert leader.shrunk_isr(12, now_ms=9 * LAG_MS, lag_max_ms=LAG_MS) is None


def test_replica_that_is_not_caught_up_for_too_long_leaves_the_isr():
    leader = leader_state()
    record_fetch(leader, 2, 10, now_ms=500)
    record_fetch(leader, 3, 9, now_ms=500)

    def shrunk(now_ms, log_end=11):
        return leader.shrunk_isr(log_end, now_ms=now_ms, lag_max_ms=LAG_MS)

    assert shrunk(1000) is None
    assert shrunk(1001) == {1, 2}  # the third was in sync only at the election
    assert shrunk(1501) == {1}
    assert shrunk(9999, log_end=10) == {1, 2}  # nothing was appended that it could lack


def test_follower_is_caught_up_to_the_log_end_of_its_previous_fetch():
    leader = leader_state()
    record_fetch(leader, 2, 10, log_end=20, now_ms=1000)
    record_fetch(leader, 2, 20, log_end=30, now_ms=2000)
    assert leader.followers[2].caught_up_time_ms == 1000
    record_fetch(leader, 2, 25, log_end=40, now_ms=3000)
    assert leader.followers[2].caught_up_time_ms == 1000
    record_fetch(leader, 2, 40, log_end=40, now_ms=4000)
    assert leader.followers[2].caught_up_time_ms == 4000


def test_isr_member_that_never_fetched_has_the_full_lag_time():
    leader = leader_state(in_sync=[1, 2])
    assert leader.shrunk_isr(5, now_ms=LAG_MS, lag_max_ms=LAG_MS) is None
    assert leader.shrunk_isr(5, now_ms=LAG_MS + 1, lag_max_ms=LAG_MS) == {1}


def test_rejected_replica_is_not_proposed_again_during_the_backoff():
    leader = leader_state(in_sync=[1, 2])
    record_fetch(leader, 3, 10)
    leader.pending_isr = leader.expanded_isr(3, high_watermark=8, now_ms=50)
    leader.reject_pending_isr(leader.pending_isr, now_ms=50)
    assert leader.pending_isr is None
    assert leader.expanded_isr(3, high_watermark=8, now_ms=49 + INELIGIBLE_BACKOFF_MS) is None
    assert leader.expanded_isr(3, high_watermark=8, now_ms=50 + INELIGIBLE_BACKOFF_MS) == {1, 2, 3}


def test_update_within_an_epoch_keeps_the_state_of_remaining_followers():
    leader = leader_state(in_sync=[1, 2])
    record_fetch(leader, 2, 7)
    leader.pending_isr = frozenset({1})
    newer = LeaderState(
        local_broker_id=1, epoch=0, leader_epoch_start_offset=9, replicas=(1, 2, 4), isr=[1, 4]
    )
    leader.update_from(newer)
    assert (leader.isr, leader.replicas, leader.pending_isr) == ({1, 4}, (1, 2, 4), None)
    assert leader.leader_epoch_start_offset == 0
    assert {replica: follower.log_end_offset for replica, follower in leader.followers.items()} == {
        2: 7,
        4: -1,
    }


def test_broker_epoch_of_a_follower_is_known_if_it_sends_one():
    leader = leader_state()
    record_fetch(leader, 2, 7)
    leader.followers[2].broker_epoch = 30
    assert [leader.broker_epoch_of(each) for each in (1, 2, 3)] == [
        UNKNOWN_BROKER_EPOCH,
        30,
        UNKNOWN_BROKER_EPOCH,
    ]


def test_fetch_session_keeps_its_unchanged_partitions_caught_up():
    leader = leader_state()
    fetch_state = FollowerFetchState(now_ms=0)
    record_session_fetch(leader, 10, fetch_state=fetch_state)
    fetch_state.last_request_ms = 5 * LAG_MS
    assert leader.followers[2].last_caught_up_time_ms == 0  # the request is not completed yet
    fetch_state.mark_completed()
    assert leader.followers[2].is_caught_up(11, now_ms=6 * LAG_MS, lag_max_ms=LAG_MS)
    assert not leader.followers[2].is_caught_up(11, now_ms=6 * LAG_MS + 1, lag_max_ms=LAG_MS)


def test_session_does_not_keep_a_lagging_follower_in_sync():
    leader = leader_state()
    fetch_state = FollowerFetchState(now_ms=0)
    record_session_fetch(leader, 10, fetch_state=fetch_state)
    fetch_state.last_request_ms = 5 * LAG_MS
    fetch_state.mark_completed()
    record_session_fetch(leader, 10, fetch_state=fetch_state, log_end=12, now_ms=5 * LAG_MS + 500)
    fetch_state.last_request_ms = 9 * LAG_MS
    fetch_state.mark_completed()
    assert leader.followers[2].last_caught_up_time_ms == 5 * LAG_MS


def test_session_does_not_keep_a_removed_partition_in_sync():
    leader = leader_state()
    fetch_state = FollowerFetchState(now_ms=0)
    record_session_fetch(leader, 10, fetch_state=fetch_state)
    fetch_state.last_request_ms = 5 * LAG_MS
    fetch_state.mark_completed()
    leader.followers[2].leave_session()
    fetch_state.last_request_ms = 9 * LAG_MS
    fetch_state.mark_completed()
    assert leader.followers[2].last_caught_up_time_ms == 5 * LAG_MS


def record_session_fetch(leader, offset, *, fetch_state, log_end=10, now_ms=0):
    leader.update_follower_fetch_state(
        2,
        fetch_offset=offset,
        follower_start_offset=0,
        leader_end_offset=log_end,
        now_ms=now_ms,
        follower_fetch_state=fetch_state,
    )
