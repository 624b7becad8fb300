"""Topics on a test module's broker, each with a name of its own.

A conftest.py or a test module that imports ``new_topic`` from here has a ``broker`` too.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from tests.support.broker_process import BrokerProcess
from tests.support.partition_client import create_topic

_NUMBERS = itertools.count()


@pytest.fixture
def new_topic(broker: BrokerProcess) -> Callable[..., str]:
    """Makes a topic, and tells its name; settings are written with underscores."""

    def make(*, partitions: int = 1, **configs: object) -> str:
        name = f"topic-{next(_NUMBERS)}"
        create_topic(broker.address, name, partitions=partitions, **configs)
        return name

    return make
