"""Random histories of transactions: zombies, delays, timeouts, log errors, crashes at any write.

Invariants:

    the state equals a replay of the log
    a producer's epochs only grow
    a transaction reported as committed is committed in all its partitions, one reported as aborted
    in none
    each transaction is committed in all its partitions or in none
    a prepared transaction is completed
"""

from collections import defaultdict

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from odradek.broker.transactions.records import read_value, transaction_value
from odradek.broker.transactions.transaction_state import (
    MAX_PRODUCER_EPOCH,
    PREPARED,
    TransactionState,
)
from odradek.protocol.errors import NotEnoughReplicas, NotLeaderOrFollower, RequestTimedOut
from odradek.protocol.types import TopicPartition
from tests.support.dying_coordinator import UNKNOWN, Client, Died, DyingScene, OneTransaction
from tests.support.transaction_scene import as_logged

NAMES = ("copier", "mover")
CLIENT_VERSIONS = st.sampled_from([0, 2])
PARTITIONS = [TopicPartition("events", 0), TopicPartition("events", 1), TopicPartition("other", 0)]
ANY_PARTITION = st.sampled_from(PARTITIONS)
#: How many clients ago; mostly the last client, as it has fenced the others.
FEW = st.sampled_from([0, 0, 0, 0, 1, 1, 2, 5])
PARTITION_LISTS = st.lists(ANY_PARTITION, min_size=1, max_size=3)
#: Short, as markers are retried ten times in a second.
TIMEOUT_MS, EXPIRATION_MS = 1000, 3000
#: The client looks for another coordinator and does not know the outcome.
UNKNOWN_OUTCOMES = {"NOT_COORDINATOR": UNKNOWN}
#: Errors while a transition of the same id is pending; version 0 also gets epoch and id errors.
PENDING_ERRORS = frozenset(
    {"CONCURRENT_TRANSACTIONS", "PRODUCER_FENCED", "INVALID_PRODUCER_ID_MAPPING", UNKNOWN}
)


