"""All scenarios that two brokers are sent, by name."""

from collections.abc import Mapping

from tests.interop import (
    differential_cluster,
    differential_configs,
    differential_consumers,
    differential_control,
    differential_elsewhere,
    differential_fetch,
    differential_frames,
    differential_groups,
    differential_members,
    differential_produce,
    differential_reads,
    differential_repeats,
    differential_topics,
)
from tests.interop.differential_requests import Scenario

SCENARIOS: Mapping[str, Scenario] = {
    "produce": differential_produce.scenario,
    "fetch": differential_fetch.scenario,
    "fetch sessions": differential_fetch.sessions,
    "conversions": differential_fetch.conversions,
    "offsets": differential_reads.offsets,
    "epochs": differential_reads.epochs,
    "producers": differential_reads.producers,
    "deleted records": differential_reads.deletions,
    "log directories": differential_reads.directories,
    "creations": differential_topics.creations,
    "growths": differential_topics.growths,
    "deletions": differential_topics.deletions,
    "elections": differential_topics.elections,
    "reassignments": differential_topics.reassignments,
    "metadata": differential_cluster.metadata,
    "cluster": differential_cluster.cluster,
    "partitions": differential_cluster.partitions,
    "versions": differential_cluster.versions,
    "configs": differential_configs.scenario,
    "orders": differential_control.orders,
    "requests": differential_control.requests,
    "frames": differential_frames.scenario,
    "repeats": differential_repeats.repeats,
    "elsewhere": differential_elsewhere.scenario,
    "coordinators": differential_groups.coordinators,
    "commits": differential_groups.commits,
    "lists": differential_groups.lists,
    "deleted groups": differential_groups.deletions,
    "members alone": differential_members.alone,
    "two members": differential_members.two,
    "strangers": differential_members.strangers,
    "static members": differential_members.static,
    "silent members": differential_members.silent,
    "consumers": differential_consumers.scenario,
    "static consumers": differential_consumers.static,
    "consumers' offsets": differential_consumers.offsets,
}

#: Those that have something for releases after the last with ZooKeeper.
OF_LATER_VERSIONS = (
    *("produce", "fetch", "fetch sessions", "offsets", "reassignments"),
    *("metadata", "cluster", "partitions", "frames", "repeats"),
    *("lists", "members alone", "two members", "static members"),
    *("consumers", "static consumers", "consumers' offsets"),
)
