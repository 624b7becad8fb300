"""Which connection fetches which partition while leaders appear, disappear and move."""

import asyncio

from odradek.broker.metadata.metadata_snapshot import Node
from odradek.broker.replicas.replica_fetcher import FetcherContext
from odradek.broker.replicas.replica_fetcher_manager import ReplicaFetcherManager
from odradek.broker.replicas.replication_quota_manager import RateQuota, ReplicationQuotaManager
from odradek.broker.settings.replication import ReplicationSettings
from tests.support.hosted_partitions import Hosting
from tests.support.logs import NOW_MS
from tests.support.loops import at_end

LEADER = 9
BACKOFF_MS = 10


class SilentConnection:
    """A connection to a leader that never responds."""

    def __init__(self):
        self.first_request = asyncio.get_running_loop().create_future()
        self.is_closed = asyncio.Event()

    async def send(self, request, *, version):
        if not self.first_request.done():
            self.first_request.set_result(request)
        await self.is_closed.wait()
        raise ConnectionResetError("closed")

    def close(self):
        self.is_closed.set()


class Scene:
    """A broker that follows partitions of one leader."""

    def __init__(self, path, *, port=1):
        self.hosting = Hosting(path)
        self.connections = []
        self.live_nodes = {}
        self.settings = ReplicationSettings(fetch_backoff_ms=BACKOFF_MS)
        context = FetcherContext(
            broker_id=1,
            log_manager=self.hosting.logs,
            log_maintenance=self.hosting.care,
            settings=lambda: self.settings,
            broker_epoch=lambda: 1,
            now_ms=lambda: NOW_MS,
            follower_quota=ReplicationQuotaManager(RateQuota(windows=11, window_s=1)),
        )
        self.fetchers = ReplicaFetcherManager(
            context,
            self,
            listener="INSIDE",
            create_client=self._connect,
            start_task=self.hosting.background.start,
        )
        self.set_leader_port(port)
        at_end(self._close)

    async def _close(self):
        self.fetchers.close()

    def nodes(self, listener):
        return self.live_nodes

    def _connect(self, node):
        self.connections.append(SilentConnection())
        return self.connections[-1]

    def set_leader_port(self, port):
        """Move the leader to a port; None takes it offline."""
        self.live_nodes = {} if port is None else {LEADER: Node(LEADER, "leader", port, None)}
        self.fetchers.on_metadata_change()

    def set_fetcher_count(self, count):
        """Set the number of fetchers per leader and return the new connections."""
        before = len(self.connections)
        self.settings = ReplicationSettings(fetch_backoff_ms=BACKOFF_MS, num_replica_fetchers=count)
        self.fetchers.on_settings_change(self.settings)
        return self.connections[before:]

    @property
    def open(self):
        return [each for each in self.connections if not each.is_closed.is_set()]

    def follow(self, partition=0):
        followed = self.hosting.lead(partition=partition, leader=LEADER, replicas=(1, LEADER))
        self.fetchers.add_partition(followed)
        return followed.topic_partition


async def requested_partitions(connection):
    request = await connection.first_request
    return [each.partition for topic in request.topics for each in topic.partitions]


async def test_partitions_are_fetched_from_the_new_address_of_their_leader(tmp_path):
    scene = Scene(tmp_path)
    scene.follow(0)
    scene.set_leader_port(None)
    scene.follow(1)
    scene.set_leader_port(2)
    old, new = scene.connections
    assert old.is_closed.is_set()
    assert await requested_partitions(new) == [0, 1]


async def test_connection_to_a_leader_without_partitions_is_closed(tmp_path):
    scene = Scene(tmp_path)
    scene.fetchers.remove_partition(scene.follow())
    (connection,) = scene.connections
    assert connection.is_closed.is_set()


async def test_closed_manager_fetches_nothing(tmp_path):
    scene = Scene(tmp_path)
    followed = scene.follow(0)
    scene.fetchers.close()
    (connection,) = scene.connections
    assert connection.is_closed.is_set()
    scene.fetchers.remove_partition(followed)  # its directory has failed, for example
    scene.follow(1)
    assert len(scene.connections) == 1


async def partitions_by_connection(connections):
    """Return the partitions of each connection's first request, sorted."""
    return sorted([await requested_partitions(each) for each in connections])


async def test_partitions_of_a_leader_are_spread_over_num_replica_fetchers_connections(
    tmp_path,
):
    scene = Scene(tmp_path)
    assert scene.set_fetcher_count(2) == []
    for number in range(8):
        scene.follow(number)
    assert await partitions_by_connection(scene.open) == [[0, 2, 4, 6], [1, 3, 5, 7]]


async def test_added_fetchers_take_over_some_partitions(tmp_path):
    scene = Scene(tmp_path)
    followed = [scene.follow(number) for number in range(8)]
    (first,) = scene.connections
    assert await requested_partitions(first) == [*range(8)]
    (second,) = scene.set_fetcher_count(2)
    assert await requested_partitions(second) in ([0, 2, 4, 6], [1, 3, 5, 7])
    # The first connection keeps one quarter; the topic's hash decides which.
    new = await partitions_by_connection(scene.set_fetcher_count(4))
    assert new in ([[0, 4], [1, 5]], [[1, 5], [2, 6]], [[2, 6], [3, 7]], [[0, 4], [3, 7]])
    assert len(scene.open) == 4
    for each in followed:
        scene.fetchers.remove_partition(each)
    assert scene.open == []


async def test_no_partition_is_lost_when_the_number_of_fetchers_shrinks(tmp_path):
    scene = Scene(tmp_path)
    scene.set_fetcher_count(4)
    followed = [scene.follow(number) for number in range(8)]
    assert len(scene.open) == 4
    assert scene.set_fetcher_count(1) == []
    (remaining,) = scene.open
    scene.set_leader_port(2)
    (reconnected,) = scene.open
    assert remaining.is_closed.is_set()
    assert sorted(await requested_partitions(reconnected)) == [*range(8)]
    for each in followed:
        scene.fetchers.remove_partition(each)
    assert scene.open == []
