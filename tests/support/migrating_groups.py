"""Groups that become those of the other protocol: what their classic members say and are told."""

from odradek.broker.groups.classic.messages import MemberProtocol
from odradek.broker.groups.classic.requests import heartbeat
from odradek.protocol.errors import KafkaError
from tests.support.group_scene import GROUP
from tests.support.live_group_scene import assigned, read_assigned, subscribed


def offering(*topics, owned=None, names=("range",)):
    return {"protocols": [MemberProtocol(name, subscribed(*topics, owned=owned)) for name in names]}


def classic_group(scene, *, assignments=({"a": [0, 1]}, {"a": [2, 3]}), **fields):
    """A stable one, of as many members as assignments; the leader first."""
    joins = [scene.base.join(**offering("a"), **fields) for _ in assignments]
    scene.base.pass_ms(1)
    ids = [each.result.member_id for each in joins]
    given = dict(zip(ids, (assigned(**each) for each in assignments), strict=True))
    leader = scene.base.group.metadata.leader
    for each in sorted(ids, key=lambda each: each != leader):
        scene.base.sync(each, given if each == leader else None)
    assert scene.base.state == "Stable"
    return ids


def rejoined(scene, member_id, *, owned=None, **fields):
    """What it is given, after JoinGroup and SyncGroup."""
    joined = scene.base.join(member_id, **offering("a", owned=owned), **fields).result
    assert joined.error is None, joined.error
    synced = scene.base.sync(member_id, generation=joined.generation, **fields).result
    assert synced.error is None, synced.error
    return joined.generation, read_assigned(synced.assignment)


def heard(scene, member_id, generation):
    try:
        heartbeat(scene.shard, GROUP, member_id, None, generation)
    except KafkaError as failure:
        return failure.error_code.name
    return "NONE"


def told(scene, member_id):
    return heard(scene, member_id, scene.member(member_id).epoch)
