"""Requests that brokers make to their controller, by what is wrong with them.

For controller_error_cases: ``<epoch of N>`` and ``<id 1 of T>`` stand for what is not known before.
"""

from collections.abc import Sequence
from typing import Any

STALE_EPOCH = 1


def isr_change(
    isr: Sequence[int],
    *,
    topic: str = "steady",
    partition: int = 0,
    recovery: int = 0,
    leader_epoch: int = 0,
    partition_epoch: int = 0,
) -> dict[str, Any]:
    """From broker 1, which leads steady-0 in both epochs 0; the topic is named in all ways."""
    changed = {
        "partitionIndex": partition,
        "leaderEpoch": leader_epoch,
        "newIsr": isr,
        "newIsrWithEpochs": [{"brokerId": broker, "brokerEpoch": -1} for broker in isr],
        "leaderRecoveryState": recovery,
        "partitionEpoch": partition_epoch,
    }
    named = {"topicName": topic, "topicId": f"<id 1 of {topic}>", "partitions": [changed]}
    return {"brokerId": 1, "brokerEpoch": "<epoch of 1>", "topics": [named]}


def isr_changes() -> dict[str, dict[str, Any]]:
    absent = {"topicName": "absent", "topicId": "AAAAAAAAAAAAAAAAAAAAEg"}
    unknown = {**isr_change([1])["topics"][0], **absent}
    return {
        "stale broker epoch": {**isr_change([1]), "brokerEpoch": STALE_EPOCH},
        "unknown broker": {**isr_change([1]), "brokerId": 99},
        "no topics": {**isr_change([1]), "topics": []},
        "unknown topic": {**isr_change([1]), "topics": [unknown]},
        "unknown partition": isr_change([1], partition=9),
        "newer leader epoch": isr_change([1], leader_epoch=1),
        "newer partition epoch": isr_change([1], partition_epoch=1),
        "older leader epoch": isr_change([1], leader_epoch=-1),
        "older partition epoch": isr_change([1], partition_epoch=-1),
        "nothing new": isr_change([1, 2]),
        "nothing new, older partition epoch": isr_change([1, 2], partition_epoch=-1),
        "recovering with others": isr_change([1, 2, 3], recovery=1),
        "recovering again": isr_change([1], recovery=1),
        "unknown replica": isr_change([1, 99]),
    }


def shutdowns() -> dict[str, dict[str, Any]]:
    return {
        "unknown broker": {"brokerId": 99, "brokerEpoch": STALE_EPOCH},
        "stale epoch": {"brokerId": 2, "brokerEpoch": STALE_EPOCH},
    }


def blocks() -> dict[str, dict[str, Any]]:
    return {
        "unknown broker": {"brokerId": 99, "brokerEpoch": STALE_EPOCH},
        "stale epoch": {"brokerId": 2, "brokerEpoch": STALE_EPOCH},
        "negative epoch": {"brokerId": 2, "brokerEpoch": -1},
        "right": {"brokerId": 2, "brokerEpoch": "<epoch of 2>"},
    }
