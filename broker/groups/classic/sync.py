"""SyncGroup for classic groups: store the leader's assignment and return it to each member.

A SyncGroup request waits until the leader has assigned and the assignment is replicated.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from odradek.broker.coordinator.append_errors import STORE_GROUP_ERRORS, map_append_error
from odradek.broker.groups.classic.group import ClassicGroup
from odradek.broker.groups.classic.messages import SyncGroupResult
from odradek.broker.groups.classic.state import ClassicGroupState, check_api_allowed
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.errors import InconsistentGroupProtocol, KafkaError

log = logging.getLogger("kafka.coordinator.group")

#: The result, or a future that completes when the assignment is replicated.
SyncResultOrFuture = SyncGroupResult | asyncio.Future[SyncGroupResult]


@dataclass(slots=True, kw_only=True)
class SyncRequest:
    """A SyncGroup request; ``assignments`` is set for the leader only, by member id.

    Treated as immutable: see messages.py.
    """

    member_id: str
    instance_id: str | None
    generation: int
    #: None if the client is too old to send it.
    protocol_type: str | None
    protocol: str | None
    assignments: Mapping[str, bytes]


def sync(group: ClassicGroup, request: SyncRequest) -> SyncResultOrFuture:
    """Raise KafkaError if the group rejects the request."""
    metadata = group.metadata
    if metadata.state is ClassicGroupState.DEAD:
        check_api_allowed(metadata.state, ApiKey.SYNC_GROUP)
    member = group.validate_member_generation(
        request.member_id, request.instance_id, request.generation
    )
    _check_protocol(group, request)
    check_api_allowed(metadata.state, ApiKey.SYNC_GROUP)
    group.remove_pending_sync_member(member)
    if metadata.state is ClassicGroupState.STABLE and group.is_assignment_propagated:
        member.reset_session_timer()
        return metadata.build_sync_result(member)
    future: asyncio.Future[SyncGroupResult] = group.shard.context.loop.create_future()
    member.awaiting_sync_future = future
    if metadata.leader == member.id and metadata.state is not ClassicGroupState.STABLE:
        _store_assignments(group, request.assignments)
    return future


def _check_protocol(group: ClassicGroup, request: SyncRequest) -> None:
    metadata = group.metadata
    if request.protocol_type not in (None, metadata.protocol_type):
        raise InconsistentGroupProtocol()
    if request.protocol not in (None, metadata.protocol):
        raise InconsistentGroupProtocol()


def _store_assignments(group: ClassicGroup, assignments: Mapping[str, bytes]) -> None:
    all_assignments = {
        member_id: assignments.get(member_id, b"") for member_id in group.metadata.members
    }
    try:
        append_info = group.store(all_assignments)
    except KafkaError as error:
        _fail_sync(group, error)
        return
    group.set_assignments(all_assignments)
    generation = group.metadata.generation
    group.shard.log.when_replicated(append_info, partial(_propagate_assignment, group, generation))


def _propagate_assignment(group: ClassicGroup, generation: int, error: KafkaError | None) -> None:
    metadata = group.metadata
    if metadata.state is not ClassicGroupState.STABLE or metadata.generation != generation:
        return  # another rebalance has started and has completed all waiting requests
    if error is None:
        group.propagate_assignment()
    else:
        _fail_sync(group, error)


def _fail_sync(group: ClassicGroup, error: KafkaError) -> None:
    group.reset_assignments_with_error(map_append_error(error, STORE_GROUP_ERRORS))
    group.prepare_rebalance(f"failed to store the group assignment: {error}")
