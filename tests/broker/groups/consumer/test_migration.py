"""Tests of broker/groups/consumer/migration.py: members of both protocols in one group."""

import pytest

from odradek.broker.groups.classic.group import ClassicGroup
from odradek.broker.groups.classic.messages import MemberProtocol
from odradek.broker.groups.consumer.consumer_group_runtime import ConsumerGroupRuntime
from odradek.broker.groups.consumer.member import MemberState
from odradek.broker.groups.records import GROUP_KEY_VERSION
from odradek.protocol.internal.coordinator_record import read_version_prefix
from tests.support.consumer_group_scene import of, parts
from tests.support.group_scene import GROUP
from tests.support.group_scene import SESSION_MS as CLASSIC_SESSION_MS
from tests.support.live_group_scene import LiveGroupScene, assigned, read_assigned
from tests.support.migrating_groups import classic_group, heard, offering, rejoined, told


@pytest.fixture
def scene(live_scene):
    return live_scene


# Upgrade


def test_members_of_an_upgraded_group_keep_their_partitions(scene):
    first, second = classic_group(scene)
    joined = scene.join("new", "a")
    assert isinstance(scene.shard.groups[GROUP], ConsumerGroupRuntime)
    assert scene.member(first).current_assignment.held == of("a", 0, 1)
    assert scene.member(second).current_assignment.held == of("a", 2, 3)
    assert joined.assigned == frozenset()
    assert joined.member_epoch == scene.live.group.epoch


def test_upgraded_group_is_loaded_unchanged(scene):
    classic_group(scene)
    scene.join("new", "a")
    before = parts(scene.live.group)
    scene.base.reload()
    assert parts(scene.live.group) == before


def test_partitions_of_members_in_an_aborted_rebalance_are_not_reassigned(scene):
    """A member joins before the leader has assigned: cooperative members continue to read."""
    first, second = classic_group(scene)
    scene.base.join(first, **offering("a", owned={"a": [0, 1]}))
    scene.base.join(second, **offering("a", owned={"a": [2, 3]}))
    assert scene.base.state == "CompletingRebalance"
    scene.base.join(**offering("a"))
    assert scene.join("new", "a").assigned == frozenset()
    assert scene.member(first).current_assignment.held == of("a", 0, 1)
    assert scene.member(second).current_assignment.held == of("a", 2, 3)


def test_partition_not_yet_revoked_by_a_cooperative_member_is_not_reassigned(scene):
    """Its leader intends it for another member in the next generation."""
    first, second = classic_group(scene)
    scene.base.join(first, **offering("a", owned={"a": [0, 1]}))
    scene.base.join(second, **offering("a", owned={"a": [2, 3]}))
    scene.base.sync(first, {first: assigned(a=[0]), second: assigned(a=[2, 3])})
    assert scene.base.state == "Stable"
    assert scene.join("new", "a").assigned == frozenset()
    assert scene.member(first).current_assignment.held == of("a", 0, 1)


def test_partition_assigned_to_another_member_is_not_held_by_its_former_owner(scene):
    """Eager leaders assign like this: the former owner has revoked all its partitions before."""
    first, second = classic_group(scene)
    scene.base.join(first, **offering("a", owned={"a": [0, 1]}))
    scene.base.join(second, **offering("a", owned={"a": [2, 3]}))
    scene.base.sync(first, {first: assigned(a=[2, 3]), second: assigned(a=[0, 1])})
    scene.join("new", "a")
    assert scene.member(first).current_assignment.held == of("a", 2, 3)
    assert scene.member(second).current_assignment.held == of("a", 0, 1)


def test_member_that_joined_before_an_upgrade_must_rejoin_with_any_protocol(scene):
    """It got the protocol of the classic group. Java's client fails on another protocol."""
    joins = [
        scene.base.join(**offering("a", names=each)) for each in (("range", "sticky"), ("sticky",))
    ]
    scene.base.pass_ms(1)
    first, _ = (each.result for each in joins)
    assert first.protocol == "sticky"
    scene.join("new", "a")
    syncing = scene.base.sync(first.member_id, generation=first.generation, protocol="sticky")
    assert syncing.error == "REBALANCE_IN_PROGRESS"


