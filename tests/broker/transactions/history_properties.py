"""Any history of transactions: zombies, delays, timeouts, a sick log, deaths between any writes.

Whatever happens, in any order:

    what is known is what replaying the log gives
    a producer's epochs only grow
    what was told to be committed is committed in all its partitions, what was aborted, in none
    each transaction is committed in all its partitions or in none
    what is prepared is completed
"""

from collections import defaultdict

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from odradek.broker.transactions.records import read_value, transaction_value
from odradek.broker.transactions.transaction_state import LAST_EPOCH, PREPARED, State
from odradek.protocol.errors import NotEnoughReplicas, NotLeader, RequestTimedOut
from odradek.protocol.types import TopicPartition
from tests.support.dying_coordinator import UNKNOWN, Client, Died, DyingScene, OneTransaction
from tests.support.transaction_scene import as_logged

NAMES = ("copier", "mover")
SPOKEN = st.sampled_from([0, 2])
PARTITIONS = [TopicPartition("events", 0), TopicPartition("events", 1), TopicPartition("other", 0)]
WHERE = st.sampled_from(PARTITIONS)
#: How many have come since; mostly the last, as others have been fenced by it.
FEW = st.sampled_from([0, 0, 0, 0, 1, 1, 2, 5])
SOME = st.lists(WHERE, min_size=1, max_size=3)
#: Short, as markers are tried again ten times in a second.
TIMEOUT_MS, EXPIRATION_MS = 1000, 3000
#: The client that was told so looks for another coordinator, and knows no more than before.
LOST = {"NOT_COORDINATOR": UNKNOWN}
#: While a step of the same id is pending; by epochs and ids, only who speaks version 0.
REFUSED = frozenset(
    {"CONCURRENT_TRANSACTIONS", "PRODUCER_FENCED", "INVALID_PRODUCER_ID_MAPPING", UNKNOWN}
)


