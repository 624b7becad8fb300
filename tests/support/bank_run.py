"""A bank on several brokers: tellers move money in transactions, whatever happens to them.

    with BankRun(cluster.addresses, "bank", partitions=2) as run:
        run.wait_for_more()
        ...
        run.finish()
    run.check()

A read_committed consumer is there from the beginning: what it has read, at any time, is a bank in
which no money was made or lost.

Owner: the thread of the test; the consumer has one of its own.
"""

from __future__ import annotations

from contextlib import ExitStack
from itertools import count
from typing import Self

from odradek.protocol.internal.key_partition import partition_for
from odradek.protocol.types import TopicPartition
from tests.support import bank
from tests.support.bank import Bank, Teller, TellerOptions
from tests.support.cluster_load import LOOK_OFTEN
from tests.support.group_members import wait_until
from tests.support.histories import History
from tests.support.histories import check as check_history
from tests.support.persistent_load import PersistentConsumer

#: As many as the log of transactions has partitions: each of these coordinates one.
TELLERS, ACCOUNTS = 3, 12
#: So many transfers of each teller.
SOME = 3


class BankRun:
    """Each teller has accounts of its own, some of them in every partition."""

    def __init__(self, addresses: str, topic: str, *, partitions: int) -> None:
        self._addresses, self._topic, self._partitions = addresses, topic, partitions
        self._reader = PersistentConsumer(
            addresses,
            topic,
            partitions=partitions,
            **{"isolation.level": "read_committed", **LOOK_OFTEN},
        )
        self._stack = ExitStack()
        self._everybody: list[Teller] = []
        self._present: list[Teller] = []

    def __enter__(self) -> Self:
        self._reader.start()
        self._stack.callback(self._reader.stop)
        self._present = [self._open(number) for number in range(TELLERS)]
        return self

    def __exit__(self, *failure: object) -> None:
        self._stack.close()

    def _open(self, number: int) -> Teller:
        accounts = [
            f"{account}"
            for account in range(ACCOUNTS)
            if account // self._partitions % TELLERS == number
        ]
        names = (f"{self._topic}-teller-{each}" for each in count())
        name = next(each for each in names if partition_for(each, TELLERS) == number)
        options = TellerOptions(name, self._topic, self._partitions, accounts)
        teller = self._stack.enter_context(Teller(self._addresses, options))
        self._everybody.append(teller)
        return teller

    def wait_for_more(self) -> None:
        """Of every teller; or of another, if it has given up."""
        wanted = [self._count(number) + SOME for number in range(TELLERS)]

        def has_each_moved() -> bool:
            for number, teller in enumerate(self._present):
                if not teller.is_alive():
                    self._present[number] = self._open(number)
                    wanted[number] = SOME
            bank.check(self._read())
            return all(self._count(number) >= wanted[number] for number in range(TELLERS))

        wait_until(has_each_moved, or_else=lambda: self)

    def _count(self, number: int) -> int:
        return len(self._present[number].happened("moved"))

    def finish(self) -> None:
        """Nothing is left open, and all that was committed has been read."""
        for teller in self._present:
            teller.close()
        moved = self._transfers("moved")
        wait_until(lambda: moved <= self._seen() and not self._has_halves(), or_else=lambda: self)

    def _has_halves(self) -> bool:
        """What somebody committed and could not tell may be read of one partition before others."""
        whole = self._read()
        return whole != bank.without_halves(whole)

    def check(self) -> None:
        """When it is over."""
        self._reader.stop()
        late = self._reader.again(self._reader.values)
        assert self._reader.failures == late.failures == []
        check_history(self._history(late))
        whole = self._read()
        bank.check(whole)
        assert whole == bank.without_halves(whole)
        assert sum(bank.balances_in(whole).values()) == 0
        moved, aborted = self._transfers("moved"), self._transfers("aborted")
        # Who gave up may have committed what it could not tell any more.
        given_up = len(self._everybody) - TELLERS
        assert len(self._seen() - moved) <= given_up
        assert moved <= self._seen()
        assert not aborted & self._seen()

    def _history(self, late: PersistentConsumer) -> History:
        history = History()
        moved, aborted = self._transfers("moved"), self._transfers("aborted")
        for number, teller in enumerate(self._everybody):
            for event in teller.happened("began"):
                for at, text in event["sent"]:
                    partition, value = TopicPartition(self._topic, at), text.encode()
                    history.sent(f"teller {number}", partition, value)
                    history.sent_in(event["transfer"], value)
                    if event["transfer"] in moved:
                        history.acked(partition, None, value)
                    elif event["transfer"] in aborted:
                        history.aborted(value)
        self._reader.tell(history, "reader")
        late.tell(history, "late reader")
        history.final("late reader", self._topic)
        return history

    def _read(self) -> Bank:
        found = [[*self._reader.found[number]] for number in range(self._partitions)]
        return [[bank.entry_of(offset, value) for offset, value in each] for each in found]

    def _seen(self) -> set[str]:
        return {entry.transfer for entries in self._read() for entry in entries}

    def _transfers(self, event: str) -> set[str]:
        return {each["transfer"] for teller in self._everybody for each in teller.happened(event)}

    def __str__(self) -> str:
        last = [teller.events[-2:] for teller in self._present]
        return f"{self._topic}: {len(self._everybody)} tellers, {len(self._seen())} seen; {last}"
