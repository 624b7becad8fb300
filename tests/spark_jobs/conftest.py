"""Fixtures shared by all tests of Spark jobs: a Spark session and a broker with topics."""

import pytest

from tests.support.live_topics import live_topics
from tests.support.spark_session import spark

__all__ = ["spark"]

#: Fixtures that are slow to start and shared by many tests.
STARTED_ONCE = {"live_broker", "spark"}


@pytest.hookimpl(trylast=True)  # after the plugin that shuffles the tests
def pytest_collection_modifyitems(items):
    """Run the tests that share a slow fixture first, one after the other.

    Each xdist process starts with a chunk of the list that is longer than all of these tests, so
    only one process starts a JVM.
    """
    items.sort(key=lambda item: STARTED_ONCE.isdisjoint(getattr(item, "fixturenames", ())))


@pytest.fixture(scope="session")
def live_broker(tmp_path_factory):
    with live_topics(tmp_path_factory.mktemp("live") / "logs") as broker:
        yield broker