class TransactionHistory(RuleBasedStateMachine):
    """What producers know may be out of date: they ask all the same."""

    @initialize(
        version=st.integers(0, 2),
        spoken=SPOKEN,
        epochs_left=st.integers(1, 3),
        is_here=st.booleans(),
        elsewhere=st.sets(WHERE),
    )
    def begin(self, version, spoken, epochs_left, is_here, elsewhere):
        self.scene = DyingScene(version=version, id_expiration_ms=EXPIRATION_MS)
        self.scene.participants.is_here = is_here
        self.scene.participants.elsewhere = elsewhere
        self.clients = []
        self.transactions = []
        self.epochs = {}
        #: Ids whose last record in the log has not taken effect, with what they are instead.
        self.beyond = {}
        self.epochs_left = epochs_left
        for name in NAMES:
            self.somebody_comes(name, spoken)

    def teardown(self):
        if hasattr(self, "scene"):
            self.everything_settles()
            self.scene.close()

    def client(self, number):
        return self.clients[-1 - number % len(self.clients)] if self.clients else None

    # What producers do

    @rule(name=st.sampled_from(NAMES), client_version=SPOKEN)
    def somebody_comes(self, name, client_version):
        error, producer = self.scene.asked(self.scene.init(name=name, timeout_ms=TIMEOUT_MS))
        if error == "NONE":
            self.clients.append(Client(name, client_version, producer))
            self.use_up_epochs(name)

    def use_up_epochs(self, name):
        """As a producer would in a long life."""
        txn = self.scene.shard.transactions[name]
        if txn.producer_epoch == 0:
            client = self.clients[-1]
            later = txn.moved(State.EMPTY, producer_epoch=LAST_EPOCH - self.epochs_left)

            async def write():
                assert self.scene.shard.write(later) is None
                client.producer = later.producer

            self.scene.asked(write())

    @rule(number=FEW)
    def it_begins_again(self, number):
        client = self.client(number)
        if client is None or client.unanswered is not None:
            return
        beginning = self.scene.init(client.producer, name=client.name, timeout_ms=TIMEOUT_MS)
        error, producer = self.scene.asked(beginning)
        if error == "NONE":
            client.before, client.producer, client.current = client.producer, producer, None

    @rule(number=FEW, places=SOME)
    def it_writes(self, number, places):
        client = self.client(number)
        for where in places:
            if client is not None and client.unanswered is None and not self.scene.has_died:
                self.write(client, where)

    @rule(number=FEW, places=SOME, is_commit=st.booleans())
    def it_writes_and_ends(self, number, places, is_commit):
        self.it_writes(number, places)
        if not self.scene.has_died:
            self.it_ends(number, is_commit)

    def write(self, client, where):
        adding = self.scene.add(
            client.producer, frozenset({where}), name=client.name, client=client.version
        )
        if self.scene.asked(adding)[0] != "NONE" or not self.is_verified(client, where):
            return
        if client.current is None:
            client.current = OneTransaction(len(self.transactions))
            self.transactions.append(client.current)
        self.append(client.producer, client.current, where)

    def is_verified(self, client, where):
        verify = self.scene.coordinator.verify
        return verify(client.name, client.producer, [where])[where] is None

    def append(self, producer, transaction, where):
        async def write():
            return self.scene.participants.append(where, producer, transaction.number)

        error, is_taken = self.scene.asked(write())
        if error == "NONE" and is_taken:
            transaction.written.add(where)

    @rule(number=FEW, is_commit=st.booleans())
    def it_ends(self, number, is_commit):
        client = self.client(number)
        if client is None or (client.current is None and client.version < 2):
            return
        if client.unanswered is not None:
            is_commit = client.unanswered
        error, producer = self.scene.asked(self.ending(client, is_commit))
        self.note_end(client, is_commit, error, producer)

    @rule(
        number=FEW,
        places=SOME,
        is_commit=st.booleans(),
        outcome=st.sampled_from([None, RequestTimedOut(), Died()]),
    )
    def it_ends_as_replicas_are_slow(self, number, places, is_commit, outcome):
        """What is not replicated in time is in the log all the same."""
        self.it_writes(number, places)
        client, log = self.client(number), self.scene.log
        if self.scene.has_died or client is None or client.current is None:
            return
        if client.unanswered is not None:
            is_commit = client.unanswered
        log.is_held = True
        ending = self.scene.begun(self.ending(client, is_commit))
        if not ending.done():
            assert self.scene.asked(self.scene.init(name=client.name))[0] in REFUSED
            assert self.scene.asked(self.ending(client, is_commit))[0] in REFUSED
            if isinstance(outcome, Died):
                self.scene.restart()
        failure = NotLeader() if isinstance(outcome, Died) else outcome
        if self.scene.asked(released(log, failure))[0] == UNKNOWN:  # by the first marker
            ending.cancel()
            self.note_end(client, is_commit, UNKNOWN, None)
            return
        self.scene.pass_ms(0)
        self.note_what_the_log_has_beyond()
        error, producer = self.scene.asked(waited(ending))
        self.note_end(client, is_commit, LOST.get(error, error), producer)

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
            client.unanswered = is_commit  # and it may be in the log
        elif error == "CONCURRENT_TRANSACTIONS":
            client.unanswered = is_commit if was_unanswered else None
        elif error != UNKNOWN:
            client.current = None

    @rule(number=FEW, where=WHERE)
    def what_was_delayed_arrives(self, number, where):
        """A partition takes no record of a transaction that the coordinator does not know of."""
        client = self.client(number)
        if client is None or client.version < 2 or client.before is None:
            return
        adding = self.scene.add(client.before, frozenset({where}), name=client.name, client=2)
        assert self.scene.asked(adding)[0] != "NONE"
        log = self.scene.participants.logs[where]
        known = log.epochs.get(client.before.id, -1)
        assert known <= client.before.epoch or not log.append(client.before, "delayed")

    # What else happens

    @rule(milliseconds=st.sampled_from([1, 100, TIMEOUT_MS, EXPIRATION_MS]))
    def time_passes(self, milliseconds):
        self.scene.pass_ms(milliseconds)

    @rule()
    def what_is_late_is_aborted(self):
        self.scene.run(self.scene.coordinator.abort_timed_out())
        self.scene.pass_ms(0)

    @rule()
    def what_is_unused_is_forgotten(self):
        self.scene.asked(self.scene.coordinator.forget_expired())

    @rule(where=WHERE)
    def a_leader_goes(self, where):
        self.scene.participants.leaderless.add(where)

    @rule()
    def all_leaders_are_back(self):
        self.scene.participants.leaderless.clear()

    @rule(count=st.integers(1, 3))
    def requests_are_lost(self, count):
        self.scene.participants.lost = count

    @rule(is_sick=st.sampled_from([False, False, False, True]))
    def the_log_takes_nothing_or_takes_it_again(self, is_sick):
        self.scene.log.failure = NotEnoughReplicas() if is_sick else None

    @rule(writes=st.integers(0, 12))
    def it_will_die(self, writes):
        self.scene.die_after(writes)

    @rule()
    def it_dies(self):
        self.scene.restart()

    # What must hold

    @invariant()
    def who_has_died_is_followed_by_the_next(self):
        if hasattr(self, "scene") and self.scene.has_died:
            self.scene.restart()

    @invariant()
    def what_is_known_is_what_the_log_gives(self):
        if not hasattr(self, "scene") or self.scene.has_died:
            return
        live = self.scene.shard.transactions
        known, logged = self.known_and_logged()
        for name in {*known, *logged}:
            if name not in self.beyond or self.beyond[name] is not live.get(name):
                assert known.get(name) == logged.get(name)

    def known_and_logged(self):
        known = as_logged(self.scene.shard.transactions)
        if not self.scene.version:
            known = {name: as_of_version_0(txn) for name, txn in known.items()}
        return known, self.scene.replayed().transactions

    def note_what_the_log_has_beyond(self):
        """Until the next step of the same id, or the next coordinator."""
        known, logged = self.known_and_logged()
        live = self.scene.shard.transactions
        self.beyond = {name: live.get(name) for name in logged if logged[name] != known.get(name)}

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
        found = defaultdict(set)
        for where in transaction.written:
            log = self.scene.participants.logs[where]
            for kind, records in (("committed", log.committed), ("aborted", log.aborted)):
                if transaction.number in records:
                    found[kind].add(where)
        assert not found["committed"] or found["committed"] == transaction.written, found
        assert not found["committed"] & found["aborted"], found
        if transaction.is_commit is not None:
            expected = "committed" if transaction.is_commit else "aborted"
            assert found[expected] == transaction.written, (transaction, found)


async def released(log, failure):
    log.release(failure)


async def waited(task):
    return await task


def as_of_version_0(txn):
    return read_value(txn.transactional_id, transaction_value(txn, server_version=0))


TransactionHistory.TestCase.settings = settings(stateful_step_count=60)
TestTransactionHistory = TransactionHistory.TestCase
