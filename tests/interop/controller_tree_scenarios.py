"""Steps by which a cluster comes to know everything that a controller writes.

    topics        brokers, topics, growth, configurations, quotas, producer ids, deletion
    failures      brokers stopped, killed and back; elections; a deletion that waits; controllers
    reassignment  by request and by node: under way, replaced, cancelled, taken over, finished
    log-dirs      a broker that loses one of two
    old-protocol  before topic ids and AlterPartition (2.6), then the same cluster brought to 3.9
    left-stopped  a topic half deleted and one half moved, when one broker after the other stops;
                  and what the next controller makes of it
    left-killed   the same, but they are killed

Wherever chance would decide, there is one step for one change: two brokers that came back at once
would join an ISR in any order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.interop.controller_tree_cluster import Planned
from tests.interop.controller_tree_steps import (
    APPEND,
    BROKER,
    DELETE,
    GROUP,
    PREFERRED,
    PREFERRED_ELECTION,
    REASSIGNMENT,
    SET,
    SUBTRACT,
    TOPIC,
    TRANSACTION,
    UNCLEAN,
    alter,
    alter_all,
    both,
    controller_epoch,
    create,
    create_node,
    delete,
    delete_in_vain,
    delete_node,
    elect,
    fail_log_dir,
    find_coordinator,
    grow,
    has,
    is_deleted,
    is_quiet,
    kill,
    listed,
    moves,
    pause,
    producer_id,
    quota,
    reassign,
    repair_log_dirs,
    resume,
    scram,
    start,
    state_of,
    stop,
    with_notification,
)

SETTINGS = {
    "auto.leader.rebalance.enable": "false",
    "offsets.topic.num.partitions": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}
#: A paused broker is out of sync soon, and its session lives on for long.
PAUSABLE = {
    **SETTINGS,
    "replica.lag.time.max.ms": "4000",
    "zookeeper.session.timeout.ms": "30000",
}


@dataclass(frozen=True, slots=True)
class Scenario:
    settings: Mapping[str, str]
    steps: Sequence[Planned]


TOPICS = Scenario(
    SETTINGS,
    [
        start(1, rack="east"),
        start(2, rack="west", listeners=["PLAINTEXT", "EXTERNAL"]),
        start(3, rack="east"),
        create("placed", partitions=6, replication_factor=2),
        create("manual", [[1, 2], [2, 3], [3, 1]]),
        create(
            "configured",
            [[3, 2, 1]],
            configs={"retention.ms": "3600000", "cleanup.policy": "compact"},
        ),
        create("with.dots-and_more", [[2]]),
        grow("manual", 5, [[2, 1], [1, 3]]),
        grow("placed", 9),
        alter(
            TOPIC,
            "configured",
            (SET, "max.message.bytes", "2000"),
            (APPEND, "cleanup.policy", "delete"),
            (DELETE, "retention.ms", None),
        ),
        alter(TOPIC, "configured", (SUBTRACT, "cleanup.policy", "compact")),
        alter(TOPIC, "manual", (SET, "min.insync.replicas", "2")),
        alter_all("configured", {"segment.ms": "60000"}),
        alter(BROKER, "2", (SET, "log.cleaner.threads", "2"), to=2),
        alter(BROKER, "", (SET, "log.retention.ms", "7200000")),
        alter(BROKER, "2", (DELETE, "log.cleaner.threads", None), to=2),
        quota({"client-id": "a client/100% *"}, "producer_byte_rate", 1024.0),
        quota({"user": "Zo\u00eb Smith+1"}, "consumer_byte_rate", 2048.0),
        quota({"user": "Zo\u00eb Smith+1", "client-id": "~c"}, "request_percentage", 50.0),
        quota({"user": None}, "controller_mutation_rate", 10.0),
        quota({"user": None, "client-id": None}, "producer_byte_rate", 1.5e7),
        quota({"ip": "10.0.0.1"}, "connection_creation_rate", 5.0),
        quota({"client-id": "a client/100% *"}, "producer_byte_rate", None),
        scram("alice"),
        producer_id(2),
        producer_id(3),
        find_coordinator(GROUP, "g", topic="__consumer_offsets"),
        find_coordinator(TRANSACTION, "t", topic="__transaction_state"),
        delete("manual"),
        create_node("/admin/delete_topics/placed", until=is_deleted("placed")),
        create_node("/admin/delete_topics/absent", until=is_deleted("absent")),
        create("manual", [[3, 1]]),
    ],
)

FAILURES = Scenario(
    SETTINGS,
    [
        start(1),
        start(2),
        start(3),
        create("three", [[1, 2, 3], [2, 3, 1], [3, 1, 2]]),
        create("alone", [[3]]),
        create("clean", [[2, 3]]),
        create("unclean", [[2, 3]], configs={"unclean.leader.election.enable": "true"}),
        stop(3),
        start(3),
        elect(PREFERRED, "three", 2, leader=3),
        kill(2),
        start(2),
        create_node(
            PREFERRED_ELECTION,
            {
                "version": 1,
                "partitions": [
                    {"topic": "three", "partition": 1},
                    {"topic": "clean", "partition": 0},
                ],
            },
            until=both(is_quiet, state_of("clean", leader=2)),
        ),
        stop(3),
        kill(2),
        start(3, until=both(is_quiet, state_of("unclean", leader=3))),
        elect(UNCLEAN, "clean", 0, leader=3),
        start(2),
        stop(3),
        delete_in_vain("three"),
        delete_in_vain("alone"),
        start(3),
        create("pair", [[1, 2], [2, 1]]),
        stop(3),
        kill(1, until=controller_epoch(2)),
        start(3),
        stop(2, until=controller_epoch(3)),
        start(1),
        start(2),
        delete_node("/controller", until=controller_epoch(4)),
    ],
)

REASSIGNMENTS = Scenario(
    PAUSABLE,
    [
        start(1),
        start(2),
        start(3),
        create("moved", [[1, 2], [2, 1], [1, 2]]),
        create("sync", [[1, 3]]),
        reassign("moved", {0: [1, 3], 2: [2]}),
        reassign("moved", {0: [2, 1, 3], 1: [2]}),
        reassign("moved", {0: [3, 2, 1], 1: [1]}),
        pause(3),
        reassign("moved", {1: [3]}, moves("moved", 1, isr=[1])),
        reassign("moved", {1: [2, 3]}, moves("moved", 1, isr=[1, 2])),
        reassign("moved", {1: None}),
        resume(3),
        pause(3),
        reassign("moved", {2: [3, 1]}, moves("moved", 2, isr=[2, 1])),
        delete_node("/controller", controller_epoch(2, moves("moved", 2, isr=[2, 1]))),
        resume(3),
        pause(3),
        create_node(REASSIGNMENT, listed("moved", {1: [3, 2]}), moves("moved", 1, isr=[1, 2])),
        kill(3, moves("moved", 1, isr=[1, 2])),
        reassign("moved", {1: None}),
        start(3),
        create_node(REASSIGNMENT, listed("moved", {0: [1], 1: [2, 1], 2: [1, 3]})),
    ],
)

OLD_PROTOCOL = Scenario(
    PAUSABLE,
    [
        start(1, protocol="2.6"),
        start(2, protocol="2.6"),
        create("old", [[1, 2], [1, 2]], configs={"retention.ms": "1000000"}),
        with_notification(pause(2)),
        with_notification(resume(2)),
        producer_id(1),
        with_notification(stop(2)),
        stop(1, until=has("/controller_epoch")),
        start(1, protocol="3.9"),
        start(2, protocol="3.9"),
        create("new", [[2, 1]]),
        producer_id(2),
    ],
)

LOG_DIRS = Scenario(
    SETTINGS,
    [
        start(1),
        start(2, log_dirs=2),
        create("held", [[2, 1], [1, 2]]),
        create("lost", [[2]]),
        fail_log_dir(2, "held-0", state_of("held", 0, leader=1, isr=[1])),
        stop(2),
        repair_log_dirs(2),
        start(2, log_dirs=2),
    ],
)

#: What waits for broker 3 is unfinished then.
LEFT = [
    start(1, rack="east"),
    start(2, rack="west"),
    start(3, rack="east"),
    create("steady", [[1, 2], [2, 3], [3, 1]], configs={"retention.ms": "3600000"}),
    create("lonely", [[3]]),
    create("moving", [[1, 2], [2, 1]]),
    create("going", [[3, 1], [1, 2]]),
    grow("steady", 5, [[2, 1], [1, 3]]),
    alter(TOPIC, "steady", (SET, "max.message.bytes", "2000"), (DELETE, "retention.ms", None)),
    alter(BROKER, "2", (SET, "log.cleaner.threads", "2"), to=2),
    alter(BROKER, "", (SET, "log.retention.ms", "7200000")),
    quota({"user": "alice", "client-id": None}, "producer_byte_rate", 1024.0),
    stop(3),
    create_node(REASSIGNMENT, listed("moving", {0: [1, 3]}), moves("moving", 0, isr=[1, 2])),
    delete_in_vain("going"),
]
ALONE = state_of("steady", 0, isr=[1])
NOBODY = has("/controller_epoch")
LEFT_BEHIND = {
    "stopped": [*LEFT, stop(2, ALONE), stop(1, NOBODY)],
    "killed": [*LEFT, kill(2, ALONE), kill(1, NOBODY)],
}
TAKEN_OVER = [
    start(1, until=controller_epoch(2, ALONE), rack="east"),
    start(
        2,
        until=both(state_of("steady", 1, leader=2), state_of("steady", 0, isr=[1, 2])),
        rack="west",
    ),
    start(3, rack="east"),
]

SCENARIOS = {
    "topics": TOPICS,
    "failures": FAILURES,
    "reassignment": REASSIGNMENTS,
    "old-protocol": OLD_PROTOCOL,
    "log-dirs": LOG_DIRS,
    **{
        f"left-{ending}": Scenario(SETTINGS, [*steps, *TAKEN_OVER])
        for ending, steps in LEFT_BEHIND.items()
    },
}
