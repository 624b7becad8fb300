"""A bank whose accounts are keys of a topic: what a reader may find in it at any time.

The sum over all accounts is zero, and stays so, since a transfer takes as much as it gives, in two
records of one transaction.  These may become visible one after the other, in two partitions.  So
what is looked at is the largest part of what was read that has no transfer by half: it may leave
out the last of a partition, but nothing before that.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

from odradek.protocol.api_keys import ApiKey
from tests.support.committed_records import read_committed
from tests.support.group_members import wait_until
from tests.support.partition_client import LATEST, PartitionClient
from tests.support.telling_process import TellingProcess
from tests.support.wire_client import call

MODULE = "tests.support.teller_program"


@dataclass(frozen=True, slots=True)
class TellerOptions:
    #: And transactional id.
    name: str
    topic: str
    partitions: int
    #: Its own.
    accounts: Sequence[str]
    timeout_ms: int = 60_000
    abort_share: float = 0.2


class Teller(TellingProcess):
    def __init__(self, address: str, options: TellerOptions) -> None:
        super().__init__(MODULE, address, json.dumps(asdict(options)))


class Entry(NamedTuple):
    """What an account has after a transfer."""

    offset: int
    account: str
    has: int
    transfer: str
    is_doomed: bool


def entry_of(offset: int, value: bytes | None) -> Entry:
    return Entry(offset, **json.loads(value or b""))


#: By partition, in order.
Bank = list[list[Entry]]


class BankReader:
    """Reads on where it was, as a read_committed consumer."""

    def __init__(self, address: str, topic: str, partitions: int) -> None:
        self._place = address, topic
        self._nexts = [0] * partitions
        self.bank: Bank = [[] for _ in range(partitions)]

    def read_on(self) -> None:
        """To the last stable offset of each partition, one after the other."""
        for number, start in enumerate(self._nexts):
            with partition_of(*self._place, number) as client:
                found = read_committed(client, start)
            self._nexts[number] = found.next_offset
            self.bank[number] += [entry_of(each.offset, each.value) for each in found.records]

    def has_reached(self, ends: Sequence[int]) -> bool:
        self.read_on()
        return all(at >= end for at, end in zip(self._nexts, ends, strict=True))


def read_bank(address: str, topic: str, partitions: int) -> Bank:
    """All that is there now, once it is stable: what others have open is waited for."""
    ends = []
    for number in range(partitions):
        with partition_of(address, topic, number) as client:
            ends.append(client.offset_at(LATEST))
    reader = BankReader(address, topic, partitions)
    wait_until(lambda: reader.has_reached(ends))
    return reader.bank


def partition_of(addresses: str, topic: str, number: int) -> PartitionClient:
    """At the one address, whoever leads; of several brokers, at the leader."""
    first, *others = addresses.split(",")
    if others:
        found = call(first, ApiKey.METADATA, 9, topics=[{"name": topic}])
        leaders = {each.partition_index: each.leader_id for each in found.topics[0].partitions}
        places = {each.node_id: f"{each.host}:{each.port}" for each in found.brokers}
        first = places[leaders[number]]
    return PartitionClient(first, topic, number)


def balances_in(bank: Bank) -> dict[str, int]:
    """What each account has in the end."""
    return {entry.account: entry.has for entries in bank for entry in entries}


def without_halves(bank: Bank) -> Bank:
    """The largest part, from the beginning of each partition, in which each transfer is whole."""
    lengths = [len(entries) for entries in bank]
    places: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for partition, number, entry in _numbered(bank):
        places[entry.transfer].append((partition, number))
    while True:
        halves = [
            place
            for both in places.values()
            if not (len(both) == 2 and all(at < lengths[number] for number, at in both))
            for place in both
            if place[1] < lengths[place[0]]
        ]
        if not halves:
            return [entries[:length] for entries, length in zip(bank, lengths, strict=True)]
        for partition, at in halves:
            lengths[partition] = min(lengths[partition], at)


def _numbered(bank: Bank) -> Iterator[tuple[int, int, Entry]]:
    for partition, entries in enumerate(bank):
        for number, entry in enumerate(entries):
            yield partition, number, entry


def check(bank: Bank) -> None:
    """A snapshot of it, taken at any time."""
    seen = [entry for entries in bank for entry in entries]
    assert not [entry for entry in seen if entry.is_doomed]
    assert len({(entry.transfer, entry.account) for entry in seen}) == len(seen)
    assert sum(balances_in(without_halves(bank)).values()) == 0
