"""G4, G5, G7 and G9: what groups refuse, and what they never forget."""

import pytest

from tests.support.broker_process import BrokerProcess
from tests.support.committing_clients import BY, NO_EPOCH
from tests.support.group_members import wait_until
from tests.support.group_wire import (
    WireMember,
    committed_line,
    described,
    find_coordinator,
    wait_for_state,
)
from tests.support.partition_client import create_topic

SETTINGS = (
    "group.initial.rebalance.delay.ms=0",
    "offsets.topic.num.partitions=3",
    "group.max.size=2",
    "group.min.session.timeout.ms=5000",
    "group.max.session.timeout.ms=20000",
)
ENDINGS = pytest.mark.parametrize("ending", ["stop", "kill"])


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    data_dir = tmp_path_factory.mktemp("groups") / "logs"
    with BrokerProcess(data_dir, *SETTINGS).start() as running:
        find_coordinator(running.address)
        yield running


@pytest.fixture
def group(request):
    return request.node.name


def join_together(present, new):
    """One that leads the group, and one that is new to it."""
    new.ask_to_join()
    wait_for_state(present.address, present.group, "PreparingRebalance")
    assert present.join() == "NONE"
    assert new.joined() == "NONE"


def test_g4_an_old_generation_commits_nothing(broker, new_topic, group):
    topic = new_topic()
    with WireMember(broker.address, group) as old, WireMember(broker.address, group) as new:
        old.join()
        old.sync()
        assert old.commit(topic, 5) == "NONE"
        generation = old.generation
        join_together(old, new)
        old.sync()
        new.sync()
        old.generation = generation
        assert old.commit(topic, 99) == "ILLEGAL_GENERATION"
        assert committed_line(broker.address, group, topic)[0] == 5
        assert new.commit(topic, 6) == "NONE"
        assert committed_line(broker.address, group, topic)[0] == 6


def test_g4_nor_does_somebody_who_is_no_member(broker, new_topic, group):
    topic = new_topic()
    with WireMember(broker.address, group) as member, WireMember(broker.address, group) as other:
        member.join()
        member.sync()
        assert other.commit(topic, 99) == "UNKNOWN_MEMBER_ID"
        other.id, other.generation = "stranger", member.generation
        assert other.commit(topic, 99) == "UNKNOWN_MEMBER_ID"
        assert committed_line(broker.address, group, topic)[0] == -1


@ENDINGS
def test_g5_the_last_commit_is_there_after_a_restart_with_all_that_was_said(
    broker, new_topic, group, ending
):
    topic = new_topic()
    with WireMember(broker.address, group) as member:
        for number in range(50):
            told = {"metadata": f"half of {number}", "epoch": number}
            assert member.commit(topic, number, **told) == "NONE"
    getattr(broker, ending)()
    broker.start()
    find_coordinator(broker.address, group)
    assert committed_line(broker.address, group, topic) == (49, "half of 49", 49)


@ENDINGS
def test_g5_every_client_finds_what_it_has_committed_and_said(broker, new_topic, group, ending):
    topic, said = new_topic(), {}
    for number, (library, committed_by) in enumerate(BY.items()):
        epoch = NO_EPOCH if library == "aiokafka" else number
        for offset in (3, 5 + number):
            said[library] = (offset, f"{library} at {offset}", epoch)
            committed_by(broker.address, f"{group}-{library}", topic, said[library])
    getattr(broker, ending)()
    broker.start()
    for library, committed_by in BY.items():
        find_coordinator(broker.address, f"{group}-{library}")
        assert committed_by(broker.address, f"{group}-{library}", topic) == said[library]


@ENDINGS
def test_g5_members_and_their_assignments_are_there_too(broker, group, ending):
    with (
        WireMember(broker.address, group) as first,
        WireMember(broker.address, group, instance="one") as second,
    ):
        first.join()
        first.sync()
        join_together(first, second)
        first.sync()
        before = described(broker.address, group)
    getattr(broker, ending)()
    broker.start()
    find_coordinator(broker.address, group)
    assert described(broker.address, group) == before


def test_g5_compaction_takes_no_offset_away(tmp_path):
    settings = (
        "offsets.topic.num.partitions=1",
        "offsets.topic.segment.bytes=20000",
        "log.cleaner.backoff.ms=50",
        "log.initial.task.delay.ms=0",
        "log.cleaner.min.cleanable.ratio=0.01",
    )
    with BrokerProcess(tmp_path / "logs", *settings).start() as broker:
        find_coordinator(broker.address)
        create_topic(broker.address, "t", partitions=1)
        with WireMember(broker.address, "g") as often, WireMember(broker.address, "h") as once:
            once.commit("t", 1, metadata="once")
            for number in range(1000):
                assert often.commit("t", number, metadata=f"{number}") == "NONE"
        folder = broker.data_dir / "__consumer_offsets-0"
        wait_until(lambda: sum(path.stat().st_size for path in folder.glob("*.log")) < 50_000)
        broker.kill()
        broker.start()
        find_coordinator(broker.address)
        assert committed_line(broker.address, "g", "t")[:2] == (999, "999")
        assert committed_line(broker.address, "h", "t")[:2] == (1, "once")


def test_g7_of_two_with_one_instance_id_the_newest_wins(broker, new_topic, group):
    topic = new_topic()
    with (
        WireMember(broker.address, group, instance="one") as old,
        WireMember(broker.address, group, instance="one") as new,
    ):
        old.join()
        _, part = old.sync()
        assert new.join() == "NONE"
        assert new.sync() == ("NONE", part)
        assert old.heartbeat() == "FENCED_INSTANCE_ID"
        assert old.commit(topic, 99) == "FENCED_INSTANCE_ID"
        assert old.sync()[0] == "FENCED_INSTANCE_ID"
        assert old.join() == "FENCED_INSTANCE_ID"
        assert old.leave() == "FENCED_INSTANCE_ID"
        assert new.heartbeat() == "NONE"
        assert new.commit(topic, 5) == "NONE"


def test_g7_one_that_waits_to_join_is_told_so_at_once(broker, group):
    with (
        WireMember(broker.address, group) as leader,
        WireMember(broker.address, group, instance="one") as old,
        WireMember(broker.address, group, instance="one") as new,
    ):
        leader.join()
        leader.sync()
        old.ask_to_join()
        wait_for_state(broker.address, group, "PreparingRebalance")
        new.ask_to_join()
        assert old.joined() == "FENCED_INSTANCE_ID"
        assert leader.join() == "NONE"
        assert new.joined() == "NONE"


@pytest.mark.parametrize(
    ("session_ms", "error"),
    [
        (4999, "INVALID_SESSION_TIMEOUT"),
        (5000, "NONE"),
        (20000, "NONE"),
        (20001, "INVALID_SESSION_TIMEOUT"),
    ],
)
def test_g9_sessions_are_within_bounds(broker, group, session_ms, error):
    with WireMember(broker.address, group) as member:
        assert member.join(session_ms=session_ms) == error


def test_g9_a_full_group_takes_nobody_else(broker, group):
    with (
        WireMember(broker.address, group) as first,
        WireMember(broker.address, group) as second,
        WireMember(broker.address, group) as third,
    ):
        first.join()
        first.sync()
        join_together(first, second)
        first.sync()
        second.sync()
        assert third.join() == "GROUP_MAX_SIZE_REACHED"
        assert (first.heartbeat(), second.heartbeat()) == ("NONE", "NONE")
        assert second.leave() == "NONE"
        join_together(first, third)
