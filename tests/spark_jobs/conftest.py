"""What is started once for all tests of Spark jobs: a Spark session, and a broker to read from."""

import pytest

from tests.support.live_topics import live_topics
from tests.support.spark_session import spark

__all__ = ["spark"]


@pytest.fixture(scope="session")
def live_broker(tmp_path_factory):
    with live_topics(tmp_path_factory.mktemp("live") / "logs") as broker:
        yield broker
