"""``odradek cluster status``: brokers, controller, leaders, and what is amiss."""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Awaitable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from odradek.broker.cli import client, tables
from odradek.broker.cli.clusters.health import (
    OFFLINE,
    UNDER_MIN_ISR,
    UNDER_REPLICATED,
    Health,
    health,
)
from odradek.broker.cli.examples import examples
from odradek.broker.cli.failed import AMISS, CommandFailed
from odradek.broker.cli.operated import OperatedCluster, Picture, by_topic, verb
from odradek.broker.cli.partitions import Place
from odradek.broker.cli.reassign.moves import UnderWay, under_way
from odradek.broker.cli.topic_settings import topic_settings

Commands = argparse._SubParsersAction  # the only name that argparse has for it

TOOL = "kafka-topics and kafka-metadata-quorum"
MIN_IN_SYNC = "min.insync.replicas"
#: Of the summary, what metadata does not tell.
REASSIGNING, BELOW_MIN = "reassigning", "under_min_isr"
SUMMARY_COLUMNS = ("what", "value")
BROKER_COLUMNS = ("broker", "address", "rack", "controller", "leads", "replicas", "in_sync")
AMISS_COLUMNS = ("topic", "partition", "amiss", "leader", "replicas", "isr", "min_isr")
UNKNOWN_COLUMNS = ("unknown", "why")

Key = TypeVar("Key")
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Status:
    picture: Picture
    moving: Mapping[Place, UnderWay]
    min_in_sync: Mapping[str, int]
    health: Health
    #: Of the summary, what could not be found out, and why.
    unknown: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_well(self) -> bool:
        has_controller = self.picture.controller is not None
        return has_controller and not self.health.amiss and not self.unknown

    def summary(self) -> dict[str, object]:
        """None: unknown."""
        partitions = self.picture.partitions
        found = {
            "cluster_id": self.picture.cluster_id,
            "controller": self.picture.controller,
            "brokers": len(self.picture.brokers),
            "topics": len(by_topic(partitions)),
            "partitions": len(partitions),
            "offline": self.health.count(OFFLINE),
            "under_replicated": self.health.count(UNDER_REPLICATED),
            BELOW_MIN: self.health.count(UNDER_MIN_ISR),
            REASSIGNING: len(self.moving),
        }
        return {what: None if what in self.unknown else each for what, each in found.items()}

    def brokers(self) -> list[tables.Row]:
        """One that is gone, but has replicas, has no address."""
        partitions = self.picture.partitions.values()
        leads = Counter(each.leader for each in partitions)
        replicas = Counter(broker for each in partitions for broker in each.replicas)
        in_sync = Counter(broker for each in partitions for broker in each.in_sync)
        return [
            (
                broker,
                str(known.address) if (known := self.picture.brokers.get(broker)) else None,
                known.rack if known else None,
                broker == self.picture.controller,
                *(leads[broker], replicas[broker], in_sync[broker]),
            )
            for broker in sorted(self.picture.brokers.keys() | replicas.keys())
        ]

    def amiss(self) -> list[tables.Row]:
        rows: list[tables.Row] = []
        for place, troubles in self.health.amiss.items():
            found = self.picture.partitions[place]
            sync = list(found.in_sync)
            least = self.min_in_sync.get(place.topic)
            rows.append((*place, troubles, found.leader, list(found.replicas), sync, least))
        return rows


def add_to(verbs: Commands[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "status",
        help="show how a cluster is",
        description="Show a cluster's brokers and controller, how many partitions each leads, and "
        "the partitions that have no leader, replicas out of sync, or fewer in sync than "
        f"min.insync.replicas.  Exit status {AMISS}: there are such partitions, there is no "
        "controller, or not all could be found out; what is known is shown all the same.",
        **examples(
            "odradek cluster status",
            "odradek cluster status --bootstrap 127.0.0.1:9092 --json",
        ),
    )
    parser.add_argument("--json", action="store_true", help="print all of it as one line of JSON")
    client.add_options(parser)
    parser.set_defaults(run=verb(show, tool=TOOL))


async def show(arguments: argparse.Namespace, asked: OperatedCluster) -> int:
    found = await status(asked)
    brokers, amiss = found.brokers(), found.amiss()
    if arguments.json:
        rows = {
            "brokers": [dict(zip(BROKER_COLUMNS, row, strict=True)) for row in brokers],
            "amiss": [dict(zip(AMISS_COLUMNS, row, strict=True)) for row in amiss],
        }
        print(json.dumps({"summary": found.summary(), **rows, "unknown": found.unknown}))
    else:
        tables.show(SUMMARY_COLUMNS, found.summary().items(), title="Cluster", as_json=False)
        tables.show(BROKER_COLUMNS, brokers, title="Brokers", as_json=False)
        if amiss:
            tables.show(AMISS_COLUMNS, amiss, title="Amiss", as_json=False)
        if found.unknown:
            tables.show(UNKNOWN_COLUMNS, found.unknown.items(), title="Unknown", as_json=False)
    return 0 if found.is_well else AMISS


async def status(asked: OperatedCluster) -> Status:
    """In the time that there is for one question; raises CommandFailed if nobody answers at all."""
    import asyncio

    deadline = time.monotonic() + asked.timeout_s
    picture = await asked.picture()
    in_time = asked.until(deadline)
    unknown: dict[str, str] = {}

    async def known(what: str, answer: Awaitable[dict[Key, Found]]) -> dict[Key, Found]:
        try:
            return await answer
        except CommandFailed as failure:
            unknown[what] = str(failure)
            return {}

    moving, least = await asyncio.gather(
        known(REASSIGNING, _moving(in_time, picture)),
        known(BELOW_MIN, _min_in_sync(in_time, by_topic(picture.partitions))),
    )
    return Status(picture, moving, least, health(picture, moving, least), unknown)


async def _moving(asked: OperatedCluster, picture: Picture) -> dict[Place, UnderWay]:
    if picture.controller is None:
        raise CommandFailed("the cluster has no controller")
    return await under_way(asked)


async def _min_in_sync(asked: OperatedCluster, topics: Iterable[str]) -> dict[str, int]:
    try:
        found = await topic_settings(asked, topics, [MIN_IN_SYNC])
    except CommandFailed as failure:
        raise CommandFailed(f"{MIN_IN_SYNC}: {failure}") from failure
    return {topic: int(each[MIN_IN_SYNC]) for topic, each in found.items() if MIN_IN_SYNC in each}