def test_classic_members_revoke_by_rejoining(scene):
    first, second = classic_group(scene)
    scene.join("new", "a")
    assert {told(scene, first), told(scene, second)} == {"REBALANCE_IN_PROGRESS"}
    # Eager members revoke everything before they join.
    assignments = {each: rejoined(scene, each)[1] for each in (first, second)}
    assert scene.beat("new", scene.member("new").epoch).assigned is not None
    everything = [*assignments.values(), scene.member("new").current_assignment.assigned]
    assert frozenset().union(*everything) == of("a", 0, 1, 2, 3)
    assert sum(map(len, everything)) == 4
    assert {told(scene, first), told(scene, second)} == {"NONE"}


def test_cooperative_member_revokes_in_two_steps(scene):
    (only,) = classic_group(scene, assignments=({"a": [0, 1, 2, 3]},))
    scene.join("new", "a")
    generation, partitions = rejoined(scene, only, owned={"a": [0, 1, 2, 3]})
    assert partitions == of("a", 0, 1)
    assert scene.member(only).current_assignment.state is MemberState.UNREVOKED_PARTITIONS
    assert heard(scene, only, generation) == "REBALANCE_IN_PROGRESS"
    assert scene.beat("new", 2).assigned is None
    generation, partitions = rejoined(scene, only, owned={"a": [0, 1]})
    assert (generation, partitions) == (2, of("a", 0, 1))
    assert scene.beat("new", 2).assigned == of("a", 2, 3)


def test_waiting_classic_member_must_rejoin_when_its_partitions_are_free(scene):
    scene.join("new", "a")
    joined = scene.base.join(**offering("a")).result
    assert told(scene, joined.member_id) == "NONE"
    scene.beat("new", 1)
    scene.beat("new", 1, owned=of("a", 0, 1))
    assert told(scene, joined.member_id) == "REBALANCE_IN_PROGRESS"
    assert rejoined(scene, joined.member_id)[1] == of("a", 2, 3)
    assert told(scene, joined.member_id) == "NONE"


def test_waiting_join_of_a_classic_group_fails_at_the_upgrade(scene):
    first, _ = classic_group(scene)
    waiting = scene.base.join(first, **offering("a", "b"))
    assert waiting.error == "waiting"
    scene.join("new", "a")
    assert waiting.error == "REBALANCE_IN_PROGRESS"


def test_upgrade_assigns_partitions_that_the_classic_leader_did_not(scene):
    """The static member keeps its subscription, so nothing else would start a rebalance."""
    classic_group(scene, assignments=({"a": [0, 1]},), instance_id="i")
    assert scene.join("new", "a", instance_id="i").assigned == of("a", 0, 1, 2, 3)


def test_upgrade_by_a_static_member_continues_a_rebalance(scene):
    classic_group(scene, assignments=({"a": [0, 1, 2, 3]},), instance_id="i")
    waiting = scene.base.join(**offering("a"))
    partitions = scene.join("new", "a", instance_id="i").assigned
    assert (waiting.error, len(partitions)) == ("REBALANCE_IN_PROGRESS", 2)
    assert partitions | rejoined(scene, waiting.result.member_id)[1] == of("a", 0, 1, 2, 3)


@pytest.mark.parametrize(
    ("settings", "fields"),
    [
        ({"migration_policy": "disabled"}, {}),
        ({"migration_policy": "downgrade"}, {}),
        ({"max_size": 1}, {}),
        ({}, {"protocol_type": "connect"}),
    ],
)
def test_some_groups_cannot_be_upgraded(new_live_scene, settings, fields):
    scene = new_live_scene(**settings)
    classic_group(scene, **fields)
    assert scene.refusal("new", 0, **join_fields()) == "GROUP_ID_NOT_FOUND"
    assert isinstance(scene.shard.groups[GROUP], ClassicGroup)
    assert scene.base.state == "Stable"


