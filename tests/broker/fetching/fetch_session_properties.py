"""An incremental client learns the same as a client that always sends full fetches."""

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.broker.fetching.dirty_partitions import FULL_SCAN_INTERVAL_MS
from odradek.protocol.api.fetch import FetchRequest
from tests.support.fetches import FetchBench, append, asked, lines, request, values
from tests.support.hosted_partitions import BROKER
from tests.support.loops import finish

OTHER_BROKER = 2
PARTITIONS = range(4)
A_PARTITION = st.sampled_from(PARTITIONS)

STEPS = st.one_of(
    st.tuples(st.just("append"), A_PARTITION, st.integers(1, 3)),
    st.tuples(st.just("delete"), A_PARTITION, st.integers(1, 3)),
    st.tuples(st.just("consume"), A_PARTITION, st.integers(0, 4)),
    st.tuples(st.just("lose"), A_PARTITION, st.just(0)),
    st.tuples(st.just("win"), A_PARTITION, st.just(0)),
    st.tuples(st.just("forget"), A_PARTITION, st.just(0)),
    st.tuples(st.just("add"), A_PARTITION, st.just(0)),
    st.tuples(st.just("fetch"), st.just(0), st.sampled_from([1, 200, 1 << 20])),
)


@dataclass
class PartitionState:
    """What a client knows of a partition."""

    high_watermark: int = -1
    start_offset: int = -1
    error_code: int = 0

    def update(self, partition_response):
        self.error_code = partition_response.error_code
        self.high_watermark = partition_response.high_watermark
        self.start_offset = partition_response.log_start_offset


class Client:
    """A client with a session, compared with one without."""

    def __init__(self, bench):
        self.bench = bench
        self.epoch = 0
        for index in PARTITIONS:
            bench.lead(index)
        self.partitions = {
            index: bench.hosting.replicas.partition("events", index) for index in PARTITIONS
        }
        self.leader_epochs = dict.fromkeys(PARTITIONS, 0)
        self.offsets = dict.fromkeys(PARTITIONS, 0)
        self.seen = {index: PartitionState() for index in PARTITIONS}
        self.changed = set(PARTITIONS)
        self.forgotten = {}
        self.session = 0
        self.fetch(1 << 20)

    def step(self, action, index, number):
        getattr(self, action)(number) if action == "fetch" else getattr(self, action)(index, number)

    def append(self, index, count):
        if self.partitions[index].leader_state is not None:
            append(self.partitions[index], *[b"v"] * count)

    def delete(self, index, count):
        log = self.partitions[index].log
        log.maybe_increment_log_start_offset(min(log.high_watermark, log.log_start_offset + count))
        self.bench.now_ms += FULL_SCAN_INTERVAL_MS  # this marks no partition dirty

    def consume(self, index, count):
        self.offsets[index] += count
        if index in self.seen:
            self.changed.add(index)

    def lose(self, index, _):
        self._become(index, leader=OTHER_BROKER, replicas=(OTHER_BROKER, BROKER))

    def win(self, index, _):
        self._become(index)

    def _become(self, index, **state):
        self.leader_epochs[index] += 1
        self.bench.lead(index, epoch=self.leader_epochs[index], **state)

    def forget(self, index, _):
        if index in self.seen and len(self.seen) > 1:
            self.forgotten[index] = self.seen.pop(index)
            self.changed.discard(index)

    def add(self, index, _):
        if index not in self.seen:
            # The client forgets a partition only when the broker is notified.
            self.seen[index] = self.forgotten.pop(index, PartitionState())
            self.changed.add(index)

    def fetch(self, max_bytes):
        fetch_request = request(
            *(asked(index, self.offsets[index]) for index in sorted(self.changed)),
            session_id=self.session,
            session_epoch=self.epoch,
            max_bytes=max_bytes,
        )
        forgotten_topic = FetchRequest.ForgottenTopic(
            topic="events", partitions=sorted(self.forgotten)
        )
        fetch_request.forgotten_topics_data = [forgotten_topic]
        response = self.bench.fetched(fetch_request, version=10)
        assert response.error_code == 0
        self.session, self.epoch = response.session_id, self.epoch + 1
        self.changed, self.forgotten = set(), {}
        for partition_response in lines(response):
            self.seen[partition_response.partition_index].update(partition_response)
        return {
            partition_response.partition_index: values(partition_response)
            for partition_response in lines(response)
        }

    def check_against_full_fetch(self):
        fetched = self.fetch(1 << 20)
        full_request = request(*(asked(index, self.offsets[index]) for index in self.seen))
        full = {
            partition_response.partition_index: partition_response
            for partition_response in lines(self.bench.fetched(full_request, version=10))
        }
        assert full.keys() == self.seen.keys()
        for index, partition_response in full.items():
            expected = PartitionState()
            expected.update(partition_response)
            assert self.seen[index] == expected, index
            assert fetched.get(index, []) == values(partition_response), index


def run(steps):
    async def run_steps():
        client = Client(FetchBench(Path(directory)))
        for step in steps:
            client.step(*step)
            if step[0] == "fetch":
                client.check_against_full_fetch()
        client.check_against_full_fetch()

    with TemporaryDirectory() as directory:
        finish(run_steps())


@settings(deadline=None, max_examples=80)
@given(st.lists(STEPS, max_size=25))
def test_incremental_client_learns_the_same_as_a_full_client(steps):
    run(steps)


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.integers(0, 4), min_size=4, max_size=4),
    st.integers(1, 400),
)
def test_small_responses_return_all_records_once_from_every_partition(counts, max_bytes):
    async def fetch_all():
        client = Client(FetchBench(Path(directory)))
        expected = {}
        for index, count in enumerate(counts):
            expected[index] = [b"%d" % number for number in range(count)]
            for value in expected[index]:
                append(client.partitions[index], value)
        received = {index: [] for index in PARTITIONS}
        for _ in range(sum(counts) + 1):
            for index, fetched in client.fetch(max_bytes).items():
                received[index] += fetched
                if fetched:
                    client.consume(index, len(fetched))
        assert received == expected

    with TemporaryDirectory() as directory:
        finish(fetch_all())
