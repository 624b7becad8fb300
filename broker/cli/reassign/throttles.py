"""How fast replicas may move: settings that kafka-reassign-partitions sets and removes too.

    of a topic    leader.replication.throttled.replicas     who is slowed down when it is read:
                                                            ``0:1,0:2``, where partition 0 was
                  follower.replication.throttled.replicas   and when it reads: where it will be
    of a broker   leader.replication.throttled.rate         bytes in a second, of all of those
                  follower.replication.throttled.rate

A broker's are changed by itself, so one that is gone keeps them until it is back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from odradek.broker.cli.failed import CommandFailed
from odradek.broker.cli.operated import OperatedCluster, told
from odradek.broker.cli.partitions import Place
from odradek.broker.cli.reassign.moves import UnderWay
from odradek.broker.cli.reassign.plans import Plan
from odradek.broker.cli.topic_settings import topic_settings

LEADERS = "leader.replication.throttled.replicas"
FOLLOWERS = "follower.replication.throttled.replicas"
RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
TOPIC, BROKER = 2, 4
SET, DELETE = 0, 1

#: A value for each setting; None: none any more.
Changes = Mapping[str, str | None]


class Move(NamedTuple):
    """Of a partition: which brokers it is read from, and which ones read it."""

    sources: tuple[int, ...]
    readers: tuple[int, ...]


def moves_of(
    plan: Plan, now: Mapping[Place, tuple[int, ...]], moving: Mapping[Place, UnderWay]
) -> dict[Place, Move]:
    """Those of a plan, and those under way that it leaves alone."""
    moves = {place: Move(each.origin, each.adding) for place, each in moving.items()}
    for place, replicas in plan.items():
        sources = moving[place].origin if place in moving else now[place]
        readers = tuple(each for each in replicas if each not in sources)
        moves[place] = Move(sources, readers)
    return moves


async def throttle(cluster: OperatedCluster, moves: Mapping[Place, Move], rate: int) -> list[int]:
    """The brokers that are throttled now."""
    for topic, changes in _of_topics(moves).items():
        await _alter_topic(cluster, topic, changes)
    brokers = sorted({each for move in moves.values() for each in (*move.sources, *move.readers)})
    alive = (await cluster.picture([])).brokers
    throttled = [each for each in brokers if each in alive]
    for broker in throttled:
        await _alter_broker(cluster, broker, dict.fromkeys(RATES, str(rate)))
    return throttled


async def remove(cluster: OperatedCluster, topics: Iterable[str]) -> None:
    """From these topics, and from every broker that is there."""
    for broker in sorted((await cluster.picture([])).brokers):
        await _alter_broker(cluster, broker, dict.fromkeys(RATES))
    for topic in sorted(topics):
        await _alter_topic(cluster, topic, dict.fromkeys((LEADERS, FOLLOWERS)))


async def throttled_topics(cluster: OperatedCluster, topics: Iterable[str]) -> list[str]:
    """Those of them whose replicas are; of brokers nobody tells."""
    found = await topic_settings(cluster, sorted(topics), [LEADERS, FOLLOWERS])
    return [topic for topic, settings in found.items() if any(settings.values())]


def _of_topics(moves: Mapping[Place, Move]) -> dict[str, Changes]:
    """A partition that nobody new reads is throttled nowhere."""
    found: dict[str, dict[str, list[str]]] = {}
    for place, move in sorted(moves.items()):
        if move.readers:
            throttled = found.setdefault(place.topic, {LEADERS: [], FOLLOWERS: []})
            throttled[LEADERS] += [f"{place.partition}:{each}" for each in move.sources]
            throttled[FOLLOWERS] += [f"{place.partition}:{each}" for each in move.readers]
    return {
        topic: {name: ",".join(replicas) for name, replicas in throttled.items()}
        for topic, throttled in found.items()
    }


async def _alter_topic(cluster: OperatedCluster, topic: str, changes: Changes) -> None:
    request = _request(TOPIC, topic, changes)
    answer = await cluster.ask_controller(request, version=0, codes=_codes)
    _check(answer, f"topic {topic}")


async def _alter_broker(cluster: OperatedCluster, broker: int, changes: Changes) -> None:
    request = _request(BROKER, str(broker), changes)
    _check(await cluster.ask_broker(broker, request, version=0), f"broker {broker}")


def _request(kind: int, name: str, changes: Changes) -> Any:
    from odradek.protocol.api.incremental_alter_configs import IncrementalAlterConfigsRequest

    asked = IncrementalAlterConfigsRequest.Resource
    configs = [
        asked.Config(name=setting, config_operation=DELETE if to is None else SET, value=to)
        for setting, to in changes.items()
    ]
    resource = asked(resource_type=kind, resource_name=name, configs=configs)
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)


def _codes(answer: Any) -> list[int]:
    return [each.error_code for each in answer.responses]


def _check(answer: Any, of: str) -> None:
    for each in answer.responses:
        if each.error_code:
            raise CommandFailed(f"{of}: {told(each.error_code, each.error_message)}")
