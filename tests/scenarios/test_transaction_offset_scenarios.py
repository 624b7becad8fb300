"""T12: offsets that are committed plainly and in transactions, at once, are those of the log."""

from contextlib import ExitStack
from random import Random

import pytest

from tests.support.broker_process import BrokerProcess
from tests.support.crash_rounds import seeds
from tests.support.group_members import wait_until
from tests.support.group_wire import WireMember, commit_briefly, committed, find_coordinator
from tests.support.transaction_wire import WireProducer, stable_offset

SETTINGS = (
    "offsets.topic.num.partitions=1",
    "transaction.state.log.num.partitions=1",
    "offsets.retention.check.interval.ms=50",
)
PRODUCERS, TOPICS, STEPS = 3, 3, 150


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    data_dir = tmp_path_factory.mktemp("offsets") / "logs"
    with BrokerProcess(data_dir, *SETTINGS).start() as running:
        find_coordinator(running.address)
        yield running


def restart(broker, ending):
    getattr(broker, ending)()
    broker.start()
    find_coordinator(broker.address)


@pytest.mark.parametrize("ending", ["stop", "kill"])
@pytest.mark.parametrize("seed", seeds(2))
def test_t12_offsets_committed_both_ways_are_the_same_after_a_restart(
    broker, new_topic, seed, ending
):
    random, group = Random(seed), f"raced-{seed}-{ending}"
    topics = [new_topic() for _ in range(TOPICS)]
    expected, pending = {}, [{} for _ in range(PRODUCERS)]
    with ExitStack() as stack:
        plain = stack.enter_context(WireMember(broker.address, group))
        producers = [
            stack.enter_context(WireProducer(broker.address, f"{group}-{number}"))
            for number in range(PRODUCERS)
        ]
        for producer in producers:
            producer.init()
        for offset in range(STEPS):
            topic, number = random.choice(topics), random.randrange(PRODUCERS)
            what = random.choice(["plain", "transactional", "transactional", "commit", "abort"])
            if what == "plain":
                assert plain.commit(topic, offset) == "NONE"
                expected[topic, 0] = offset
            elif what == "transactional":
                producers[number].commit_offset(group, topic, offset)
                pending[number][topic, 0] = offset
            elif pending[number]:
                getattr(producers[number], what)()
                if what == "commit":
                    later(expected, pending[number])
                pending[number] = {}
        before = committed(broker.address, group)
        is_open = {place for each in pending for place in each}
        assert is_open, "or nothing is open at the end"
    assert before == expected
    restart(broker, ending)
    assert committed(broker.address, group) == before
    for topic in topics:
        seen = stable_offset(broker.address, group, topic)
        is_stable = (topic, 0) not in is_open
        assert seen == (expected.get((topic, 0), -1) if is_stable else "UNSTABLE_OFFSET_COMMIT")


def later(expected, offsets):
    """Of two commits the one that was written last counts, whenever its transaction ends."""
    for place, offset in offsets.items():
        expected[place] = max(offset, expected.get(place, -1))


@pytest.mark.parametrize("ending", ["stop", "kill"])
@pytest.mark.parametrize("is_committed", [True, False], ids=["committed", "aborted"])
def test_t12_an_offset_that_expires_in_an_open_transaction_is_the_same_after_a_restart(
    broker, new_topic, is_committed, ending
):
    topic, witness = new_topic(), new_topic()
    group = f"expiring-{is_committed}-{ending}"
    with WireProducer(broker.address, group) as producer:
        producer.init()
        for each in (topic, witness):
            commit_briefly(broker.address, group, each, 1)
        producer.commit_offset(group, topic, 2)
        wait_until(lambda: (witness, 0) not in committed(broker.address, group))
        (producer.commit if is_committed else producer.abort)()
        if is_committed:
            assert committed(broker.address, group)[topic, 0] == 2
    if not is_committed:
        wait_until(lambda: not committed(broker.address, group))
    before = committed(broker.address, group)
    restart(broker, ending)
    assert committed(broker.address, group) == before
