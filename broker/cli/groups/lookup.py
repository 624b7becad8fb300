"""Fetches the groups of a cluster, their members and their committed offsets.

Groups of other types, such as those of Kafka Connect's workers, are omitted, as in Kafka's tool.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any

from odradek.broker.cli import client
from odradek.broker.cli.errors import CommandFailed
from odradek.broker.cli.groups.coordinator_retries import (
    RETRY_BACKOFF_S,
    extract_kafka_error,
    is_retriable,
    send_with_retries,
)
from odradek.broker.cli.partitions import Offsets, TopicAndPartition

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient, ConsumerGroupDescription, ConsumerGroupListing

#: The library's names of states, and Kafka's.
STATES = {
    "PREPARING_REBALANCING": "PreparingRebalance",
    "COMPLETING_REBALANCING": "CompletingRebalance",
    "STABLE": "Stable",
    "DEAD": "Dead",
    "EMPTY": "Empty",
}
#: The library has no names for Assigning and Reconciling, two states of the consumer protocol.
REBALANCING, UNKNOWN = "Rebalancing", "Unknown"
TYPES = ("classic", "consumer")
EMPTY, DEAD, STABLE = STATES["EMPTY"], STATES["DEAD"], STATES["STABLE"]


def list_groups(admin: AdminClient, timeout_s: float) -> list[ConsumerGroupListing]:
    """Return all groups, by name."""
    deadline = time.monotonic() + timeout_s
    while True:
        result = admin.list_consumer_groups(request_timeout=timeout_s).result()
        if not result.errors:
            return sorted(result.valid, key=lambda group: group.group_id)
        first_error = result.errors[0]
        if not is_retriable(first_error) or time.monotonic() > deadline:
            error = extract_kafka_error(first_error)
            raise CommandFailed(
                str(first_error) if error is None else client.format_kafka_error(error)
            )
        time.sleep(RETRY_BACKOFF_S)


def selected_groups(admin: AdminClient, arguments: argparse.Namespace) -> list[str]:
    """Return the groups of the arguments, each once, or all groups with --all-groups."""
    if bool(arguments.groups) == arguments.all_groups:
        raise CommandFailed("give either groups or --all-groups")
    if arguments.all_groups:
        return [group.group_id for group in list_groups(admin, arguments.timeout)]
    return list(dict.fromkeys(arguments.groups))


def describe_groups(
    admin: AdminClient, groups: list[str], timeout_s: float
) -> dict[str, ConsumerGroupDescription | None]:
    """The description is None for a group that does not exist."""
    from confluent_kafka import KafkaException

    send = partial(admin.describe_consumer_groups, request_timeout=timeout_s)
    descriptions: dict[str, Any] = {}
    for group, future in send_with_retries(send, groups, timeout_s=timeout_s).items():
        error = future.exception()
        if isinstance(error, KafkaException) and error.args[0].name() == "GROUP_ID_NOT_FOUND":
            descriptions[group] = None
            continue
        description = client.wait_for_result(group, future)
        descriptions[group] = None if state(description) == DEAD else description
    return descriptions


def committed_offsets(
    admin: AdminClient, groups: Iterable[str], timeout_s: float
) -> dict[str, Offsets]:
    """Return the committed offsets of each group; a group that does not exist has none."""
    from confluent_kafka import ConsumerGroupTopicPartitions

    def send(groups: list[str]) -> dict[str, Future[Any]]:
        requests = [[ConsumerGroupTopicPartitions(group)] for group in groups]
        futures: dict[str, Future[Any]] = {}
        for request in requests:  # the library accepts one group in a call
            futures |= admin.list_consumer_group_offsets(request, request_timeout=timeout_s)
        return futures

    futures = send_with_retries(send, list(groups), timeout_s=timeout_s)
    return {group: _offsets_of_result(group, future) for group, future in futures.items()}


def _offsets_of_result(group: str, future: Any) -> Offsets:
    offsets = {}
    for each in client.wait_for_result(group, future).topic_partitions or []:
        topic_partition = TopicAndPartition(each.topic, each.partition)
        if each.error is not None:
            raise CommandFailed(
                f"{group}: {topic_partition}: {client.format_kafka_error(each.error)}"
            )
        if each.offset >= 0:
            offsets[topic_partition] = each.offset
    return offsets


def state(group: ConsumerGroupListing | ConsumerGroupDescription) -> str:
    is_named = group.state.name in STATES
    if not is_named and group_type(group) == "consumer":
        return REBALANCING
    return STATES[group.state.name] if is_named else UNKNOWN


def group_type(group: ConsumerGroupListing | ConsumerGroupDescription) -> str:
    """Return ``classic``, ``consumer``, or ``unknown`` if the broker does not return a type."""
    return group.type.name.lower()
