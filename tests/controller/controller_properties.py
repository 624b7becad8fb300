"""Controllers of four brokers under random faults keep valid leaders and complete all work.

Faults and operations: brokers start, stop and lose log directories; topics are created, expanded,
reassigned and deleted; leaders change their ISR; elections are requested; requests and responses
are late or lost; writes are repeated; sessions expire between any two writes. cluster_history.py
checks the invariants at every moment, quiet_cluster.py those that hold when no work is left.
"""

import logging

from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from odradek.controller.replica_leader_elections import ElectionType
from odradek.protocol.types import TopicPartition
from tests.support.quiet_cluster import left_to_do
from tests.support.simulated_cluster import SimulatedCluster
from tests.support.simulated_leaders import SimulatedLeaders

BROKERS = st.sampled_from([1, 2, 3, 4])
REPLICAS = st.lists(BROKERS, min_size=1, max_size=3, unique=True)
TOPICS = st.sampled_from(["t", "t", "u"])
PARTITIONS = st.builds(TopicPartition, TOPICS, st.sampled_from([0, 0, 1]))
TARGETS = st.dictionaries(PARTITIONS, REPLICAS.map(tuple), min_size=1, max_size=2)
#: Simulated time until the next rule runs.
PAUSES_S = st.sampled_from([0, 0.0005, 0.001, 0.005, 0.02, 0.1, 1, 6])
TIMEOUT_S = 120
CHECK_INTERVAL_S = 0.5


class FailedEvents(logging.Handler):
    """Collects the errors that the event manager logs."""

    def __init__(self):
        super().__init__(logging.ERROR)
        self.addFilter(lambda record: record.module == "controller_event_manager")
        self.lines = []

    def emit(self, record):
        error = record.exc_info and record.exc_info[1]
        self.lines.append(f"{record.getMessage()}: {error!r}")


