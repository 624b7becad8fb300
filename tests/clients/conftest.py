"""Every client library, on a broker for each module and metadata store."""

import itertools

import pytest

from odradek.protocol.api_keys import ApiKey
from tests.support.broker_stores import broker
from tests.support.client_drivers import DRIVERS
from tests.support.wire_client import call

__all__ = ["broker"]

_NUMBERS = itertools.count()


@pytest.fixture(params=DRIVERS, ids=lambda driver: driver.name)
def driver(request):
    return request.param


@pytest.fixture
def new_topic(broker):
    """Makes a topic, and tells its name."""

    def make(*, partitions=1, **configs):
        name = f"topic-{next(_NUMBERS)}"
        written = [{"name": key.replace("_", "."), "value": str(configs[key])} for key in configs]
        topic = {"name": name, "num_partitions": partitions, "replication_factor": 1}
        answer = call(
            broker.address, ApiKey.CREATE_TOPICS, 7, topics=[topic | {"configs": written}]
        )
        assert answer.topics[0].error_code == 0, answer
        return name

    return make
