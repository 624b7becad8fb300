"""A follower of many partitions asks again and again, and few of them are looked at."""

from types import SimpleNamespace

import pytest

from odradek.broker.fetching.partition_reading import PartitionReading
from odradek.protocol.api.fetch import FetchRequest
from tests.support.fetches import FetchBench, append, asked, errors, numbers, request
from tests.support.hosted_partitions import BROKER

FOLLOWER, COUNT = 2, 5
LAG_MS = 1000


class Scene(FetchBench):
    """Broker 1 leads partitions with a record each, and a follower has a session of all."""

    def __init__(self, path):
        super().__init__(path)
        self.proposed = []
        self.hosting.replicas.in_sync = SimpleNamespace(
            now_ms=lambda: self.now_ms,
            lag_max_ms=LAG_MS,
            propose=lambda partition, _: self.proposed.append(partition.topic_partition.partition),
            is_eligible=lambda replica_id: True,
        )
        both = (BROKER, FOLLOWER)
        self.partitions = [self.lead(each, replicas=both) for each in range(COUNT)]
        for partition in self.partitions:
            append(partition)
        self.session_id, self.epoch = 0, 0
        everything = [asked(each, 1, log_start_offset=0) for each in range(COUNT)]
        self.session_id = self.ask(*everything).session_id
        for _ in range(2):  # by the first the watermarks move, and by the second it hears of that
            self.ask()

    def ask(self, *changed, replica_epoch=-1, **fields):
        wanted = request(
            *changed,
            session_id=self.session_id,
            session_epoch=self.epoch,
            replica_state=FetchRequest.ReplicaState(
                replica_id=FOLLOWER, replica_epoch=replica_epoch
            ),
            **fields,
        )
        self.epoch += 1
        response = self.fetched(wanted)
        assert response.error_code == 0
        return response

    def laggards(self):
        for partition in self.partitions:
            partition.look_for_laggards()
        found, self.proposed = self.proposed, []
        return found


@pytest.fixture
def looked_at(monkeypatch):
    """The numbers of partitions that were."""
    line_of, numbers = PartitionReading.line_of, []

    def counted(reading, wanted, *limits, **options):
        numbers.append(wanted.asked.partition)
        return line_of(reading, wanted, *limits, **options)

    monkeypatch.setattr(PartitionReading, "line_of", counted)
    return numbers


async def test_those_of_which_there_is_nothing_new_are_passed_over(tmp_path, looked_at):
    scene = Scene(tmp_path)
    looked_at.clear()
    assert not scene.ask().responses
    assert looked_at == []
    append(scene.partitions[3])
    assert list(numbers(scene.ask())) == [3]
    assert looked_at == [3]
    scene.ask(asked(3, 2, log_start_offset=0))
    assert scene.partitions[3].high_watermark.value == 2


async def test_a_follower_that_asks_keeps_up_with_those_too(tmp_path):
    scene = Scene(tmp_path)
    scene.now_ms += 10 * LAG_MS
    scene.ask()
    for partition in scene.partitions:
        append(partition)
    scene.now_ms += LAG_MS
    assert scene.laggards() == []
    scene.now_ms += 1
    assert scene.laggards() == [0, 1, 2, 3, 4]


async def test_one_that_has_not_asked_for_long_is_out_of_sync_with_what_grows(tmp_path):
    scene = Scene(tmp_path)
    scene.now_ms += 10 * LAG_MS
    assert scene.laggards() == []  # it has all
    append(scene.partitions[1])
    assert scene.laggards() == [1]


async def test_what_is_forgotten_is_not_kept_up_with(tmp_path):
    scene = Scene(tmp_path)
    forgotten = FetchRequest.ForgottenTopic(topic="events", partitions=[4])
    scene.ask(forgotten_topics_data=[forgotten])
    scene.now_ms += 10 * LAG_MS
    scene.ask()
    for partition in scene.partitions:
        append(partition)
    assert scene.laggards() == [4]


async def test_another_life_of_the_follower_is_noted(tmp_path):
    scene = Scene(tmp_path)
    scene.ask(replica_epoch=30)
    assert {each.leader.broker_epoch_of(FOLLOWER) for each in scene.partitions} == {30}


async def test_a_new_leader_epoch_is_told_of(tmp_path):
    scene = Scene(tmp_path)
    scene.lead(2, replicas=(BROKER, FOLLOWER), epoch=1)
    scene.ask()
    assert scene.partitions[2].leader.followers[FOLLOWER].end_offset == 1
    scene.lead(2, leader=FOLLOWER, replicas=(BROKER, FOLLOWER), epoch=2)
    assert errors(scene.ask()) == ["NOT_LEADER_OR_FOLLOWER"]


async def test_what_it_is_told_nothing_of_is_not_kept_up_with(tmp_path):
    scene = Scene(tmp_path)
    append(scene.partitions[4])
    failing = asked(4, 1, log_start_offset=0, current_leader_epoch=7)
    assert errors(scene.ask(failing)) == ["UNKNOWN_LEADER_EPOCH"]
    scene.now_ms += 10 * LAG_MS
    scene.ask()
    assert scene.laggards() == [4]


async def test_what_was_told_in_an_epoch_that_is_over_is_told_again(tmp_path):
    """The follower had heard of the next one before the answer came, and took nothing of it."""
    scene = Scene(tmp_path)
    scene.lead(0, epoch=1, replicas=(BROKER, FOLLOWER))
    response = scene.ask(asked(0, 1, log_start_offset=0, current_leader_epoch=1))
    assert list(numbers(response)) == [0]
