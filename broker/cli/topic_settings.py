"""Fetches the settings of topics from any broker."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence

from odradek.broker.cli.cluster_client import ClusterClient, check_error, error_name

TOPIC_RESOURCE = 2  # the resource type of topics
#: Limits the work of a broker for one request.
TOPICS_PER_REQUEST = 500
DELETED_TOPIC_ERROR = "UNKNOWN_TOPIC_OR_PARTITION"


async def fetch_topic_settings(
    cluster: ClusterClient, topics: Iterable[str], names: Sequence[str]
) -> dict[str, Mapping[str, str]]:
    """Return the requested settings of each topic that still exists, within one timeout."""
    from odradek.protocol.api.describe_configs import DescribeConfigsRequest

    deadline = time.monotonic() + cluster.timeout_s
    remaining = [*topics]
    settings: dict[str, Mapping[str, str]] = {}
    while remaining:
        batch, remaining = remaining[:TOPICS_PER_REQUEST], remaining[TOPICS_PER_REQUEST:]
        resources = [
            DescribeConfigsRequest.Resource(
                resource_type=TOPIC_RESOURCE, resource_name=name, configuration_keys=[*names]
            )
            for name in batch
        ]
        request = DescribeConfigsRequest(resources=resources)
        for result in (
            await cluster.with_deadline(deadline).send_to_any_broker(request, version=1)
        ).results:
            if error_name(result.error_code) != DELETED_TOPIC_ERROR:
                check_error(result.error_code, result.error_message, subject=result.resource_name)
                settings[result.resource_name] = {
                    config.name: config.value or "" for config in result.configs
                }
    return settings
