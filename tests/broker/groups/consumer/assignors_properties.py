"""Properties of the assignors: completeness, balance, stickiness, whatever the group."""

from hypothesis import given
from hypothesis import strategies as st

from odradek.broker.groups.consumer import assign_range, assign_uniform
from tests.support.subscriptions import assigned_by, groups, partition_counts, with_their_own


def kept(subscribers, assignment):
    return sum(len(subscribers[member].has & theirs) for member, theirs in assignment.items())


@given(groups(), partition_counts())
def test_range_assigns_every_partition_once_and_ignores_what_members_have(group, counts):
    once = assigned_by(assign_range.assign, group, counts)
    assert assign_range.assign(with_their_own(group, once), counts) == once


@given(groups(), partition_counts())
def test_range_gives_runs_that_differ_by_one_at_most(group, counts):
    assignment = assign_range.assign(group, counts)
    for topic in counts:
        runs = [
            sorted(number for each, number in theirs if each == topic)
            for member, theirs in assignment.items()
            if topic in group[member].topics
        ]
        assert all(run == list(range(run[0], run[-1] + 1)) for run in runs if run)
        assert not runs or max(map(len, runs)) - min(map(len, runs)) <= 1


@given(groups(same=True), partition_counts())
def test_uniform_differs_by_one_at_most_and_moves_as_little_as_possible(group, counts):
    assignment = assigned_by(assign_uniform.assign, group, counts)
    sizes = sorted((len(theirs) for theirs in assignment.values()), reverse=True)
    assert sizes[0] - sizes[-1] <= 1
    still_there = sorted(
        (
            sum(topic in s.topics and number < counts[topic] for topic, number in s.has)
            for s in group.values()
        ),
        reverse=True,
    )
    most = sum(min(had, may_have) for had, may_have in zip(still_there, sizes, strict=True))
    assert kept(group, assignment) == most


@given(groups(), partition_counts())
def test_uniform_leaves_no_partition_with_a_member_where_another_has_two_fewer(group, counts):
    assignment = assigned_by(assign_uniform.assign, group, counts)
    for member, theirs in assignment.items():
        for other, subscriber in group.items():
            if len(theirs) - len(assignment[other]) >= 2:
                assert not {topic for topic, _ in theirs} & subscriber.topics, (member, other)


@given(groups(), partition_counts())
def test_uniform_keeps_what_is_even_already(group, counts):
    once = assign_uniform.assign(group, counts)
    assert assign_uniform.assign(with_their_own(group, once), counts) == once


@given(groups(), partition_counts(), st.data())
def test_uniform_takes_nothing_from_those_who_stay_when_a_member_leaves(group, counts, data):
    settled = with_their_own(group, assign_uniform.assign(group, counts))
    leaver = data.draw(st.sampled_from(sorted(settled)))
    rest = {member: each for member, each in settled.items() if member != leaver}
    topics = {each.topics for each in settled.values()}
    after = assign_uniform.assign(rest, counts)
    if len(topics) == 1:
        assert all(each.has <= after[member] for member, each in rest.items())
