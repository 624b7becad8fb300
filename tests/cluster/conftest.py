"""Three brokers for a test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster import Cluster
from tests.support.zookeeper import ZooKeeperServer


@pytest.fixture
def cluster(zookeeper: ZooKeeperServer, tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path, zookeeper).running() as cluster:
        yield cluster
