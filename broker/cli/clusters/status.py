"""``odradek cluster status``: show brokers, controller, leaders, and problems."""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Awaitable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from odradek.broker.cli import client, tables
from odradek.broker.cli.cluster_client import (
    ClusterClient,
    MetadataSnapshot,
    cluster_command,
    group_by_topic,
)
from odradek.broker.cli.clusters.health import (
    OFFLINE,
    UNDER_MIN_ISR,
    UNDER_REPLICATED,
    Health,
    check_health,
)
from odradek.broker.cli.errors import CHECK_FAILED, CommandFailed
from odradek.broker.cli.examples import examples
from odradek.broker.cli.partitions import TopicAndPartition
from odradek.broker.cli.reassign.reassignments import PartitionReassignment, list_reassignments
from odradek.broker.cli.topic_settings import fetch_topic_settings

Commands = argparse._SubParsersAction  # the only name that argparse has for it

TOOL = "kafka-topics and kafka-metadata-quorum"
MIN_ISR_SETTING = "min.insync.replicas"
#: The fields of the summary that are not in metadata.
REASSIGNING_KEY, UNDER_MIN_ISR_KEY = "reassigning", "under_min_isr"
SUMMARY_COLUMNS = ("name", "value")
BROKER_COLUMNS = ("broker", "address", "rack", "controller", "leads", "replicas", "in_sync")
PROBLEM_COLUMNS = ("topic", "partition", "amiss", "leader", "replicas", "isr", "min_isr")
UNKNOWN_COLUMNS = ("unknown", "reason")

Key = TypeVar("Key")
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    snapshot: MetadataSnapshot
    reassignments: Mapping[TopicAndPartition, PartitionReassignment]
    min_isr: Mapping[str, int]
    health: Health
    #: The fields of the summary that could not be determined, and the reasons.
    unknown: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_healthy(self) -> bool:
        has_controller = self.snapshot.controller_id is not None
        return has_controller and not self.health.problems and not self.unknown

    def summary(self) -> dict[str, object]:
        """Return the fields of the summary; a field is None if it is unknown."""
        partitions = self.snapshot.partitions
        fields = {
            "cluster_id": self.snapshot.cluster_id,
            "controller": self.snapshot.controller_id,
            "brokers": len(self.snapshot.brokers),
            "topics": len(group_by_topic(partitions)),
            "partitions": len(partitions),
            "offline": self.health.count(OFFLINE),
            "under_replicated": self.health.count(UNDER_REPLICATED),
            UNDER_MIN_ISR_KEY: self.health.count(UNDER_MIN_ISR),
            REASSIGNING_KEY: len(self.reassignments),
        }
        return {name: None if name in self.unknown else value for name, value in fields.items()}

    def broker_rows(self) -> list[tables.Row]:
        """A broker that is offline and has replicas gets a row without an address."""
        partitions = self.snapshot.partitions.values()
        leaders = Counter(each.leader for each in partitions)
        replicas = Counter(broker for each in partitions for broker in each.replicas)
        in_sync = Counter(broker for each in partitions for broker in each.isr)
        return [
            (
                broker,
                str(known.address) if (known := self.snapshot.brokers.get(broker)) else None,
                known.rack if known else None,
                broker == self.snapshot.controller_id,
                *(leaders[broker], replicas[broker], in_sync[broker]),
            )
            for broker in sorted(self.snapshot.brokers.keys() | replicas.keys())
        ]

    def problem_rows(self) -> list[tables.Row]:
        rows: list[tables.Row] = []
        for topic_partition, problems in self.health.problems.items():
            partition = self.snapshot.partitions[topic_partition]
            isr = list(partition.isr)
            min_isr = self.min_isr.get(topic_partition.topic)
            rows.append(
                (
                    *topic_partition,
                    problems,
                    partition.leader,
                    list(partition.replicas),
                    isr,
                    min_isr,
                )
            )
        return rows


def add_to(verbs: Commands[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "status",
        help="show the status of a cluster",
        description="Show the brokers and the controller of a cluster, how many partitions each "
        "broker leads, and the partitions that are offline, under-replicated or under "
        f"min.insync.replicas.  Exit code {CHECK_FAILED}: there are such partitions, there is no "
        "controller, or some information is unavailable; the rest is still shown.",
        **examples(
            "odradek cluster status",
            "odradek cluster status --bootstrap 127.0.0.1:9092 --json",
        ),
    )
    parser.add_argument("--json", action="store_true", help="print everything as one line of JSON")
    client.add_options(parser)
    parser.set_defaults(run=cluster_command(show_status, tool=TOOL))


async def show_status(arguments: argparse.Namespace, cluster: ClusterClient) -> int:
    status = await fetch_status(cluster)
    brokers, problems = status.broker_rows(), status.problem_rows()
    if arguments.json:
        rows = {
            "brokers": [dict(zip(BROKER_COLUMNS, row, strict=True)) for row in brokers],
            "amiss": [dict(zip(PROBLEM_COLUMNS, row, strict=True)) for row in problems],
        }
        print(json.dumps({"summary": status.summary(), **rows, "unknown": status.unknown}))
    else:
        tables.show(SUMMARY_COLUMNS, status.summary().items(), title="Cluster", as_json=False)
        tables.show(BROKER_COLUMNS, brokers, title="Brokers", as_json=False)
        if problems:
            tables.show(PROBLEM_COLUMNS, problems, title="Problems", as_json=False)
        if status.unknown:
            tables.show(UNKNOWN_COLUMNS, status.unknown.items(), title="Unknown", as_json=False)
    return 0 if status.is_healthy else CHECK_FAILED


async def fetch_status(cluster: ClusterClient) -> ClusterStatus:
    """Fetch everything within one timeout; raises CommandFailed if no broker responds."""
    import asyncio

    deadline = time.monotonic() + cluster.timeout_s
    snapshot = await cluster.fetch_metadata()
    limited = cluster.with_deadline(deadline)
    unknown: dict[str, str] = {}

    async def result_or_empty(name: str, result: Awaitable[dict[Key, Value]]) -> dict[Key, Value]:
        try:
            return await result
        except CommandFailed as error:
            unknown[name] = str(error)
            return {}

    reassignments, min_isr = await asyncio.gather(
        result_or_empty(REASSIGNING_KEY, _fetch_reassignments(limited, snapshot)),
        result_or_empty(
            UNDER_MIN_ISR_KEY, _fetch_min_isr(limited, group_by_topic(snapshot.partitions))
        ),
    )
    return ClusterStatus(
        snapshot,
        reassignments,
        min_isr,
        check_health(snapshot, reassignments, min_isr),
        unknown,
    )


async def _fetch_reassignments(
    cluster: ClusterClient, snapshot: MetadataSnapshot
) -> dict[TopicAndPartition, PartitionReassignment]:
    if snapshot.controller_id is None:
        raise CommandFailed("the cluster has no controller")
    return await list_reassignments(cluster)


async def _fetch_min_isr(cluster: ClusterClient, topics: Iterable[str]) -> dict[str, int]:
    try:
        settings = await fetch_topic_settings(cluster, topics, [MIN_ISR_SETTING])
    except CommandFailed as error:
        raise CommandFailed(f"{MIN_ISR_SETTING}: {error}") from error
    return {
        topic: int(values[MIN_ISR_SETTING])
        for topic, values in settings.items()
        if MIN_ISR_SETTING in values
    }
