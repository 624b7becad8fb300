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


def list_groups(admin: AdminClient, timeout_s: float) -> list[ConsumerGroupListing]:
    """All of them, by name."""
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
    """Those that are named, each once, or with --all-groups all there are."""
    if bool(arguments.groups) == arguments.all_groups:
        raise CommandFailed("name groups, or give --all-groups")
    if arguments.all_groups:
        return [group.group_id for group in list_groups(admin, arguments.timeout)]
    return list(dict.fromkeys(arguments.groups))


def describe_groups(
    admin: AdminClient, groups: list[str], timeout_s: float
) -> dict[str, ConsumerGroupDescription | None]:
    """None for a group that is not there."""
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
    """For each group; nothing for one that is not there."""
    from confluent_kafka import ConsumerGroupTopicPartitions

    def send(groups: list[str]) -> dict[str, Future[Any]]:
        requests = [[ConsumerGroupTopicPartitions(group)] for group in groups]
        futures: dict[str, Future[Any]] = {}
        for request in requests:  # the library takes no more at a time
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
    """``classic``, ``consumer`` or, of brokers that do not tell, ``unknown``."""
    return group.type.name.lower()
