"""One shard of groups on a log in memory and a loop whose time passes when the test says so."""

from itertools import count
from typing import Any

from odradek.broker.groups.classic.group import ClassicGroup
from odradek.broker.groups.classic.messages import (
    ClientIdentity,
    JoinGroupResult,
    JoinRequest,
    MemberProtocol,
    SyncGroupResult,
    Timeouts,
)
from odradek.broker.groups.classic.requests import (
    heartbeat,
    join_group,
    leave_group,
    sync_group,
)
from odradek.broker.groups.classic.sync import SyncRequest
from odradek.broker.groups.context import GroupContext
from odradek.broker.groups.shard import GroupCoordinatorShard
from odradek.broker.settings.groups import GroupSettings
from odradek.protocol.errors import KafkaError
from odradek.protocol.internal.consumer_protocol import ConsumerProtocolSubscription
from odradek.protocol.internal.coordinator_record import encode_version_prefixed
from tests.support.group_log import MemoryLog
from tests.support.virtual_loop import VirtualLoop

GROUP = "readers"
SESSION_MS = 10_000
REBALANCE_MS = 60_000
#: Virtual time begins here, as the system's clock has it.
EPOCH_MS = 1_700_000_000_000


def subscription(*topics: str) -> bytes:
    return encode_version_prefixed(ConsumerProtocolSubscription(topics=list(topics)), 0)


def offers(*names: str, topics: tuple[str, ...] = ("events",)) -> list[MemberProtocol]:
    return [MemberProtocol(name, subscription(*topics)) for name in names or ("range",)]


def wanting(member_id: str = "", **fields: Any) -> JoinRequest:
    """To join; ``offered`` are the names of protocols."""
    values = {
        "instance_id": None,
        "client": ClientIdentity("reader", "/127.0.0.1"),
        "timeouts": Timeouts(
            fields.pop("session_ms", SESSION_MS), fields.pop("rebalance_ms", REBALANCE_MS)
        ),
        "protocol_type": "consumer",
        "protocols": offers(*fields.pop("offered", ()), topics=fields.pop("topics", ("events",))),
        "requires_known_member_id": False,
        "supports_skipping_assignment": True,
    }
    return JoinRequest(member_id=member_id, **{**values, **fields})


class GroupScene:
    """Without an initial delay, unless settings say so."""

    def __init__(self, **settings: Any) -> None:
        self.loop = VirtualLoop()
        self.log = MemoryLog()
        self._ids = count(1)
        self.world = GroupContext(
            GroupSettings(**{"initial_rebalance_delay_ms": 0, **settings}),
            self.loop,
            lambda: EPOCH_MS + self.loop.now_ms(),
            lambda: str(next(self._ids)),
        )
        self.shard = GroupCoordinatorShard(self.log, self.world)  # type: ignore[arg-type]

    def close(self) -> None:
        self.shard.on_unloaded()
        self.loop.close()

    def pass_ms(self, milliseconds: float) -> None:
        self.loop.pass_time(milliseconds / 1000)

    @property
    def group(self) -> ClassicGroup:
        group = self.shard.groups[GROUP]
        assert isinstance(group, ClassicGroup)
        return group

    @property
    def state(self) -> str:
        return self.group.state_name

    def reload(self) -> None:
        """As another coordinator would find it."""
        self.shard.on_unloaded()
        self.shard = self.replayed()
        self.shard.on_loaded()

    def replayed(self, *, only_replicated: bool = False) -> GroupCoordinatorShard:
        """What the log amounts to; nothing has begun in it."""
        shard = GroupCoordinatorShard(self.log, self.world)  # type: ignore[arg-type]
        replay = self.log.replay(only_replicated=only_replicated)
        for offset, key, value in replay.records():
            shard.apply(key, value, offset)
        for producer_id, (offset, key, value) in replay.pending():
            shard.apply_pending(producer_id, key, value, offset)
        return shard

    # What members ask for

    def join(self, member_id: str = "", group: str = GROUP, **fields: Any) -> "Waiting":
        return Waiting(join_group(self.shard, group, wanting(member_id, **fields)))

    def sync(
        self,
        member_id: str,
        assignments: dict[str, bytes] | None = None,
        *,
        generation: int | None = None,
        **fields: Any,
    ) -> "Waiting":
        request = SyncRequest(
            member_id=member_id,
            instance_id=fields.get("instance_id"),
            generation=self.group.metadata.generation if generation is None else generation,
            protocol_type=fields.get("protocol_type"),
            protocol=fields.get("protocol"),
            assignments=assignments or {},
        )
        try:
            return Waiting(sync_group(self.shard, GROUP, request))
        except KafkaError as failure:
            return Waiting(SyncGroupResult(error=failure))

    def heartbeat(
        self, member_id: str, generation: int | None = None, instance_id: str | None = None
    ) -> str:
        """The name of the error, or of none."""
        current = self.group.metadata.generation if GROUP in self.shard.groups else 0
        try:
            heartbeat(
                self.shard,
                GROUP,
                member_id,
                instance_id,
                current if generation is None else generation,
            )
        except KafkaError as failure:
            return failure.error_code.name
        return "NONE"

    def leave(self, member_id: str, instance_id: str | None = None) -> str:
        failure = leave_group(self.shard, GROUP, member_id, instance_id, None)
        return "NONE" if failure is None else failure.error_code.name

    # Whole stories

    def stable(self, size: int = 1, **fields: Any) -> list[str]:
        """A group of so many members, the leader first; each is assigned its own id."""
        joins = [self.join(**fields) for _ in range(size)]
        self.pass_ms(self.world.settings.initial_rebalance_delay_ms)
        if size > 1 and not all(each.is_answered for each in joins):
            self.pass_ms(1)
        ids = [each.result.member_id for each in joins]
        return self.assigned(ids)

    def assigned(self, ids: list[str]) -> list[str]:
        leader = self.group.metadata.leader
        parts = {each: each.encode() for each in ids}
        syncs = [self.sync(each, parts if each == leader else None) for each in ids]
        assert all(each.is_answered for each in syncs)
        return sorted(ids, key=lambda each: each != leader)


class Waiting:
    """An answer that is there, or will be."""

    def __init__(self, outcome: Any) -> None:
        self._outcome = outcome

    @property
    def is_answered(self) -> bool:
        return isinstance(self._outcome, JoinGroupResult | SyncGroupResult) or self._outcome.done()

    @property
    def result(self) -> Any:
        if isinstance(self._outcome, JoinGroupResult | SyncGroupResult):
            return self._outcome
        return self._outcome.result()

    @property
    def error(self) -> str:
        """The name of the error, or of none; "waiting" while there is no answer."""
        if not self.is_answered:
            return "waiting"
        failure = self.result.error
        return "NONE" if failure is None else failure.error_code.name
