"""What a leader knows of its followers: how far they have come, and who is in sync."""

import pytest

from odradek.broker.replicas.leader import NOT_TOLD, REFUSED_FOR_MS, Heard, LeaderRole

LAG_MS = 1000


def role(in_sync=(1, 2, 3), *, start_offset=0):
    return LeaderRole(
        local_id=1,
        epoch=0,
        start_offset=start_offset,
        replicas=(1, 2, 3),
        in_sync=in_sync,
        now_ms=0,
    )


def fetched(leader, replica, offset, *, log_end=10, now_ms=0):
    return leader.note_follower(
        replica, end_offset=offset, start_offset=0, log_end=log_end, now_ms=now_ms
    )


def reached(leader, log_end=10, *, now_ms=0):
    return leader.replicated_up_to(log_end, now_ms=now_ms, lag_max_ms=LAG_MS)


def test_what_all_in_sync_have_is_replicated():
    leader = role()
    assert reached(leader) is None  # nobody has been heard of
    fetched(leader, 2, 7)
    assert reached(leader) is None
    fetched(leader, 3, 5)
    assert reached(leader) == 5
    assert reached(role(in_sync=[1])) == 10


def test_one_that_has_lately_been_at_the_end_counts_before_it_is_in_sync():
    leader = role(in_sync=[1, 2])
    fetched(leader, 2, 10)
    fetched(leader, 3, 10, now_ms=5000)
    assert reached(leader, 12, now_ms=6000) == 10
    fetched(leader, 2, 12, log_end=12)
    assert reached(leader, 12, now_ms=6000) == 10
    assert reached(leader, 12, now_ms=6001) == 12  # it lags by now


def test_so_does_one_that_is_proposed():
    leader = role(in_sync=[1])
    fetched(leader, 2, 3)
    assert reached(leader, now_ms=9 * LAG_MS) == 10
    leader.proposed = frozenset({1, 2})
    assert reached(leader, now_ms=9 * LAG_MS) == 3


def test_and_one_that_is_proposed_to_go_until_it_has():
    leader = role()
    fetched(leader, 2, 10)
    fetched(leader, 3, 4)
    leader.proposed = frozenset({1, 2})
    assert reached(leader, now_ms=9 * LAG_MS) == 4


@pytest.mark.parametrize(
    ("offset", "is_fit"), [(7, False), (8, True), (10, True)], ids=["behind", "at it", "beyond"]
)
def test_a_follower_that_has_all_before_the_watermark_is_fit(offset, is_fit):
    leader = role(in_sync=[1, 2])
    fetched(leader, 3, offset)
    assert (leader.grown(3, high_watermark=8) is not None) == is_fit


def test_but_only_if_it_has_come_to_where_the_epoch_began():
    leader = role(in_sync=[1, 2], start_offset=9)
    fetched(leader, 3, 8)
    assert leader.grown(3, high_watermark=8) is None
    fetched(leader, 3, 9)
    assert leader.grown(3, high_watermark=8) == {1, 2, 3}


def test_nothing_is_proposed_of_who_is_in_sync_or_no_replica_or_while_there_is_a_proposal():
    leader = role(in_sync=[1, 2])
    for replica in (2, 3, 4):
        fetched(leader, replica, 10)
    assert leader.grown(2, high_watermark=8) is None
    assert leader.grown(4, high_watermark=8) is None
    leader.proposed = frozenset({1})
    assert leader.grown(3, high_watermark=8) is None
    assert leader.shrunk(12, now_ms=9 * LAG_MS, lag_max_ms=LAG_MS) is None


def test_who_has_not_been_at_the_end_for_too_long_is_out():
    leader = role()
    fetched(leader, 2, 10, now_ms=500)
    fetched(leader, 3, 9, now_ms=500)

    def shrunk(now_ms, log_end=11):
        return leader.shrunk(log_end, now_ms=now_ms, lag_max_ms=LAG_MS)

    assert shrunk(1000) is None
    assert shrunk(1001) == {1, 2}  # the third was in sync when the leader came, and not since
    assert shrunk(1501) == {1}
    assert shrunk(9999, log_end=10) == {1, 2}  # nothing has been written that it could lack


