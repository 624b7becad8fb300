"""A consumer as they were before 0.9: its group is a branch of ZooKeeper's tree, and nothing else.

    /consumers/G/ids/C          ephemeral: what a member reads
    /consumers/G/owners/T/P     ephemeral: which member has a partition
    /consumers/G/offsets/T/P    where its next owner begins

Whoever sees that members, partitions or brokers have changed lets go of what it owns, computes from
the sorted names what is its share, and claims that as soon as others have let go of it.  Of brokers
it wants Metadata, ListOffsets and Fetch, all in their first version.

Owner: the test's thread; kazoo's only note that something has changed.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Self

from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError, NoNodeError

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.records.record_set import batches_of_any_magic
from tests.support.wire_client import HungUp, call

EARLIEST = -2
NOBODY = -1
FETCH_BYTES = 1 << 20
SESSION_S = 6.0


class OldConsumer:
    """A member from ``with`` on; reads when it is polled."""

    def __init__(self, zookeeper: str, group: str, topic: str, *, name: str) -> None:
        self._tree = KazooClient(zookeeper, timeout=SESSION_S)
        self._group, self._topic, self._name = f"/consumers/{group}", topic, f"{group}_{name}"
        self._has_changed = threading.Event()
        self.owned: set[int] = set()
        self.values: list[bytes | None] = []
        #: By number, where each broker is.
        self._brokers: dict[int, str] = {}

    def __enter__(self) -> Self:
        self._tree.start()
        reads = {
            "version": 1,
            "subscription": {self._topic: 1},
            "pattern": "static",
            "timestamp": str(int(time.time() * 1000)),
        }
        path = f"{self._group}/ids/{self._name}"
        self._tree.create(path, json.dumps(reads).encode(), ephemeral=True, makepath=True)
        self._has_changed.set()
        return self

    def __exit__(self, *failure: object) -> None:
        """Its session ends, and with it all that is ephemeral."""
        self._tree.stop()
        self._tree.close()

    def poll(self) -> None:
        """Share out again, if anything has changed; read what is there, and commit it."""
        if self._has_changed.is_set():
            self._has_changed.clear()
            self._share_out()
        leaders = self._leaders()
        for partition in sorted(self.owned):
            address = self._brokers.get(leaders.get(partition, NOBODY))
            if address is not None:
                with suppress(OSError, HungUp):  # it is gone: the next poll may find another
                    self._read(partition, address)

    # The tree

    def _share_out(self) -> None:
        for partition in [*self.owned]:
            self._tree.delete(self._owner(partition))
            self.owned.remove(partition)
        members = sorted(self._children(f"{self._group}/ids"))
        self._brokers = dict(self._registered())
        assigned, _ = self._tree.get(f"/brokers/topics/{self._topic}", watch=self._note)
        partitions = sorted(map(int, json.loads(assigned)["partitions"]))
        share = partitions[members.index(self._name) :: len(members)]
        for partition in share:
            try:
                owner = self._name.encode() + b"-0"
                self._tree.create(self._owner(partition), owner, ephemeral=True, makepath=True)
                self.owned.add(partition)
            except NodeExistsError:
                self._has_changed.set()  # another has not let go of it yet

    def _children(self, path: str) -> list[str]:
        return list(self._tree.get_children(path, watch=self._note))

    def _registered(self) -> Iterator[tuple[int, str]]:
        for number in self._children("/brokers/ids"):
            with suppress(NoNodeError):  # it has just gone, which will be noted
                broker = json.loads(self._tree.get(f"/brokers/ids/{number}")[0])
                yield int(number), f"{broker['host']}:{broker['port']}"

    def _note(self, event: object) -> None:
        self._has_changed.set()

    def _owner(self, partition: int) -> str:
        return f"{self._group}/owners/{self._topic}/{partition}"

    def _offset(self, partition: int) -> str:
        return f"{self._group}/offsets/{self._topic}/{partition}"

    # The brokers

    def _leaders(self) -> dict[int, int]:
        for address in self._brokers.values():
            with suppress(OSError, HungUp):
                answer = call(address, ApiKey.METADATA, 0, topics=[{"name": self._topic}])
                (found,) = answer.topics
                return {each.partition_index: each.leader_id for each in found.partitions}
        return {}

    def _read(self, partition: int, address: str) -> None:
        offset = self._start(partition, address)
        asked = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": FETCH_BYTES}
        topics = [{"topic": self._topic, "partitions": [asked]}]
        answer = call(address, ApiKey.FETCH, 0, max_wait_ms=100, min_bytes=1, topics=topics)
        ((line,),) = (each.partitions for each in answer.responses)
        if line.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER.code:
            return  # it is another by now
        assert not line.error_code, ErrorCode.for_code(line.error_code)
        for batch in batches_of_any_magic(bytes(line.records or b"")):
            for record in batch.records():
                if record.offset >= offset:
                    self.values.append(record.value)
                    offset = record.offset + 1
        path = self._offset(partition)
        self._tree.ensure_path(path)
        self._tree.set(path, b"%d" % offset)

    def _start(self, partition: int, address: str) -> int:
        with suppress(NoNodeError):
            return int(self._tree.get(self._offset(partition))[0])
        asked = {"partition_index": partition, "timestamp": EARLIEST, "max_num_offsets": 1}
        topics = [{"name": self._topic, "partitions": [asked]}]
        answer = call(address, ApiKey.LIST_OFFSETS, 0, replica_id=-1, topics=topics)
        ((line,),) = (each.partitions for each in answer.topics)
        assert not line.error_code, ErrorCode.for_code(line.error_code)
        return int(line.old_style_offsets[0])
