"""A coordinator that may die between any two writes, and producers that go on with the next one.

Whatever is written counts, to its own log or to a partition's: ``die_after(n)`` lets n of them
through, and the next never happens, nor does anything after it.  ``restart`` is the next
coordinator, which knows the log and nothing else.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Any

from odradek.broker.transactions.transaction_state import ProducerIdAndEpoch
from odradek.protocol.errors import KafkaError
from odradek.protocol.types import TopicPartition
from tests.support.transaction_scene import TransactionScene

UNKNOWN = "died"
HOURS_S = 36_000


class Died(BaseException):
    """The process has ended here."""


class DyingScene(TransactionScene):
    """Lives until it is told otherwise."""

    def __init__(self, **options: Any) -> None:
        self._writes_left: int | None = None
        self.has_died = False
        super().__init__(**options)
        self.log.on_write = self.participants.on_write = self._about_to_write

    def _about_to_write(self) -> None:
        if self._writes_left == 0:
            self.has_died = True
            raise Died
        if self._writes_left is not None:
            self._writes_left -= 1

    def die_after(self, writes: int) -> None:
        self._writes_left = writes

    def restart(self) -> None:
        self.log.is_held = False
        self.kill()
        self._writes_left, self.has_died = None, False
        self.log.partition.leader_epoch += 1  # type: ignore[attr-defined]
        self.lead()

    def asked(self, work: Any) -> tuple[str, Any]:
        """The name of the error, or of none, and the answer; nothing takes hours."""
        try:
            return "NONE", self.run(asyncio.wait_for(work, HOURS_S))
        except KafkaError as failure:
            return failure.error_code.name, None
        except Died:
            return UNKNOWN, None

    def is_expected(self, unseen: dict[str, Any]) -> bool:
        return isinstance(unseen.get("exception"), Died)


@dataclass
class OneTransaction:
    """As its producer knows it."""

    number: int
    written: set[TopicPartition] = field(default_factory=set)
    #: What it was told that it has come to.
    is_commit: bool | None = None


@dataclass(eq=False)
class Client:
    """A producer of a transactional id; others may have taken its place."""

    name: str
    version: int
    producer: ProducerIdAndEpoch
    current: OneTransaction | None = None
    #: An end that was asked for, and not answered.
    unanswered: bool | None = None
    #: Who it was before, for what is delayed.
    before: ProducerIdAndEpoch | None = None