def test_a_follower_of_a_log_that_is_written_to_all_the_time_is_at_the_end_of_last_time():
    leader = role()
    fetched(leader, 2, 10, log_end=20, now_ms=1000)
    fetched(leader, 2, 20, log_end=30, now_ms=2000)
    assert leader.followers[2].at_end_ms == 1000
    fetched(leader, 2, 25, log_end=40, now_ms=3000)
    assert leader.followers[2].at_end_ms == 1000
    fetched(leader, 2, 40, log_end=40, now_ms=4000)
    assert leader.followers[2].at_end_ms == 4000


def test_one_that_has_never_fetched_is_given_time_if_it_was_in_sync():
    leader = role(in_sync=[1, 2])
    assert leader.shrunk(5, now_ms=LAG_MS, lag_max_ms=LAG_MS) is None
    assert leader.shrunk(5, now_ms=LAG_MS + 1, lag_max_ms=LAG_MS) == {1}


def test_one_that_was_refused_is_left_alone_for_a_while():
    leader = role(in_sync=[1, 2])
    fetched(leader, 3, 10)
    leader.proposed = leader.grown(3, high_watermark=8, now_ms=50)
    leader.refused(leader.proposed, now_ms=50)
    assert leader.proposed is None
    assert leader.grown(3, high_watermark=8, now_ms=49 + REFUSED_FOR_MS) is None
    assert leader.grown(3, high_watermark=8, now_ms=50 + REFUSED_FOR_MS) == {1, 2, 3}


def test_who_is_told_again_what_it_leads_forgets_nothing_of_followers_that_stay():
    leader = role(in_sync=[1, 2])
    fetched(leader, 2, 7)
    leader.proposed = frozenset({1})
    newer = LeaderRole(local_id=1, epoch=0, start_offset=9, replicas=(1, 2, 4), in_sync=[1, 4])
    leader.take_over(newer)
    assert (leader.in_sync, leader.replicas, leader.proposed) == ({1, 4}, (1, 2, 4), None)
    assert leader.start_offset == 0
    assert {each: at.end_offset for each, at in leader.followers.items()} == {2: 7, 4: -1}


def test_the_life_in_which_a_follower_fetched_is_known_if_it_tells():
    leader = role()
    fetched(leader, 2, 7)
    leader.followers[2].broker_epoch = 30
    assert [leader.broker_epoch_of(each) for each in (1, 2, 3)] == [NOT_TOLD, 30, NOT_TOLD]


def test_a_session_tells_for_all_partitions_that_are_as_they_were():
    leader = role()
    heard = Heard(now_ms=0)
    note(leader, 10, heard=heard)
    heard.asked_ms = 5 * LAG_MS
    assert leader.followers[2].last_at_end_ms == 0  # not all have been gone over yet
    heard.gone_over()
    assert leader.followers[2].keeps_up(11, now_ms=6 * LAG_MS, lag_max_ms=LAG_MS)
    assert not leader.followers[2].keeps_up(11, now_ms=6 * LAG_MS + 1, lag_max_ms=LAG_MS)


def test_one_that_falls_behind_is_not_kept_in_sync_by_its_session():
    leader = role()
    heard = Heard(now_ms=0)
    note(leader, 10, heard=heard)
    heard.asked_ms = 5 * LAG_MS
    heard.gone_over()
    note(leader, 10, heard=heard, log_end=12, now_ms=5 * LAG_MS + 500)
    heard.asked_ms = 9 * LAG_MS
    heard.gone_over()
    assert leader.followers[2].last_at_end_ms == 5 * LAG_MS


def test_nor_is_one_that_the_session_has_forgotten():
    leader = role()
    heard = Heard(now_ms=0)
    note(leader, 10, heard=heard)
    heard.asked_ms = 5 * LAG_MS
    heard.gone_over()
    leader.followers[2].leave_session()
    heard.asked_ms = 9 * LAG_MS
    heard.gone_over()
    assert leader.followers[2].last_at_end_ms == 5 * LAG_MS


def note(leader, offset, *, heard, log_end=10, now_ms=0):
    leader.note_follower(
        2, end_offset=offset, start_offset=0, log_end=log_end, now_ms=now_ms, heard=heard
    )
