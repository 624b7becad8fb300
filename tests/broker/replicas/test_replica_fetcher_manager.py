"""Which connection fetches what, while leaders come, go and move."""

import asyncio

from odradek.broker.metadata.picture import Node
from odradek.broker.replicas.fetcher import Ground
from odradek.broker.replicas.fetchers import Fetchers
from odradek.broker.replicas.throttles import Rate, Throttle
from odradek.broker.settings.replication import ReplicationSettings
from tests.support.hosted_partitions import Hosting
from tests.support.logs import NOW_MS
from tests.support.loops import at_end

LEADER = 9
BACKOFF_MS = 10


class Silence:
    """To a leader that answers nothing."""

    def __init__(self):
        self.asked = asyncio.get_running_loop().create_future()
        self.is_closed = asyncio.Event()

    async def send(self, request, *, version):
        if not self.asked.done():
            self.asked.set_result(request)
        await self.is_closed.wait()
        raise ConnectionResetError("closed")

    def close(self):
        self.is_closed.set()


class Scene:
    """A broker that follows partitions of one leader."""

    def __init__(self, path, *, port=1):
        self.hosting = Hosting(path)
        self.connections = []
        self.known = {}
        self.settings = ReplicationSettings(fetch_backoff_ms=BACKOFF_MS)
        ground = Ground(
            broker_id=1,
            logs=self.hosting.logs,
            care=self.hosting.care,
            settings=lambda: self.settings,
            broker_epoch=lambda: 1,
            now_ms=lambda: NOW_MS,
            throttle=Throttle(Rate(windows=11, window_s=1)),
        )
        self.fetchers = Fetchers(
            ground,
            self,
            listener="INSIDE",
            connect=self._connect,
            start=self.hosting.background.start,
        )
        self.leader_is_at(port)
        at_end(self._close)

    async def _close(self):
        self.fetchers.close()

    def nodes(self, listener):
        return self.known

    def _connect(self, node):
        self.connections.append(Silence())
        return self.connections[-1]

    def leader_is_at(self, port):
        """None is nowhere."""
        self.known = {} if port is None else {LEADER: Node(LEADER, "leader", port, None)}
        self.fetchers.picture_changed()

    def fetch_by(self, count):
        """So many connections to each leader; those that are new."""
        known = len(self.connections)
        self.settings = ReplicationSettings(fetch_backoff_ms=BACKOFF_MS, fetchers=count)
        self.fetchers.settings_changed(self.settings)
        return self.connections[known:]

    @property
    def open(self):
        return [each for each in self.connections if not each.is_closed.is_set()]

    def follow(self, partition=0):
        followed = self.hosting.lead(partition=partition, leader=LEADER, replicas=(1, LEADER))
        self.fetchers.follow(followed)
        return followed.topic_partition


async def numbers_asked(connection):
    request = await connection.asked
    return [each.partition for topic in request.topics for each in topic.partitions]


async def test_what_had_no_leader_and_what_had_are_fetched_where_it_is_now(tmp_path):
    scene = Scene(tmp_path)
    scene.follow(0)
    scene.leader_is_at(None)
    scene.follow(1)
    scene.leader_is_at(2)
    old, new = scene.connections
    assert old.is_closed.is_set()
    assert await numbers_asked(new) == [0, 1]


async def test_a_leader_of_nothing_is_not_connected_to_any_more(tmp_path):
    scene = Scene(tmp_path)
    scene.fetchers.forget(scene.follow())
    (connection,) = scene.connections
    assert connection.is_closed.is_set()


async def test_nothing_is_fetched_by_a_broker_that_stops(tmp_path):
    scene = Scene(tmp_path)
    followed = scene.follow(0)
    scene.fetchers.close()
    (connection,) = scene.connections
    assert connection.is_closed.is_set()
    scene.fetchers.forget(followed)  # its directory has failed, for example
    scene.follow(1)
    assert len(scene.connections) == 1


async def shares(connections):
    """What each is first asked for, in the order of its first."""
    return sorted([await numbers_asked(each) for each in connections])


async def test_partitions_of_a_leader_are_shared_among_as_many_connections_as_there_may_be(
    tmp_path,
):
    scene = Scene(tmp_path)
    assert scene.fetch_by(2) == []
    for number in range(8):
        scene.follow(number)
    assert await shares(scene.open) == [[0, 2, 4, 6], [1, 3, 5, 7]]


async def test_more_connections_take_over_some_of_what_is_followed(tmp_path):
    scene = Scene(tmp_path)
    followed = [scene.follow(number) for number in range(8)]
    (first,) = scene.connections
    assert await numbers_asked(first) == [*range(8)]
    (second,) = scene.fetch_by(2)
    assert await numbers_asked(second) in ([0, 2, 4, 6], [1, 3, 5, 7])
    # One of four is what the first has kept; which one depends on the topic's hash.
    new = await shares(scene.fetch_by(4))
    assert new in ([[0, 4], [1, 5]], [[1, 5], [2, 6]], [[2, 6], [3, 7]], [[0, 4], [3, 7]])
    assert len(scene.open) == 4
    for each in followed:
        scene.fetchers.forget(each)
    assert scene.open == []


async def test_fewer_connections_lose_nothing_that_is_followed(tmp_path):
    scene = Scene(tmp_path)
    scene.fetch_by(4)
    followed = [scene.follow(number) for number in range(8)]
    assert len(scene.open) == 4
    assert scene.fetch_by(1) == []
    (left,) = scene.open
    scene.leader_is_at(2)
    (again,) = scene.open
    assert left.is_closed.is_set()
    assert sorted(await numbers_asked(again)) == [*range(8)]
    for each in followed:
        scene.fetchers.forget(each)
    assert scene.open == []
