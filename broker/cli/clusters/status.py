"""``odradek cluster status``: brokers, controller, leaders, and what is amiss."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from odradek.broker.cli import client, tables
from odradek.broker.cli.clusters.health import (
    OFFLINE,
    UNDER_MIN_ISR,
    UNDER_REPLICATED,
    Health,
    health,
)
from odradek.broker.cli.examples import examples
from odradek.broker.cli.failed import AMISS
from odradek.broker.cli.operated import OperatedCluster, Picture, by_topic, check, verb
from odradek.broker.cli.partitions import Place
from odradek.broker.cli.reassign.moves import UnderWay, under_way

Commands = argparse._SubParsersAction  # the only name that argparse has for it

TOOL = "kafka-topics and kafka-metadata-quorum"
TOPIC = 2
MIN_IN_SYNC = "min.insync.replicas"
#: Of topics in a request, so that none holds up its broker.
AT_ONCE = 500
SUMMARY_COLUMNS = ("what", "value")
BROKER_COLUMNS = ("broker", "address", "rack", "controller", "leads", "replicas", "in_sync")
AMISS_COLUMNS = ("topic", "partition", "amiss", "leader", "replicas", "isr", "min_isr")


@dataclass(frozen=True, slots=True)
class Status:
    picture: Picture
    moving: Mapping[Place, UnderWay]
    min_in_sync: Mapping[str, int]
    health: Health

    @property
    def is_well(self) -> bool:
        return self.picture.controller is not None and not self.health.amiss

    def summary(self) -> dict[str, object]:
        partitions = self.picture.partitions
        return {
            "cluster_id": self.picture.cluster_id,
            "controller": self.picture.controller,
            "brokers": len(self.picture.brokers),
            "topics": len(by_topic(partitions)),
            "partitions": len(partitions),
            "offline": self.health.count(OFFLINE),
            "under_replicated": self.health.count(UNDER_REPLICATED),
            "under_min_isr": self.health.count(UNDER_MIN_ISR),
            "reassigning": len(self.moving),
        }

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
        f"min.insync.replicas.  Exit status {AMISS}: there are such partitions, or there is no "
        "controller.",
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
        print(json.dumps({"summary": found.summary(), **rows}))
    else:
        tables.show(SUMMARY_COLUMNS, found.summary().items(), title="Cluster", as_json=False)
        tables.show(BROKER_COLUMNS, brokers, title="Brokers", as_json=False)
        if amiss:
            tables.show(AMISS_COLUMNS, amiss, title="Amiss", as_json=False)
    return 0 if found.is_well else AMISS


async def status(asked: OperatedCluster) -> Status:
    picture = await asked.picture()
    moving = await under_way(asked) if picture.controller is not None else {}
    least = await _min_in_sync(asked, by_topic(picture.partitions))
    return Status(picture, moving, least, health(picture, moving, least))


async def _min_in_sync(asked: OperatedCluster, topics: Iterable[str]) -> dict[str, int]:
    from odradek.protocol.api.describe_configs import DescribeConfigsRequest

    names, found = [*topics], {}
    for begin in range(0, len(names), AT_ONCE):
        resources = [
            DescribeConfigsRequest.Resource(
                resource_type=TOPIC, resource_name=name, configuration_keys=[MIN_IN_SYNC]
            )
            for name in names[begin : begin + AT_ONCE]
        ]
        request = DescribeConfigsRequest(resources=resources)
        for each in (await asked.ask_anybody(request, version=1)).results:
            check(each.error_code, each.error_message, of=each.resource_name)
            (config,) = each.configs
            found[each.resource_name] = int(config.value)
    return found
