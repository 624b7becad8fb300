"""Tests of broker/groups/consumer/migration.py: both protocols in one group."""

import pytest

from odradek.broker.groups.classic.group import ClassicGroup
from odradek.broker.groups.classic.outcomes import Offer
from odradek.broker.groups.consumer.live_group import LiveGroup
from odradek.broker.groups.consumer.member import MemberState
from odradek.broker.groups.records import GROUP_KEY
from odradek.protocol.internal.log_record import part_version
from tests.support.consumer_group_scene import of, parts
from tests.support.group_scene import GROUP
from tests.support.group_scene import SESSION_MS as CLASSIC_SESSION_MS
from tests.support.live_group_scene import LiveGroupScene, assigned, read_assigned
from tests.support.migrating_groups import classic_group, heard, offering, rejoined, told


@pytest.fixture
def scene(live_scene):
    return live_scene


# Upgrade


def test_members_of_an_upgraded_group_keep_what_they_have(scene):
    first, second = classic_group(scene)
    joined = scene.join("new", "a")
    assert isinstance(scene.shard.groups[GROUP], LiveGroup)
    assert scene.member(first).current.held == of("a", 0, 1)
    assert scene.member(second).current.held == of("a", 2, 3)
    assert joined.assigned == frozenset()
    assert joined.epoch == scene.live.group.epoch


def test_an_upgraded_group_is_loaded_as_it_is(scene):
    classic_group(scene)
    scene.join("new", "a")
    before = parts(scene.live.group)
    scene.base.reload()
    assert parts(scene.live.group) == before


def test_what_is_read_while_a_rebalance_is_broken_off_is_given_to_nobody_else(scene):
    """The leader has not assigned anew when another comes: cooperative members read on."""
    first, second = classic_group(scene)
    scene.base.join(first, **offering("a", owned={"a": [0, 1]}))
    scene.base.join(second, **offering("a", owned={"a": [2, 3]}))
    assert scene.base.state == "CompletingRebalance"
    scene.base.join(**offering("a"))
    assert scene.join("new", "a").assigned == frozenset()
    assert scene.member(first).current.held == of("a", 0, 1)
    assert scene.member(second).current.held == of("a", 2, 3)


def test_what_a_cooperative_member_has_not_given_up_yet_is_given_to_nobody_else(scene):
    """Its leader means it for another, in the generation after this one."""
    first, second = classic_group(scene)
    scene.base.join(first, **offering("a", owned={"a": [0, 1]}))
    scene.base.join(second, **offering("a", owned={"a": [2, 3]}))
    scene.base.sync(first, {first: assigned(a=[0]), second: assigned(a=[2, 3])})
    assert scene.base.state == "Stable"
    assert scene.join("new", "a").assigned == frozenset()
    assert scene.member(first).current.held == of("a", 0, 1)


def test_what_was_given_to_another_is_not_held_by_who_had_it_before(scene):
    """As eager leaders give it: who had it has given up all before."""
    first, second = classic_group(scene)
    scene.base.join(first, **offering("a", owned={"a": [0, 1]}))
    scene.base.join(second, **offering("a", owned={"a": [2, 3]}))
    scene.base.sync(first, {first: assigned(a=[2, 3]), second: assigned(a=[0, 1])})
    scene.join("new", "a")
    assert scene.member(first).current.held == of("a", 2, 3)
    assert scene.member(second).current.held == of("a", 0, 1)


def test_who_has_joined_before_an_upgrade_is_sent_to_join_again_whatever_it_prefers(scene):
    """It was told what the classic group had chosen; Java's client gives up on another answer."""
    joins = [
        scene.base.join(**offering("a", names=each)) for each in (("range", "sticky"), ("sticky",))
    ]
    scene.base.pass_ms(1)
    first, _ = (each.result for each in joins)
    assert first.protocol == "sticky"
    scene.join("new", "a")
    syncing = scene.base.sync(first.member_id, generation=first.generation, protocol="sticky")
    assert syncing.error == "REBALANCE_IN_PROGRESS"


