"""What is started once for all tests of Spark jobs: a Spark session, and a broker to read from."""

import pytest

from tests.support.live_topics import live_topics
from tests.support.spark_session import spark

__all__ = ["spark"]

#: Fixtures that take long to start, and then serve any number of tests.
STARTED_ONCE = {"live_broker", "spark"}


@pytest.hookimpl(trylast=True)  # behind what shuffles the tests
def pytest_collection_modifyitems(items):
    """Tests that share what takes long to start come first, one behind the other.

    Of xdist's processes each begins with a piece of the list that is larger than all of these: so
    one of them starts a JVM, and the others none.
    """
    items.sort(key=lambda item: STARTED_ONCE.isdisjoint(getattr(item, "fixturenames", ())))


@pytest.fixture(scope="session")
def live_broker(tmp_path_factory):
    with live_topics(tmp_path_factory.mktemp("live") / "logs") as broker:
        yield broker