def join_fields():
    return {
        "owned": frozenset(),
        "rebalance_timeout_ms": 5_000,
        "subscribed_topic_names": ["a"],
    }


def test_group_with_unreadable_subscriptions_is_not_upgraded(scene):
    scene.base.stable(1, protocols=[MemberProtocol("range", b"\0\0gibberish")])
    assert scene.refusal("new", 0, **join_fields()) == "GROUP_ID_NOT_FOUND"
    assert scene.base.state == "Stable"


def test_empty_classic_group_is_replaced_by_a_consumer_group(scene):
    (only,) = classic_group(scene, assignments=({"a": [0]},))
    scene.base.leave(only)
    assert scene.join("new", "a").member_epoch == 1
    assert list(scene.base.replayed().groups[GROUP].group.members) == ["new"]


def test_empty_consumer_group_is_replaced_by_a_classic_group(scene):
    scene.join("new", "a")
    scene.beat("new", -1)
    classic_group(scene, assignments=({"a": [0]},))
    assert isinstance(scene.base.replayed().groups[GROUP], ClassicGroup)


# Downgrade


def upgrade_group(scene):
    ids = classic_group(scene)
    scene.join("new", "a")
    for each in ids:
        rejoined(scene, each)
    scene.beat("new", scene.live.group.epoch)
    return ids


@pytest.mark.parametrize("ending", ["leave", "session"])
def test_group_is_downgraded_without_its_last_consumer_member(scene, ending):
    ids = upgrade_group(scene)
    if ending == "leave":
        scene.beat("new", -1)
    else:
        for _ in range(6):
            scene.base.pass_ms(CLASSIC_SESSION_MS - 1_000)
            for each in ids:
                if isinstance(scene.shard.groups[GROUP], ConsumerGroupRuntime):
                    told(scene, each)
    group = scene.shard.groups[GROUP]
    assert isinstance(group, ClassicGroup)
    assert set(group.metadata.members) == {*ids}
    assert group.state_name == "PreparingRebalance"
    assert {heard(scene, each, group.metadata.generation) for each in ids} == {
        "REBALANCE_IN_PROGRESS"
    }


def test_downgraded_group_is_loaded_as_a_classic_group(scene):
    ids = upgrade_group(scene)
    scene.beat("new", -1)
    group = scene.base.replayed().groups[GROUP]
    assert isinstance(group, ClassicGroup)
    assert set(group.metadata.members) == {*ids}
    assert group.metadata.protocol == "range"


def test_members_of_a_downgraded_group_can_rebalance(scene):
    ids = upgrade_group(scene)
    scene.beat("new", -1)
    joins = [scene.base.join(each, **offering("a")) for each in ids]
    assert [each.error for each in joins] == ["NONE", "NONE"]
    scene.base.assigned(ids)
    assert scene.base.state == "Stable"


def test_downgraded_group_rebalances_after_loading(scene):
    """Otherwise no member would ever read the partitions of the removed one."""
    ids = upgrade_group(scene)
    generation = scene.live.group.epoch
    scene.beat("new", -1)
    scene.base.reload()
    assert [heard(scene, each, generation) for each in ids] == ["REBALANCE_IN_PROGRESS"] * 2
    joins = [scene.base.join(each, **offering("a")) for each in ids]
    assert [each.error for each in joins] == ["NONE", "NONE"]
    scene.base.assigned(ids)
    scene.base.reload()
    assert scene.base.state == "Stable"


def test_downgrade_follows_the_migration_policy(new_live_scene):
    scene = new_live_scene(migration_policy="upgrade")
    ids = upgrade_group(scene)
    scene.beat("new", -1)
    assert isinstance(scene.shard.groups[GROUP], ConsumerGroupRuntime)
    assert set(scene.live.group.members) == {*ids}


def test_static_member_that_returns_as_a_classic_member_downgrades_its_group(scene):
    scene.join("new", "a", instance_id="i")
    scene.beat("new", -2, instance_id="i")
    joined = scene.base.join(**offering("a"), instance_id="i").result
    assert joined.error is None
    group = scene.shard.groups[GROUP]
    assert isinstance(group, ClassicGroup)
    assert group.metadata.static_members == {"i": joined.member_id}