class Controllers(RuleBasedStateMachine):
    """One cluster of four brokers, from its start until all requested work is done."""

    def __init__(self):
        super().__init__()
        self.failed = FailedEvents()
        logging.getLogger("kafka.controller").addHandler(self.failed)
        self.cluster = None

    @initialize(seed=st.integers(0, 2**32), allows_unclean=st.booleans())
    def begin(self, seed, allows_unclean):
        self.cluster = SimulatedCluster(
            seed,
            unclean_leader_election_enable=allows_unclean,
            leader_imbalance_check_interval_seconds=10,
        )
        self.leaders = SimulatedLeaders(self.cluster)
        self.run(self.cluster.begin())
        self.cluster.start_task(self.leaders.watch(), name="leaders")
        for broker in (1, 2, 3, 4):
            self.run(self.cluster.start(broker))
        self.run(self.cluster.create("t", [[1, 2], [2, 3]]))
        self.become_quiet()

    def run(self, coroutine):
        return self.cluster.loop.run_until_complete(coroutine)

    # Brokers

    @rule(broker=BROKERS, lingers=st.booleans(), pause_s=PAUSES_S)
    def stop(self, broker, lingers, pause_s):
        if broker in self.cluster.controllers:
            self.run(self.cluster.stop(broker, lingers=lingers))
        self.cluster.loop.pass_time(pause_s)

    @rule(broker=BROKERS, pause_s=PAUSES_S)
    def shut_down(self, broker, pause_s):
        if broker in self.cluster.controllers:
            self.run(self.cluster.shut_down(broker))
        self.cluster.loop.pass_time(pause_s)

    @rule(broker=BROKERS, pause_s=PAUSES_S)
    def start(self, broker, pause_s):
        if broker not in self.cluster.controllers:
            self.run(self.cluster.start(broker))
        self.cluster.loop.pass_time(pause_s)

    @rule(broker=BROKERS, pause_s=PAUSES_S)
    def start_again(self, broker, pause_s):
        if broker in self.cluster.controllers:
            self.run(self.cluster.stop(broker))
            self.run(self.cluster.start(broker))
        self.cluster.loop.pass_time(pause_s)

    @rule(broker=BROKERS, pause_s=PAUSES_S)
    def lose_session(self, broker, pause_s):
        session = self.cluster.sessions.get(broker)
        if session is not None and session.session_id:
            self.run(self.expire(session))
        self.cluster.loop.pass_time(pause_s)

    @rule(broker=BROKERS, first=st.integers(0, 5), pause_s=PAUSES_S)
    def lose_logs(self, broker, first, pause_s):
        logs = sorted(self.cluster.brokers.logs_of(broker))
        if logs and broker in self.cluster.controllers:
            first %= len(logs)
            self.run(self.cluster.lose_logs(broker, logs[first : first + 2]))
        self.cluster.loop.pass_time(pause_s)

    async def expire(self, session):
        session.expire()

    @rule(writes=st.integers(0, 12), pause_s=PAUSES_S)
    def lose_controller_after_writes(self, writes, pause_s):
        for broker in self.cluster.active:
            self.cluster.sessions[broker].writes_left = writes
        self.cluster.loop.pass_time(pause_s)

    @rule(pause_s=PAUSES_S)
    def depose(self, pause_s):
        self.run(self.cluster.depose())
        self.cluster.loop.pass_time(pause_s)

    # The network

    @rule(broker=BROKERS, pause_s=PAUSES_S)
    def cut(self, broker, pause_s):
        self.cluster.cut ^= {broker}
        self.cluster.loop.pass_time(pause_s)

    @rule(broker=BROKERS, pause_s=PAUSES_S)
    def slow(self, broker, pause_s):
        self.leaders.slow ^= {broker}
        self.cluster.loop.pass_time(pause_s)

    # Topics

    @rule(topic=TOPICS, replicas=st.lists(REPLICAS, min_size=1, max_size=2), pause_s=PAUSES_S)
    def create(self, topic, replicas, pause_s):
        factor = min(map(len, replicas))
        self.run(self.cluster.create(topic, [assignment[:factor] for assignment in replicas]))
        self.cluster.loop.pass_time(pause_s)

    @rule(topic=TOPICS, replicas=REPLICAS, pause_s=PAUSES_S)
    def grow(self, topic, replicas, pause_s):
        topic_assignment = self.cluster.history.topics.get(topic)
        if topic_assignment is not None and len(topic_assignment.partitions) < 3:
            factor = len(topic_assignment.partitions[0].replicas)
            self.run(self.cluster.grow(topic, [replicas[:factor]]))
        self.cluster.loop.pass_time(pause_s)

    @rule(topic=TOPICS, pause_s=PAUSES_S)
    def delete(self, topic, pause_s):
        self.run(self.cluster.delete(topic))
        self.cluster.loop.pass_time(pause_s)

    @rule(moves=TARGETS, by_node=st.booleans(), pause_s=PAUSES_S)
    def reassign(self, moves, by_node, pause_s):
        cluster = self.cluster
        self.run(cluster.reassign_by_node(moves) if by_node else cluster.reassign(moves))
        cluster.loop.pass_time(pause_s)

    @rule(partitions=st.sets(PARTITIONS, min_size=1, max_size=3), pause_s=PAUSES_S)
    def cancel(self, partitions, pause_s):
        self.run(self.cluster.reassign(dict.fromkeys(sorted(partitions))))
        self.cluster.loop.pass_time(pause_s)

    @rule(
        kind=st.sampled_from(ElectionType),
        partitions=st.none() | st.sets(PARTITIONS, min_size=1, max_size=3).map(sorted),
        pause_s=PAUSES_S,
    )
    def elect(self, kind, partitions, pause_s):
        self.run(self.cluster.elect(kind, partitions))
        self.cluster.loop.pass_time(pause_s)

    @rule(partitions=st.sets(PARTITIONS, min_size=1, max_size=3).map(sorted), pause_s=PAUSES_S)
    def elect_by_node(self, partitions, pause_s):
        self.run(self.cluster.elect_by_node(partitions))
        self.cluster.loop.pass_time(pause_s)

    # Invariants

    @invariant()
    def no_violations(self):
        if self.cluster is not None:
            assert not self.cluster.history.violations
            assert not self.cluster.loop.unseen
            assert not self.failed.lines

    # Quiescence

    @rule()
    def become_quiet(self):
        """Stop all faults and wait until no work is left for the online brokers and logs."""
        cluster = self.cluster
        cluster.weather.is_calm = True
        cluster.cut.clear()
        self.leaders.slow.clear()
        for session in cluster.sessions.values():
            session.writes_left = None
        deadline_s = cluster.loop.time() + TIMEOUT_S
        cluster.loop.pass_time(CHECK_INTERVAL_S)
        while left_to_do(cluster) and cluster.loop.time() < deadline_s:
            cluster.loop.pass_time(CHECK_INTERVAL_S)
        self.no_violations()
        assert not left_to_do(cluster)
        cluster.weather.is_calm = False

    def teardown(self):
        logging.getLogger("kafka.controller").removeHandler(self.failed)
        if self.cluster is None:
            return
        try:
            for broker in (1, 2, 3, 4):
                self.start(broker, 0)
                if self.cluster.brokers[broker].offline:
                    self.start_again(broker, 0)
            self.become_quiet()
        finally:
            self.run(self.cluster.close())
            self.cluster.loop.close()


Controllers.TestCase.settings = hypothesis_settings(stateful_step_count=40)
TestControllers = Controllers.TestCase
