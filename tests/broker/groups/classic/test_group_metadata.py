"""The members of a classic group: what is stored of them, and made of what was stored."""

import pytest

from odradek.broker.groups.classic.roster import Roster
from odradek.broker.groups.classic.state import GroupState
from odradek.broker.groups.classic.subscriptions import subscribed_topics
from odradek.broker.groups.records import group_value, read_group_value
from odradek.protocol.internal.group_log import GroupMetadataValue
from odradek.protocol.internal.log_record import encode_part
from tests.support.group_scene import subscription


def stored(*members, protocol="range", leader="a", **fields):
    return GroupMetadataValue(
        protocol_type="consumer",
        generation=3,
        protocol=protocol,
        leader=leader,
        current_state_timestamp=77,
        members=[
            GroupMetadataValue.MemberMetadata(
                member_id=each,
                group_instance_id=f"static-{each}",
                client_id="c",
                client_host="/h",
                rebalance_timeout=9,
                session_timeout=8,
                subscription=subscription("events"),
                assignment=each.encode(),
            )
            for each in members
        ],
        **fields,
    )


def test_what_was_stored_is_what_is_restored():
    value = stored("a", "b")
    roster = Roster.restored(value)
    assert roster.stored() == value
    assert read_group_value(group_value(value)) == value
    assert (roster.state, roster.leader, roster.generation) == (GroupState.STABLE, "a", 3)
    assert roster.instances == {"static-a": "a", "static-b": "b"}
    assert roster.subscribed == {"events"}


def test_a_group_without_members_is_empty():
    roster = Roster.restored(stored(protocol=None, leader=None))
    assert (roster.state, roster.leader, roster.subscribed) == (GroupState.EMPTY, None, frozenset())
    assert roster.state_since_ms == 77


@pytest.mark.parametrize("version", range(5))
def test_a_group_that_any_broker_stored_is_read(version):
    roster = Roster.restored(read_group_value(encode_part(stored("a"), version)))
    (member,) = roster.members.values()
    assert member.timeouts == ((8, 8) if version == 0 else (8, 9))
    assert member.instance_id == ("static-a" if version >= 3 else None)
    assert roster.state_since_ms == (77 if version >= 2 else -1)


def test_a_group_that_was_stored_without_a_leader_has_none():
    assert Roster.restored(stored("a", "b", leader=None)).leader is None


def test_subscriptions_of_all_members_count_together():
    told = [subscription("a", "b"), subscription("b", "c")]
    assert subscribed_topics(told) == {"a", "b", "c"}
    assert subscribed_topics([*told, b"\0"]) is None
    newer = b"\0\3" + subscription("d")[2:] + b"whatever else"
    assert subscribed_topics([newer]) == {"d"}