class TransactionHistory(RuleBasedStateMachine):
    """The producers' knowledge may be out of date; they send requests all the same."""

    @initialize(
        version=st.integers(0, 2),
        client_version=CLIENT_VERSIONS,
        epochs_left=st.integers(1, 3),
        is_here=st.booleans(),
        elsewhere=st.sets(ANY_PARTITION),
    )
    def begin(self, version, client_version, epochs_left, is_here, elsewhere):
        self.scene = DyingScene(version=version, transactional_id_expiration_ms=EXPIRATION_MS)
        self.scene.participants.is_here = is_here
        self.scene.participants.elsewhere = elsewhere
        self.clients = []
        self.transactions = []
        self.epochs = {}
        #: Ids whose last record in the log has not taken effect, with their current state.
        self.unapplied = {}
        self.epochs_left = epochs_left
        for name in NAMES:
            self.producer_starts(name, client_version)

    def teardown(self):
        if hasattr(self, "scene"):
            self.everything_settles()
            self.scene.close()

    def client(self, number):
        return self.clients[-1 - number % len(self.clients)] if self.clients else None

    # Producers

    @rule(name=st.sampled_from(NAMES), client_version=CLIENT_VERSIONS)
    def producer_starts(self, name, client_version):
        error, producer = self.scene.asked(self.scene.init(name=name, timeout_ms=TIMEOUT_MS))
        if error == "NONE":
            self.clients.append(Client(name, client_version, producer))
            self.use_up_epochs(name)

    def use_up_epochs(self, name):
        """Raise the epoch as a long-lived producer would."""
        txn = self.scene.shard.transactions[name]
        if txn.producer_epoch == 0:
            client = self.clients[-1]
            later = txn.prepare_transition_to(
                TransactionState.EMPTY, producer_epoch=MAX_PRODUCER_EPOCH - self.epochs_left
            )

            async def write():
                assert self.scene.shard.write(later) is None
                client.producer = later.producer

            self.scene.asked(write())

    @rule(number=FEW)
    def producer_reinitializes(self, number):
        client = self.client(number)
        if client is None or client.unanswered is not None:
            return
        beginning = self.scene.init(client.producer, name=client.name, timeout_ms=TIMEOUT_MS)
        error, producer = self.scene.asked(beginning)
        if error == "NONE":
            client.before, client.producer, client.current = client.producer, producer, None

    @rule(number=FEW, partitions=PARTITION_LISTS)
    def producer_writes(self, number, partitions):
        client = self.client(number)
        for partition in partitions:
            if client is not None and client.unanswered is None and not self.scene.has_died:
                self.write(client, partition)

    @rule(number=FEW, partitions=PARTITION_LISTS, is_commit=st.booleans())
    def producer_writes_and_ends(self, number, partitions, is_commit):
        self.producer_writes(number, partitions)
        if not self.scene.has_died:
            self.producer_ends(number, is_commit)

    def write(self, client, partition):
        adding = self.scene.add(
            client.producer, frozenset({partition}), name=client.name, client=client.version
        )
        if self.scene.asked(adding)[0] != "NONE" or not self.is_verified(client, partition):
            return
        if client.current is None:
            client.current = OneTransaction(len(self.transactions))
            self.transactions.append(client.current)
        self.append(client.producer, client.current, partition)

    def is_verified(self, client, partition):
        verify = self.scene.coordinator.verify_partitions
        return verify(client.name, client.producer, [partition])[partition] is None

    def append(self, producer, transaction, partition):
        async def write():
            return self.scene.participants.append(partition, producer, transaction.number)

        error, is_appended = self.scene.asked(write())
        if error == "NONE" and is_appended:
            transaction.written.add(partition)

    @rule(number=FEW, is_commit=st.booleans())
    def producer_ends(self, number, is_commit):
        client = self.client(number)
        if client is None or (client.current is None and client.version < 2):
            return
        if client.unanswered is not None:
            is_commit = client.unanswered
        error, producer = self.scene.asked(self.ending(client, is_commit))
        self.note_end(client, is_commit, error, producer)

    @rule(
        number=FEW,
        partitions=PARTITION_LISTS,
        is_commit=st.booleans(),
        outcome=st.sampled_from([None, RequestTimedOut(), Died()]),
    )
    def producer_ends_with_slow_replicas(self, number, partitions, is_commit, outcome):
        """A record that is not replicated in time is in the log all the same."""
        self.producer_writes(number, partitions)
        client, log = self.client(number), self.scene.log
        if self.scene.has_died or client is None or client.current is None:
            return
        if client.unanswered is not None:
            is_commit = client.unanswered
        log.is_held = True
        ending = self.scene.begun(self.ending(client, is_commit))
        if not ending.done():
            assert self.scene.asked(self.scene.init(name=client.name))[0] in PENDING_ERRORS
            assert self.scene.asked(self.ending(client, is_commit))[0] in PENDING_ERRORS
            if isinstance(outcome, Died):
                self.scene.restart()
        log_error = NotLeaderOrFollower() if isinstance(outcome, Died) else outcome
        if self.scene.asked(release(log, log_error))[0] == UNKNOWN:  # the first marker crashed it
            ending.cancel()
            self.note_end(client, is_commit, UNKNOWN, None)
            return
        self.scene.pass_ms(0)
        self.note_unapplied_records()
        error, producer = self.scene.asked(wait_for(ending))
        self.note_end(client, is_commit, UNKNOWN_OUTCOMES.get(error, error), producer)

    def ending(self, client, is_commit):
        return self.scene.end(
            client.producer, is_commit=is_commit, name=client.name, client=client.version
        )

    def note_end(self, client, is_commit, error, producer):
        was_unanswered = client.unanswered is not None
        client.unanswered = is_commit if error == UNKNOWN else None
        if error == "NONE":
            if client.current is not None:
                client.current.is_commit = is_commit
            client.current = None
            if client.version >= 2:
                client.before, client.producer = client.producer, producer
        elif error == "COORDINATOR_NOT_AVAILABLE":
            client.unanswered = is_commit  # it may be in the log
        elif error == "CONCURRENT_TRANSACTIONS":
            client.unanswered = is_commit if was_unanswered else None
        elif error != UNKNOWN:
            client.current = None

    @rule(number=FEW, partition=ANY_PARTITION)
    def delayed_write_arrives(self, number, partition):
        """A partition rejects records of a transaction that the coordinator does not know."""
        client = self.client(number)
        if client is None or client.version < 2 or client.before is None:
            return
        adding = self.scene.add(client.before, frozenset({partition}), name=client.name, client=2)
        assert self.scene.asked(adding)[0] != "NONE"
        log = self.scene.participants.logs[partition]
        known = log.epochs.get(client.before.id, -1)
        assert known <= client.before.epoch or not log.append(client.before, "delayed")

    # Environment

    @rule(milliseconds=st.sampled_from([1, 100, TIMEOUT_MS, EXPIRATION_MS]))
    def time_passes(self, milliseconds):
        self.scene.pass_ms(milliseconds)

    @rule()
    def timed_out_transactions_are_aborted(self):
        self.scene.asked(self.scene.coordinator.abort_timed_out_transactions())
        self.scene.pass_ms(0)

    @rule()
    def unused_ids_expire(self):
        self.scene.asked(self.scene.coordinator.remove_expired_transactional_ids())

    @rule(partition=ANY_PARTITION)
    def leader_goes_offline(self, partition):
        self.scene.participants.leaderless.add(partition)

    @rule()
    def leaders_return(self):
        self.scene.participants.leaderless.clear()

    @rule(count=st.integers(1, 3))
    def requests_are_lost(self, count):
        self.scene.participants.lost = count

    @rule(is_failing=st.sampled_from([False, False, False, True]))
    def log_fails_or_recovers(self, is_failing):
        self.scene.log.failure = NotEnoughReplicas() if is_failing else None

    @rule(writes=st.integers(0, 12))
    def coordinator_crashes_after(self, writes):
        self.scene.die_after(writes)

    @rule()
    def coordinator_crashes(self):
        self.scene.restart()

    # Invariants

    @invariant()
    def crashed_coordinator_restarts(self):
        if hasattr(self, "scene") and self.scene.has_died:
            self.scene.restart()

    @invariant()
    def state_equals_a_replay_of_the_log(self):
        if not hasattr(self, "scene") or self.scene.has_died:
            return
        live = self.scene.shard.transactions
        known, logged = self.known_and_logged()
        for name in {*known, *logged}:
            if name not in self.unapplied or self.unapplied[name] is not live.get(name):
                assert known.get(name) == logged.get(name)

    def known_and_logged(self):
        known = as_logged(self.scene.shard.transactions)
        if not self.scene.version:
            known = {name: as_of_version_0(txn) for name, txn in known.items()}
        return known, self.scene.replayed().transactions

    def note_unapplied_records(self):
        """Valid until the next transition of the same id, or the next coordinator."""
        known, logged = self.known_and_logged()
        live = self.scene.shard.transactions
        self.unapplied = {
            name: live.get(name) for name in logged if logged[name] != known.get(name)
        }

    @invariant()
    def epochs_only_grow(self):
        if not hasattr(self, "scene"):
            return
        for txn in self.scene.shard.transactions.values():
            producer_id, epoch = txn.producer
            assert epoch >= self.epochs.get(producer_id, 0)
            self.epochs[producer_id] = epoch

    @rule()
    def everything_settles(self):
        scene = self.scene
        scene.log.failure = None
        scene.participants.leaderless.clear()
        scene.participants.lost = 0
        if scene.has_died:
            scene.restart()
        scene.die_after(1_000_000)
        scene.pass_ms(1000)
        assert all(txn.state not in PREPARED for txn in scene.shard.transactions.values())
        for transaction in self.transactions:
            self.check(transaction)

    def check(self, transaction):
        outcomes = defaultdict(set)
        for partition in transaction.written:
            log = self.scene.participants.logs[partition]
            for kind, records in (("committed", log.committed), ("aborted", log.aborted)):
                if transaction.number in records:
                    outcomes[kind].add(partition)
        assert not outcomes["committed"] or outcomes["committed"] == transaction.written, outcomes
        assert not outcomes["committed"] & outcomes["aborted"], outcomes
        if transaction.is_commit is not None:
            expected = "committed" if transaction.is_commit else "aborted"
            assert outcomes[expected] == transaction.written, (transaction, outcomes)


async def release(log, log_error):
    log.release(log_error)


async def wait_for(task):
    return await task


def as_of_version_0(txn):
    return read_value(txn.transactional_id, transaction_value(txn, transaction_version=0))


TransactionHistory.TestCase.settings = settings(stateful_step_count=60)
TestTransactionHistory = TransactionHistory.TestCase