def test_classic_members_give_up_by_joining_again(scene):
    first, second = classic_group(scene)
    scene.join("new", "a")
    assert {told(scene, first), told(scene, second)} == {"REBALANCE_IN_PROGRESS"}
    # Eager members give up everything before they join.
    given = {each: rejoined(scene, each)[1] for each in (first, second)}
    assert scene.beat("new", scene.member("new").epoch).assigned is not None
    everything = [*given.values(), scene.member("new").current.assigned]
    assert frozenset().union(*everything) == of("a", 0, 1, 2, 3)
    assert sum(map(len, everything)) == 4
    assert {told(scene, first), told(scene, second)} == {"NONE"}


def test_a_cooperative_member_is_told_in_two_steps(scene):
    (only,) = classic_group(scene, assignments=({"a": [0, 1, 2, 3]},))
    scene.join("new", "a")
    generation, given = rejoined(scene, only, owned={"a": [0, 1, 2, 3]})
    assert given == of("a", 0, 1)
    assert scene.member(only).current.state is MemberState.UNREVOKED_PARTITIONS
    assert heard(scene, only, generation) == "REBALANCE_IN_PROGRESS"
    assert scene.beat("new", 2).assigned is None
    generation, given = rejoined(scene, only, owned={"a": [0, 1]})
    assert (generation, given) == (2, of("a", 0, 1))
    assert scene.beat("new", 2).assigned == of("a", 2, 3)


def test_a_classic_member_that_waited_is_told_when_it_is_free(scene):
    scene.join("new", "a")
    joining = scene.base.join(**offering("a")).result
    assert told(scene, joining.member_id) == "NONE"
    scene.beat("new", 1)
    scene.beat("new", 1, owned=of("a", 0, 1))
    assert told(scene, joining.member_id) == "REBALANCE_IN_PROGRESS"
    assert rejoined(scene, joining.member_id)[1] == of("a", 2, 3)
    assert told(scene, joining.member_id) == "NONE"


def test_whoever_waits_in_a_classic_group_is_sent_to_join_again(scene):
    first, _ = classic_group(scene)
    waiting = scene.base.join(first, **offering("a", "b"))
    assert waiting.error == "waiting"
    scene.join("new", "a")
    assert waiting.error == "REBALANCE_IN_PROGRESS"


def test_what_a_classic_leader_has_not_shared_is_shared_by_an_upgrade(scene):
    """A static member subscribes to the same, so that nothing else would have them rebalance."""
    classic_group(scene, assignments=({"a": [0, 1]},), instance_id="i")
    assert scene.join("new", "a", instance_id="i").assigned == of("a", 0, 1, 2, 3)


def test_an_upgrade_by_a_static_member_goes_on_with_a_rebalance(scene):
    classic_group(scene, assignments=({"a": [0, 1, 2, 3]},), instance_id="i")
    waiting = scene.base.join(**offering("a"))
    given = scene.join("new", "a", instance_id="i").assigned
    assert (waiting.error, len(given)) == ("REBALANCE_IN_PROGRESS", 2)
    assert given | rejoined(scene, waiting.result.member_id)[1] == of("a", 0, 1, 2, 3)


@pytest.mark.parametrize(
    ("settings", "fields"),
    [
        ({"migration_policy": "disabled"}, {}),
        ({"migration_policy": "downgrade"}, {}),
        ({"max_size": 1}, {}),
        ({}, {"protocol_type": "connect"}),
    ],
)
def test_some_groups_are_not_upgraded(new_live_scene, settings, fields):
    scene = new_live_scene(**settings)
    classic_group(scene, **fields)
    assert scene.refusal("new", 0, **joining()) == "GROUP_ID_NOT_FOUND"
    assert isinstance(scene.shard.groups[GROUP], ClassicGroup)
    assert scene.base.state == "Stable"


def joining():
    return {
        "owned": frozenset(),
        "rebalance_timeout_ms": 5_000,
        "subscribed_topic_names": ["a"],
    }


def test_a_group_whose_members_speak_otherwise_is_not_upgraded(scene):
    scene.base.stable(1, offers=[Offer("range", b"\0\0gibberish")])
    assert scene.refusal("new", 0, **joining()) == "GROUP_ID_NOT_FOUND"
    assert scene.base.state == "Stable"


