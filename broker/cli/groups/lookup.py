"""What a cluster says of its groups: which there are, who is in them, what they committed.

Groups of other kinds than consumers', such as those of Kafka Connect's workers, are left out, as
Kafka's own tool does.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any

from odradek.broker.cli import client
from odradek.broker.cli.failed import CommandFailed
from odradek.broker.cli.groups.coordinator import PAUSE_S, answers, error_in, will_pass
from odradek.broker.cli.partitions import Offsets, Place

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient, ConsumerGroupDescription, ConsumerGroupListing

#: Kafka's names for what the library has other names for.
STATES = {
    "PREPARING_REBALANCING": "PreparingRebalance",
    "COMPLETING_REBALANCING": "CompletingRebalance",
    "STABLE": "Stable",
    "DEAD": "Dead",
    "EMPTY": "Empty",
}
#: The library has no names for Assigning and Reconciling, the states of the consumer protocol.
REBALANCING, UNKNOWN = "Rebalancing", "Unknown"
TYPES = ("classic", "consumer")
EMPTY, DEAD, STABLE = STATES["EMPTY"], STATES["DEAD"], STATES["STABLE"]


def listed(admin: AdminClient, timeout_s: float) -> list[ConsumerGroupListing]:
    """All of them, by name."""
    deadline = time.monotonic() + timeout_s
    while True:
        found = admin.list_consumer_groups(request_timeout=timeout_s).result()
        if not found.errors:
            return sorted(found.valid, key=lambda group: group.group_id)
        failure = found.errors[0]
        if not will_pass(failure) or time.monotonic() > deadline:
            error = error_in(failure)
            raise CommandFailed(str(failure) if error is None else client.reason(error))
        time.sleep(PAUSE_S)


def names(admin: AdminClient, arguments: argparse.Namespace) -> list[str]:
    """Those that are named, each once, or with --all-groups all there are."""
    if bool(arguments.groups) == arguments.all_groups:
        raise CommandFailed("name groups, or give --all-groups")
    if arguments.all_groups:
        return [group.group_id for group in listed(admin, arguments.timeout)]
    return list(dict.fromkeys(arguments.groups))


def described(
    admin: AdminClient, groups: list[str], timeout_s: float
) -> dict[str, ConsumerGroupDescription | None]:
    """None for a group that is not there."""
    from confluent_kafka import KafkaException

    ask = partial(admin.describe_consumer_groups, request_timeout=timeout_s)
    found: dict[str, Any] = {}
    for group, future in answers(ask, groups, timeout_s=timeout_s).items():
        raised = future.exception()
        if isinstance(raised, KafkaException) and raised.args[0].name() == "GROUP_ID_NOT_FOUND":
            found[group] = None
            continue
        description = client.outcome(group, future)
        found[group] = None if state(description) == DEAD else description
    return found


def committed(admin: AdminClient, groups: Iterable[str], timeout_s: float) -> dict[str, Offsets]:
    """For each group; nothing for one that is not there."""
    from confluent_kafka import ConsumerGroupTopicPartitions

    def ask(groups: list[str]) -> dict[str, Future[Any]]:
        asked = [[ConsumerGroupTopicPartitions(group)] for group in groups]
        answered: dict[str, Future[Any]] = {}
        for one in asked:  # the library takes no more at a time
            answered |= admin.list_consumer_group_offsets(one, request_timeout=timeout_s)
        return answered

    futures = answers(ask, list(groups), timeout_s=timeout_s)
    return {group: _offsets(group, future) for group, future in futures.items()}


def _offsets(group: str, future: Any) -> Offsets:
    found = {}
    for at in client.outcome(group, future).topic_partitions or []:
        place = Place(at.topic, at.partition)
        if at.error is not None:
            raise CommandFailed(f"{group}: {place}: {client.reason(at.error)}")
        if at.offset >= 0:
            found[place] = at.offset
    return found


def state(group: ConsumerGroupListing | ConsumerGroupDescription) -> str:
    is_named = group.state.name in STATES
    if not is_named and kind(group) == "consumer":
        return REBALANCING
    return STATES[group.state.name] if is_named else UNKNOWN


def kind(group: ConsumerGroupListing | ConsumerGroupDescription) -> str:
    """``classic``, ``consumer`` or, of brokers that do not tell, ``unknown``."""
    return group.type.name.lower()
