"""G1, G2, G3, G6 and G8: groups of real consumers, under churn, restarts and pauses."""

import pytest

from tests.support.broker_process import BrokerProcess
from tests.support.group_members import (
    PARTITIONS,
    SETTINGS,
    check_commits,
    check_none_skipped,
    is_all_committed,
    members,
    places_of,
    send,
    share,
    wait_until,
)
from tests.support.group_wire import WireMember, committed, described
from tests.support.member_consumer import LIBRARIES

__all__ = ["members"]

SIZE = 3
ROUNDS = 3
#: What becomes of commits by those who are not members any more.
REFUSALS = {"UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    data_dir = tmp_path_factory.mktemp("groups") / "logs"
    with BrokerProcess(data_dir, *SETTINGS).start() as running:
        yield running


@pytest.mark.parametrize(
    ("kind", "library"),
    [
        *((kind, "confluent") for kind in ("range", "roundrobin", "cooperative", "static")),
        ("sticky", "aiokafka"),  # confluent-kafka has it as a cooperative one only
    ],
)
def test_g1_chained_groups_under_churn_let_every_record_through(
    broker, new_topic, members, kind, library
):
    raw, refined = new_topic(partitions=PARTITIONS), new_topic(partitions=PARTITIONS)
    assignor = "range" if kind == "static" else kind

    def worker(stage, number):
        more = {"topics": [raw], "copy_to": refined} if stage == "raw" else {"topics": [refined]}
        instance = f"{stage}-{number}" if kind == "static" else None
        group = f"{kind}-{stage}"
        return members(library, group=group, assignor=assignor, instance=instance, **more)

    present = {stage: [worker(stage, n) for n in range(SIZE)] for stage in ("raw", "refined")}
    everybody, values = [each for some in present.values() for each in some], []
    for number in range(ROUNDS):
        values += send(broker.address, raw, 60, first=60 * number)
        for stage, some in present.items():
            some[number % SIZE].close()
            some[number % SIZE] = worker(stage, number % SIZE)
            everybody.append(some[number % SIZE])
    wait_until(is_all_committed(broker, f"{kind}-raw", len(values)))
    readers = [each for each in everybody if each.options.topics == [refined]]
    check_none_skipped(readers, values)
    refusals = [event["error"] for each in everybody for event in each.happened("refused")]
    assert "UNKNOWN_MEMBER_ID" not in refusals, refusals
    wait_until(lambda: share(present["refined"], places_of(refined, PARTITIONS)))


@pytest.mark.parametrize("ending", ["stop", "kill"])
def test_g2_a_bounce_shorter_than_the_session_costs_no_rebalance(
    broker, new_topic, members, ending
):
    """Whether they are static or not: the group is loaded as it was."""
    topic, group = new_topic(partitions=PARTITIONS), f"bounced-by-{ending}"
    options = {"group": group, "topics": [topic], "session_ms": 30_000}
    everybody = [
        members("confluent", **options),
        members("aiokafka", **options),
        members("confluent", instance="one", **options),
        members("aiokafka", instance="two", **options),
    ]
    places = places_of(topic, PARTITIONS)
    wait_until(lambda: share(everybody, places) and all(each.assignment for each in everybody))
    before, ids = [each.rebalances for each in everybody], member_ids(broker, group)
    values = send(broker.address, topic, 60)
    wait_until(is_all_committed(broker, group, 60))
    for number in (1, 2):
        getattr(broker, ending)()
        broker.start()
        values += send(broker.address, topic, 60, first=60 * number)
        wait_until(is_all_committed(broker, group, 60 * (number + 1)))
    assert [each.rebalances for each in everybody] == before
    assert member_ids(broker, group) == ids
    check_none_skipped(everybody, values)
    consumed = sorted(value for each in everybody for _, _, value in each.records)
    assert consumed == sorted(values), "each record once: nobody's position was lost"
    check_commits(everybody)


def member_ids(broker, group):
    return {each.member_id for each in described(broker.address, group).members}


def test_g3_no_partition_has_two_owners_and_when_stable_each_has_one(broker, new_topic, members):
    topic, group = new_topic(partitions=PARTITIONS), "owners"
    options = {"group": group, "topics": [topic], "session_ms": 6_000}
    places, everybody, values = places_of(topic, PARTITIONS), [], []
    for number, library in enumerate(LIBRARIES):
        everybody.append(members(library, **options))
        values += send(broker.address, topic, 60, first=60 * number)
        wait_until(lambda: share(everybody, places) and everybody[-1].assignment)
    left = [*everybody]
    for number in range(2):
        left.pop(0).close()
        values += send(broker.address, topic, 60, first=180 + 60 * number)
        wait_until(lambda: share(left, places))
    wait_until(is_all_committed(broker, group, len(values)))
    check_commits(everybody)
    check_none_skipped(everybody, values)


@pytest.mark.parametrize("library", LIBRARIES)
def test_g6_a_static_member_that_comes_back_in_time_has_what_it_had(
    broker, new_topic, members, library
):
    topic, group = new_topic(partitions=PARTITIONS), f"static-{library}"
    options = {"group": group, "topics": [topic], "session_ms": 20_000}
    witness = members("confluent", instance="witness", **options)
    old = members(library, instance="one", **options)
    places = places_of(topic, PARTITIONS)
    wait_until(lambda: share([witness, old], places) and old.assignment and witness.assignment)
    before, rebalances = old.assignment, witness.rebalances
    old.kill()
    new = members(library, instance="one", **options)
    new.wait_until(lambda: new.assignment == before)
    values = send(broker.address, topic, 60)
    wait_until(is_all_committed(broker, group, 60))
    assert witness.rebalances == rebalances
    check_none_skipped([witness, new], values)


@pytest.mark.parametrize("library", LIBRARIES)
def test_g8_a_member_that_pauses_past_its_session_is_out_and_commits_nothing(
    broker, new_topic, members, library
):
    topic, group = new_topic(partitions=PARTITIONS), f"paused-{library}"
    options = {"group": group, "topics": [topic], "session_ms": 6_000}
    paused, other = members(library, **options), members("confluent", **options)
    places = places_of(topic, PARTITIONS)
    wait_until(lambda: share([paused, other], places) and paused.assignment and other.assignment)
    (_, partition), *_ = paused.assignment
    ids = member_ids(broker, group)
    paused.pause()
    values = send(broker.address, topic, 60)
    other.wait_until(lambda: share([other], places))
    wait_until(is_all_committed(broker, group, 60))
    (gone,) = ids - member_ids(broker, group)
    before = committed(broker.address, group)

    # Nobody else comes: so it cannot be a member again before it has committed.
    other.pause()
    paused.order("commit", topic, partition, 99)
    paused.resume()
    paused.wait_until(lambda: paused.happened("refused") or paused.happened("committed"))
    assert [event["error"] in REFUSALS for event in paused.happened("refused")] == [True]
    with WireMember(broker.address, group) as same:
        same.id, same.generation = gone, 1
        assert same.commit(topic, 99) == "UNKNOWN_MEMBER_ID"
    assert committed(broker.address, group) == before

    other.resume()
    values += send(broker.address, topic, 60, first=60)
    wait_until(is_all_committed(broker, group, 120))
    check_commits([paused, other])
    check_none_skipped([paused, other], values)
