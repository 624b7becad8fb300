"""Requests to a controller, most of them mistaken, and the clusters that they are sent to.

A group of cases has steps that lead to the cluster it needs; groups follow one another on the same
brokers.  What might succeed is only checked where that can be asked for, so that no case meets what
another has left.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.interop.controller_error_broker_requests import blocks, isr_changes, shutdowns
from tests.interop.controller_error_requests import (
    alteration,
    alterations,
    creations,
    creations_in_version_4,
    deletion,
    deletions,
    deletions_in_version_6,
    election,
    elections,
    growth,
    growths,
    listing,
    listings,
    move,
    quotas,
    reassignments,
    topic,
)
from tests.interop.controller_tree_cluster import Planned
from tests.interop.controller_tree_steps import (
    PREFERRED,
    SET,
    TOPIC,
    UNCLEAN,
    create,
    delete_in_vain,
    moves,
    pause,
    reassign,
    resume,
    start,
    stop,
)

ANOTHER = "another"
CONTROLLER = "controller"


@dataclass(frozen=True, slots=True)
class Case:
    """``to`` is a broker's id, or "controller", or "another" than the controller."""

    name: str
    api: str
    version: int
    request: Mapping[str, Any]
    to: str = CONTROLLER


@dataclass(frozen=True, slots=True)
class Group:
    name: str
    steps: Sequence[Planned]
    cases: Sequence[Case]


def groups() -> list[Group]:
    return [
        Group(
            "all brokers up",
            [
                start(1),
                start(2),
                start(3),
                create("exists", [[1, 2], [2, 3]]),
                create("under_score", [[1]]),
                create("alone", [[3]]),
                create("ranked", [[3, 1]]),
                create("going", [[3, 1]]),
                create("moving", [[1, 2]]),
                create("steady", [[1, 2]]),
            ],
            list(_while_all_is_well()),
        ),
        Group(
            "broker 3 down, a deletion waiting",
            [stop(3), delete_in_vain("going")],
            list(_while_a_broker_is_down()),
        ),
        Group(
            "a reassignment under way",
            [
                start(3),
                pause(3),
                reassign("moving", {0: [1, 3]}, moves("moving", 0, isr=[1, 2])),
            ],
            list(_while_a_partition_moves()),
        ),
        Group(
            "some brokers without rack",
            [resume(3), stop(3), start(3, rack="east")],
            [
                *_named("create", "CREATE_TOPICS", 7, {"placed": topic("x", 1, 1)}),
                *_named("grow", "CREATE_PARTITIONS", 3, {"placed": growth("exists", 5)}),
            ],
        ),
    ]


def _named(
    what: str, api: str, version: int, requests: Mapping[str, Mapping[str, Any]]
) -> Iterator[Case]:
    for name, request in requests.items():
        yield Case(f"{what}: {name}", api, version, request)


def _while_all_is_well() -> Iterator[Case]:
    yield from _named("create", "CREATE_TOPICS", 7, creations())
    yield from _named("create v4", "CREATE_TOPICS", 4, creations_in_version_4())
    yield from _named("grow", "CREATE_PARTITIONS", 3, growths())
    yield from _named("delete", "DELETE_TOPICS", 5, deletions())
    yield from _named("delete v6", "DELETE_TOPICS", 6, deletions_in_version_6())
    yield from _named("reassign", "ALTER_PARTITION_REASSIGNMENTS", 0, reassignments())
    yield from _named("list", "LIST_PARTITION_REASSIGNMENTS", 0, listings())
    yield from _named("elect", "ELECT_LEADERS", 2, elections())
    yield from _named("alter", "INCREMENTAL_ALTER_CONFIGS", 1, alterations())
    yield from _named("quota", "ALTER_CLIENT_QUOTAS", 1, quotas())
    yield from _named("alter partition", "ALTER_PARTITION", 3, isr_changes())
    yield from _named("alter partition v1", "ALTER_PARTITION", 1, isr_changes())
    yield from _named("shut down", "CONTROLLED_SHUTDOWN", 3, shutdowns())
    yield from _named("producer ids", "ALLOCATE_PRODUCER_IDS", 0, blocks())
    yield from _to_another()


def _to_another() -> Iterator[Case]:
    requests = {
        "CREATE_TOPICS": (7, topic("x", 1, 1)),
        "CREATE_PARTITIONS": (3, growth("exists", 3)),
        "DELETE_TOPICS": (5, deletion("exists")),
        "ALTER_PARTITION_REASSIGNMENTS": (0, move("exists", (0, [1, 2]))),
        "LIST_PARTITION_REASSIGNMENTS": (0, listing(None)),
        "ELECT_LEADERS": (2, election(PREFERRED, [("exists", [0])])),
        "CONTROLLED_SHUTDOWN": (3, {"brokerId": 1, "brokerEpoch": -1}),
        "ALTER_PARTITION": (3, {"brokerId": 1, "brokerEpoch": -1, "topics": []}),
        "ALLOCATE_PRODUCER_IDS": (0, {"brokerId": 1, "brokerEpoch": -1}),
    }
    for api, (version, request) in requests.items():
        yield Case(f"not the controller: {api}", api, version, request, to=ANOTHER)


def _while_a_broker_is_down() -> Iterator[Case]:
    yield from _named("create", "CREATE_TOPICS", 7, {"being deleted": topic("going", 1, 1)})
    yield from _named("create", "CREATE_TOPICS", 7, {"factor above those up": topic("x", 1, 3)})
    yield from _named(
        "grow",
        "CREATE_PARTITIONS",
        3,
        {
            "being deleted": growth("going", 2),
            "onto a broker down": growth("exists", 3, [[1, 3]]),
        },
    )
    yield from _named(
        "reassign",
        "ALTER_PARTITION_REASSIGNMENTS",
        0,
        {
            "being deleted": move("going", (0, [1])),
            "onto a broker down": move("exists", (0, [1, 3])),
            "stays on a broker down": move("exists", (1, [2, 3])),
        },
    )
    yield from _named(
        "elect",
        "ELECT_LEADERS",
        2,
        {
            "preferred is down": election(PREFERRED, [("ranked", [0])]),
            "no leader": election(PREFERRED, [("alone", [0])]),
            "unclean, nobody eligible": election(UNCLEAN, [("alone", [0])]),
            "unclean, not needed": election(UNCLEAN, [("ranked", [0])]),
            "being deleted": election(PREFERRED, [("going", [0])]),
            "all": election(PREFERRED, None),
            "all, unclean": election(UNCLEAN, None),
        },
    )
    ranked = election(PREFERRED, [("ranked", [0])])
    yield Case("elect v0: preferred is down", "ELECT_LEADERS", 0, ranked)
    yield Case(
        "alter: being deleted",
        "INCREMENTAL_ALTER_CONFIGS",
        1,
        alteration(TOPIC, "going", (SET, "retention.ms", "1000"), only_check=True),
    )


def _while_a_partition_moves() -> Iterator[Case]:
    yield from _named("grow", "CREATE_PARTITIONS", 3, {"being moved": growth("moving", 2)})
    yield from _named(
        "list",
        "LIST_PARTITION_REASSIGNMENTS",
        0,
        {
            "all": listing(None),
            "one under way, one not": listing([("exists", [0]), ("moving", [0])]),
        },
    )
    yield from _named(
        "reassign",
        "ALTER_PARTITION_REASSIGNMENTS",
        0,
        {
            "the same again": move("moving", (0, [1, 3])),
            "mistaken while under way": move("moving", (0, [1, 99])),
            "cancelled": move("moving", (0, None)),
            "cancelled again": move("moving", (0, None)),
        },
    )