def test_an_empty_classic_group_becomes_a_new_one(scene):
    (only,) = classic_group(scene, assignments=({"a": [0]},))
    scene.base.leave(only)
    assert scene.join("new", "a").epoch == 1
    assert list(scene.base.replayed().groups[GROUP].group.members) == ["new"]


def test_an_empty_group_becomes_a_classic_one(scene):
    scene.join("new", "a")
    scene.beat("new", -1)
    classic_group(scene, assignments=({"a": [0]},))
    assert isinstance(scene.base.replayed().groups[GROUP], ClassicGroup)


# Downgrade


def upgraded(scene):
    ids = classic_group(scene)
    scene.join("new", "a")
    for each in ids:
        rejoined(scene, each)
    scene.beat("new", scene.live.group.epoch)
    return ids


@pytest.mark.parametrize("ending", ["leave", "session"])
def test_without_its_last_new_member_a_group_is_classic_again(scene, ending):
    ids = upgraded(scene)
    if ending == "leave":
        scene.beat("new", -1)
    else:
        for _ in range(6):
            scene.base.pass_ms(CLASSIC_SESSION_MS - 1_000)
            for each in ids:
                if isinstance(scene.shard.groups[GROUP], LiveGroup):
                    told(scene, each)
    group = scene.shard.groups[GROUP]
    assert isinstance(group, ClassicGroup)
    assert set(group.roster.members) == {*ids}
    assert group.state_name == "PreparingRebalance"
    assert {heard(scene, each, group.roster.generation) for each in ids} == {
        "REBALANCE_IN_PROGRESS"
    }


def test_a_downgraded_group_is_loaded_as_a_classic_one(scene):
    ids = upgraded(scene)
    scene.beat("new", -1)
    group = scene.base.replayed().groups[GROUP]
    assert isinstance(group, ClassicGroup)
    assert set(group.roster.members) == {*ids}
    assert group.roster.protocol == "range"


def test_members_of_a_downgraded_group_rebalance_among_themselves(scene):
    ids = upgraded(scene)
    scene.beat("new", -1)
    joins = [scene.base.join(each, **offering("a")) for each in ids]
    assert [each.error for each in joins] == ["NONE", "NONE"]
    scene.base.assigned(ids)
    assert scene.base.state == "Stable"


def test_a_downgraded_group_that_is_loaded_rebalances(scene):
    """Else nobody would ever read what the member that has gone had."""
    ids = upgraded(scene)
    generation = scene.live.group.epoch
    scene.beat("new", -1)
    scene.base.reload()
    assert [heard(scene, each, generation) for each in ids] == ["REBALANCE_IN_PROGRESS"] * 2
    joins = [scene.base.join(each, **offering("a")) for each in ids]
    assert [each.error for each in joins] == ["NONE", "NONE"]
    scene.base.assigned(ids)
    scene.base.reload()
    assert scene.base.state == "Stable"


def test_a_group_is_not_downgraded_where_that_is_not_allowed(new_live_scene):
    scene = new_live_scene(migration_policy="upgrade")
    ids = upgraded(scene)
    scene.beat("new", -1)
    assert isinstance(scene.shard.groups[GROUP], LiveGroup)
    assert set(scene.live.group.members) == {*ids}


def test_a_static_member_that_comes_back_as_a_classic_one_downgrades_its_group(scene):
    scene.join("new", "a", instance_id="i")
    scene.beat("new", -2, instance_id="i")
    joined = scene.base.join(**offering("a"), instance_id="i").result
    assert joined.failure is None
    group = scene.shard.groups[GROUP]
    assert isinstance(group, ClassicGroup)
    assert group.roster.instances == {"i": joined.member_id}


