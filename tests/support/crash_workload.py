"""What clients and a broker do to the logs of a CrashHost: drawn by lots, or a given scenario.

Every value is unique, so that a record tells which append it came from.

Owner: the test's thread, or the writer process.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.support.crash_host import COMPACTED, LOGS, CrashHost
from tests.support.crash_steps import Outcome, SentBatch
from tests.support.logs import NOW_MS

IDEMPOTENT = (1, 2)
TRANSACTIONAL = (11, 12)
KEYS = tuple("abcdef")


class Workload:
    """Clients that know what they have sent, and a broker's chores."""

    def __init__(self, host: CrashHost, seed: str, *, leader_epoch: int = 0) -> None:
        """Epochs only grow, so every workload on the same logs needs a higher one."""
        self.host = host
        self.leader_epoch = leader_epoch
        self.random = Random(seed)
        self._name = seed
        self._count = 0

    # Clients

    def append(self, number: int, *, count: int = 1, size: int = 60, **batch: object) -> Outcome:
        """A batch of new values."""
        values = tuple(self._value(size) for _ in range(count))
        if number == COMPACTED:
            batch["keys"] = tuple(self.random.choice(KEYS) for _ in values)
        batch.setdefault("timestamp", NOW_MS + self.random.randint(-25, 25))
        batch["leader_epoch"] = self.leader_epoch
        return self.host.append(number, SentBatch(values=values, **batch))  # type: ignore[arg-type]

    def append_with_sequence(self, number: int, producer_id: int, **batch: object) -> Outcome:
        state = self.host.log(number).producer_state_manager.active_producers.get(producer_id)
        last = state.last_batch if state else None
        sequence = 0 if last is None else last.last_sequence + 1
        return self.append(number, producer_id=producer_id, sequence=sequence, **batch)

    def end_transaction(self, number: int, producer_id: int, *, commit: bool) -> Outcome:
        batch = SentBatch(
            values=(),
            timestamp=NOW_MS,
            producer_id=producer_id,
            ends="commit" if commit else "abort",
            leader_epoch=self.leader_epoch,
        )
        return self.host.append(number, batch)

    def _value(self, size: int) -> str:
        self._count += 1
        return f"{self._name}.{self._count}".ljust(size, ".")

    # By lots

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.step()

    def step(self) -> None:
        choices = list(CHORES)
        (chore,) = self.random.choices(choices, [CHORES[each] for each in choices])
        chore(self, self.random.randrange(len(LOGS)))

    def _send_any(self, number: int) -> None:
        random = self.random
        size = {"count": random.randint(1, 4), "size": random.choice([10, 60, 200])}
        kind = random.random()
        if kind < 0.4:
            self.append(number, **size)
        elif kind < 0.7:
            self.append_with_sequence(number, random.choice(IDEMPOTENT), **size)
        else:
            producer_id = random.choice(TRANSACTIONAL)
            self.append_with_sequence(number, producer_id, is_transactional=True, **size)

    def _end_any(self, number: int) -> None:
        producers = self.host.log(number).producer_state_manager
        for producer_id in TRANSACTIONAL:
            if producers.has_open_transaction(producer_id, epoch=0):
                self.end_transaction(number, producer_id, commit=self.random.random() < 0.4)

    def _flush(self, number: int) -> None:
        self.host.flush(number)
        if self.random.random() < 0.7:
            self.host.checkpoint()

    def _cut_end(self, number: int) -> None:
        """What may be compacted is replicated, and never cut off."""
        log = self.host.log(number)
        if number != COMPACTED:
            offset = max(log.log_start_offset, log.log_end_offset - self.random.randint(0, 30))
            self.host.truncate(number, offset)
            self.leader_epoch += 1

    def _restart(self, number: int) -> None:
        end_offset = self.host.log(number).log_end_offset
        self.host.restart(number, end_offset + self.random.randint(0, 20))

    def _follow(self, number: int) -> None:
        """A leader whose log has been compacted leaves gaps."""
        if number != COMPACTED:
            base_offset = self.host.log(number).log_end_offset + self.random.choice([0, 0, 3])
            self.append(number, count=2, base_offset=base_offset)

    def _delete_records(self, number: int) -> None:
        log = self.host.log(number)
        offset = min(log.log_end_offset, log.log_start_offset + self.random.randint(0, 15))
        self.host.delete_records(number, offset)

    def _retain(self, number: int) -> None:
        is_late = self.random.random() < 0.1
        self.host.retain(now_ms=NOW_MS * 2 if is_late else NOW_MS)


CHORES: dict[Callable[[Workload, int], None], float] = {
    Workload._send_any: 50,
    Workload._end_any: 8,
    Workload._follow: 3,
    lambda work, number: work.host.roll(number): 4,
    Workload._flush: 6,
    lambda work, number: work.host.checkpoint(): 3,
    Workload._cut_end: 4,
    Workload._restart: 0.5,
    Workload._delete_records: 3,
    Workload._retain: 4,
    lambda work, number: work.host.remove(): 3,
    lambda work, number: work.host.compact(): 5,
    lambda work, number: work.host.recreate(number): 0.5,
}
