"""Every client library, on a broker for each module and metadata store."""

import pytest

from tests.support.broker_stores import broker
from tests.support.client_drivers import DRIVERS
from tests.support.new_topics import new_topic

__all__ = ["broker", "new_topic"]


@pytest.fixture(params=DRIVERS, ids=lambda driver: driver.name)
def driver(request):
    return request.param