def with_a_static_member_away(scene):
    """Beside a classic one, which is told of what it has in the present epoch."""
    scene.join("new", "a", instance_id="i")
    old = scene.base.join(**offering("a")).result.member_id
    has = scene.beat("new", 1, owned=of("a", 0, 1, 2, 3)).assigned
    epoch = scene.beat("new", 1, owned=has).epoch
    generation, given = rejoined(scene, old)
    assert (generation, scene.live.state_name) == (epoch, "Stable")
    assert given | has == of("a", 0, 1, 2, 3)
    scene.beat("new", -2, instance_id="i")
    return old, has


def test_a_downgrade_by_a_static_member_that_comes_back_moves_nothing(scene):
    old, had = with_a_static_member_away(scene)
    joined = scene.base.join(**offering("a"), instance_id="i").result
    for _ in ("as it lives", "as it is loaded"):
        assert (scene.base.state, heard(scene, old, joined.generation)) == ("Stable", "NONE")
        synced = scene.base.sync(
            joined.member_id, generation=joined.generation, instance_id="i"
        ).result
        assert read_assigned(synced.assignment) == had
        scene.base.reload()


def test_the_static_member_that_downgrades_a_group_leads_it_and_is_told_so(scene):
    """Else nobody would look whether their topics have grown."""
    old, _ = with_a_static_member_away(scene)
    joined = scene.base.join(**offering("a"), instance_id="i").result
    assert (joined.leader, joined.skip_assignment) == (joined.member_id, True)
    assert {each.member_id for each in joined.members} == {old, joined.member_id}
    waiting = scene.base.join(joined.member_id, **offering("a"), instance_id="i")
    assert (waiting.error, scene.base.state) == ("waiting", "PreparingRebalance")


def test_one_that_cannot_lead_without_assigning_has_the_group_rebalance(scene):
    with_a_static_member_away(scene)
    joined = scene.base.join(**offering("a"), instance_id="i", can_skip_assignment=False).result
    assert (joined.failure, joined.leader) == (None, "")
    assert scene.base.state == "PreparingRebalance"
    synced = scene.base.sync(joined.member_id, generation=joined.generation, instance_id="i")
    assert synced.error == "REBALANCE_IN_PROGRESS"


def test_a_downgrade_by_a_static_member_with_another_subscription_is_a_rebalance(scene):
    scene.set_topic("b", 2)
    old, _ = with_a_static_member_away(scene)
    before = scene.live.group.epoch
    scene.base.join(**offering("a", "b"), instance_id="i")
    assert scene.base.state == "PreparingRebalance"
    assert heard(scene, old, before) == "ILLEGAL_GENERATION"
    scene.base.reload()
    assert scene.base.state == "PreparingRebalance"


def test_a_member_that_came_for_the_next_generation_is_taken_over_too(scene):
    first, second = classic_group(scene)
    both = offering("a", names=("range", "sticky"))
    scene.base.join(first, **both)
    scene.base.join(second, **both)
    scene.base.join(first, **both)
    late = scene.base.join(**offering("a", names=("sticky",)))
    assert late.error == "waiting"
    scene.join("new", "a")
    assert late.error == "REBALANCE_IN_PROGRESS"
    assert set(scene.live.group.members) == {first, second, late.result.member_id, "new"}


def test_an_empty_group_is_left_alone_by_whoever_is_no_member(scene):
    scene.join("new", "a")
    scene.beat("new", -1)
    assert scene.base.join("stranger", **offering("a")).error == "UNKNOWN_MEMBER_ID"
    assert isinstance(scene.shard.groups[GROUP], LiveGroup)


def test_a_classic_group_that_another_broker_put_on_top_of_ours_is_what_counts(scene):
    scene.join("new", "a")
    (only,) = classic_group_elsewhere(scene)
    scene.base.reload()
    assert list(scene.base.group.roster.members) == [only]
    left = {part_version(key) for _, key, _ in scene.base.log.replay().records()}
    assert left == {GROUP_KEY}


def classic_group_elsewhere(scene):
    """Written by a broker that does not know of the other."""
    there = LiveGroupScene({"a": 4})
    ids = classic_group(there, assignments=({"a": [0]},))
    for batch in there.base.log.batches:
        scene.base.log.append([(record.key, record.value) for record in batch.records()])
    there.close()
    return ids
