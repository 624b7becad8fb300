"""Properties of the assignors for any group: completeness, balance, stickiness."""

from hypothesis import given
from hypothesis import strategies as st

from odradek.broker.groups.consumer import range_assignor, uniform_assignor
from tests.support.subscriptions import assigned_by, groups, partition_counts, with_their_own


def retained_count(subscribers, assignment):
    return sum(
        len(subscribers[member].assigned_partitions & partitions)
        for member, partitions in assignment.items()
    )


@given(groups(), partition_counts())
def test_range_assigns_every_partition_once_and_ignores_current_assignments(group, counts):
    once = assigned_by(range_assignor.assign, group, counts)
    assert range_assignor.assign(with_their_own(group, once), counts) == once


@given(groups(), partition_counts())
def test_range_assigns_runs_whose_lengths_differ_by_at_most_one(group, counts):
    assignment = range_assignor.assign(group, counts)
    for topic in counts:
        runs = [
            sorted(number for each, number in partitions if each == topic)
            for member, partitions in assignment.items()
            if topic in group[member].subscribed_topic_ids
        ]
        assert all(run == list(range(run[0], run[-1] + 1)) for run in runs if run)
        assert not runs or max(map(len, runs)) - min(map(len, runs)) <= 1


@given(groups(same=True), partition_counts())
def test_uniform_is_balanced_and_moves_as_little_as_possible(group, counts):
    assignment = assigned_by(uniform_assignor.assign, group, counts)
    sizes = sorted((len(partitions) for partitions in assignment.values()), reverse=True)
    assert sizes[0] - sizes[-1] <= 1
    still_valid = sorted(
        (
            sum(
                topic in s.subscribed_topic_ids and number < counts[topic]
                for topic, number in s.assigned_partitions
            )
            for s in group.values()
        ),
        reverse=True,
    )
    most = sum(min(before, allowed) for before, allowed in zip(still_valid, sizes, strict=True))
    assert retained_count(group, assignment) == most


@given(groups(), partition_counts())
def test_uniform_leaves_no_partition_with_a_member_where_another_has_two_fewer(group, counts):
    assignment = assigned_by(uniform_assignor.assign, group, counts)
    for member, partitions in assignment.items():
        for other, subscriber in group.items():
            if len(partitions) - len(assignment[other]) >= 2:
                assert not {topic for topic, _ in partitions} & subscriber.subscribed_topic_ids, (
                    member,
                    other,
                )


@given(groups(), partition_counts())
def test_uniform_keeps_a_balanced_assignment(group, counts):
    once = uniform_assignor.assign(group, counts)
    assert uniform_assignor.assign(with_their_own(group, once), counts) == once


@given(groups(), partition_counts(), st.data())
def test_uniform_takes_no_partition_from_remaining_members_when_a_member_leaves(
    group, counts, data
):
    settled = with_their_own(group, uniform_assignor.assign(group, counts))
    leaving = data.draw(st.sampled_from(sorted(settled)))
    remaining = {member: each for member, each in settled.items() if member != leaving}
    topics = {each.subscribed_topic_ids for each in settled.values()}
    after = uniform_assignor.assign(remaining, counts)
    if len(topics) == 1:
        assert all(each.assigned_partitions <= after[member] for member, each in remaining.items())
