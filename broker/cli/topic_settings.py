"""What is set for topics, as any broker tells it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence

from odradek.broker.cli.operated import OperatedCluster, check, error_name

TOPIC = 2  # as the type of a resource
#: Of topics in a request, so that none holds up its broker.
AT_ONCE = 500
DELETED = "UNKNOWN_TOPIC_OR_PARTITION"


async def topic_settings(
    asked: OperatedCluster, topics: Iterable[str], names: Sequence[str]
) -> dict[str, Mapping[str, str]]:
    """By topic, of those that are still there, and by name; in the time that there is for one."""
    from odradek.protocol.api.describe_configs import DescribeConfigsRequest

    deadline = time.monotonic() + asked.timeout_s
    remaining = [*topics]
    found: dict[str, Mapping[str, str]] = {}
    while remaining:
        now, remaining = remaining[:AT_ONCE], remaining[AT_ONCE:]
        resources = [
            DescribeConfigsRequest.Resource(
                resource_type=TOPIC, resource_name=name, configuration_keys=[*names]
            )
            for name in now
        ]
        request = DescribeConfigsRequest(resources=resources)
        for each in (await asked.until(deadline).ask_anybody(request, version=1)).results:
            if error_name(each.error_code) != DELETED:
                check(each.error_code, each.error_message, of=each.resource_name)
                found[each.resource_name] = {
                    config.name: config.value or "" for config in each.configs
                }
    return found
