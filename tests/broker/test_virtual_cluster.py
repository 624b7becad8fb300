"""Whatever befalls three brokers: what is acknowledged is there, once, and nobody disagrees."""

import pytest

from odradek.broker import clock, turns
from odradek.broker.replicas import fetcher
from tests.support.virtual_cluster import VirtualCluster


@pytest.mark.parametrize("seed", range(3))
def test_what_is_acknowledged_survives_whatever_befalls_brokers(seed, tmp_path, monkeypatch):
    cluster = VirtualCluster(tmp_path, seed)
    monkeypatch.setattr(clock, "now_ms", cluster.loop.now_ms)
    monkeypatch.setattr(clock, "steady_ms", cluster.loop.now_ms)
    monkeypatch.setattr(fetcher, "monotonic", cluster.loop.time)
    monkeypatch.setattr(turns, "monotonic", lambda: 0.0)
    cluster.live(faults=12)
    assert not cluster.violations, "\n".join(cluster.log)
    assert all(client.acked for client in cluster.clients)
