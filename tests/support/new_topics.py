"""Topics on a test module's broker, each with a name of its own.

A conftest.py or a test module that imports ``new_topic`` from here has a ``broker`` too.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from odradek.protocol.api_keys import ApiKey
from tests.support.broker_process import BrokerProcess
from tests.support.wire_client import call

_NUMBERS = itertools.count()


@pytest.fixture
def new_topic(broker: BrokerProcess) -> Callable[..., str]:
    """Makes a topic, and tells its name; settings are written with underscores."""

    def make(*, partitions: int = 1, **configs: object) -> str:
        name = f"topic-{next(_NUMBERS)}"
        written = [{"name": key.replace("_", "."), "value": str(configs[key])} for key in configs]
        topic = {"name": name, "num_partitions": partitions, "replication_factor": 1}
        answer = call(
            broker.address, ApiKey.CREATE_TOPICS, 7, topics=[topic | {"configs": written}]
        )
        assert answer.topics[0].error_code == 0, answer
        return name

    return make