def group_with_static_member_away(scene):
    """The static member is away; a classic member has its assignment of the current epoch."""
    scene.join("new", "a", instance_id="i")
    old = scene.base.join(**offering("a")).result.member_id
    owned = scene.beat("new", 1, owned=of("a", 0, 1, 2, 3)).assigned
    epoch = scene.beat("new", 1, owned=owned).member_epoch
    generation, partitions = rejoined(scene, old)
    assert (generation, scene.live.state_name) == (epoch, "Stable")
    assert partitions | owned == of("a", 0, 1, 2, 3)
    scene.beat("new", -2, instance_id="i")
    return old, owned


def test_downgrade_by_a_returning_static_member_moves_no_partition(scene):
    old, owned = group_with_static_member_away(scene)
    joined = scene.base.join(**offering("a"), instance_id="i").result
    for _ in ("live", "loaded"):
        assert (scene.base.state, heard(scene, old, joined.generation)) == ("Stable", "NONE")
        synced = scene.base.sync(
            joined.member_id, generation=joined.generation, instance_id="i"
        ).result
        assert read_assigned(synced.assignment) == owned
        scene.base.reload()


def test_static_member_that_downgrades_a_group_becomes_its_leader(scene):
    """Otherwise no member would check whether its topics have grown."""
    old, _ = group_with_static_member_away(scene)
    joined = scene.base.join(**offering("a"), instance_id="i").result
    assert (joined.leader, joined.skip_assignment) == (joined.member_id, True)
    assert {each.member_id for each in joined.members} == {old, joined.member_id}
    waiting = scene.base.join(joined.member_id, **offering("a"), instance_id="i")
    assert (waiting.error, scene.base.state) == ("waiting", "PreparingRebalance")


def test_downgrade_by_a_client_that_cannot_skip_the_assignment_starts_a_rebalance(scene):
    group_with_static_member_away(scene)
    joined = scene.base.join(
        **offering("a"), instance_id="i", supports_skipping_assignment=False
    ).result
    assert (joined.error, joined.leader) == (None, "")
    assert scene.base.state == "PreparingRebalance"
    synced = scene.base.sync(joined.member_id, generation=joined.generation, instance_id="i")
    assert synced.error == "REBALANCE_IN_PROGRESS"


def test_downgrade_by_a_static_member_with_another_subscription_starts_a_rebalance(scene):
    scene.set_topic("b", 2)
    old, _ = group_with_static_member_away(scene)
    before = scene.live.group.epoch
    scene.base.join(**offering("a", "b"), instance_id="i")
    assert scene.base.state == "PreparingRebalance"
    assert heard(scene, old, before) == "ILLEGAL_GENERATION"
    scene.base.reload()
    assert scene.base.state == "PreparingRebalance"


def test_member_waiting_for_the_next_generation_is_upgraded_too(scene):
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


def test_unknown_member_does_not_replace_an_empty_group(scene):
    scene.join("new", "a")
    scene.beat("new", -1)
    assert scene.base.join("stranger", **offering("a")).error == "UNKNOWN_MEMBER_ID"
    assert isinstance(scene.shard.groups[GROUP], ConsumerGroupRuntime)


def test_classic_group_written_later_by_another_broker_wins(scene):
    scene.join("new", "a")
    (only,) = write_classic_group_elsewhere(scene)
    scene.base.reload()
    assert list(scene.base.group.metadata.members) == [only]
    key_versions = {read_version_prefix(key) for _, key, _ in scene.base.log.replay().records()}
    assert key_versions == {GROUP_KEY_VERSION}


def write_classic_group_elsewhere(scene):
    """Append the records of a broker that does not know the consumer group."""
    other_scene = LiveGroupScene({"a": 4})
    ids = classic_group(other_scene, assignments=({"a": [0]},))
    for batch in other_scene.base.log.batches:
        scene.base.log.append([(record.key, record.value) for record in batch.records()])
    other_scene.close()
    return ids
