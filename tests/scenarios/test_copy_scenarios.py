"""T1, and G1 with transactions: whatever is killed, each record is copied exactly once."""

import time
from itertools import pairwise
from random import Random

import pytest

from tests.support.broker_process import BrokerProcess
from tests.support.copiers import CopierOptions, Crew
from tests.support.copy_run import CATCH_UP_S, CopyRun, wait_until_copying
from tests.support.crash_rounds import seeds, told
from tests.support.group_members import wait_until
from tests.support.group_readers import commit
from tests.support.partition_client import create_topic

SETTINGS = (
    "group.initial.rebalance.delay.ms=0",
    "group.min.session.timeout.ms=1000",
    "offsets.topic.num.partitions=2",
    "transaction.state.log.num.partitions=2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms=200",
)
PARTITIONS = 2
ROUNDS = 30
LIFE_S_MAX = 0.3
TIMEOUT_MS = 2_000
SIZE, CHURNS = 3, 3


def run_of(library, address):
    """Two copiers; of confluent's library they are members of a group, and keep their places."""
    source, target = f"{library}-source", f"{library}-target"
    for topic in (source, target):
        create_topic(address, topic, partitions=PARTITIONS, segment_bytes=20_000)
    commit(address, library, {(source, number): 0 for number in range(PARTITIONS)})
    posts = [
        CopierOptions(
            group=library,
            source=source,
            target=target,
            transactional_id=f"{library}-{number}",
            timeout_ms=TIMEOUT_MS,
            abort_share=0.2,
            pause_s=0.02,
            instance=f"{library}-{number}",
            session_ms=20_000,
            partitions=[number],
        )
        for number in range(PARTITIONS)
    ]
    return CopyRun(address, [Crew(library, address, posts)], partitions=PARTITIONS)


@pytest.mark.parametrize("seed", seeds(1))
def test_t1_what_is_copied_in_transactions_is_the_source_whoever_is_killed(tmp_path, seed):
    copied_under_kills(tmp_path, seed)


@pytest.mark.soak
@pytest.mark.parametrize("seed", seeds(20)[1:])
def test_t1_so_it_is_for_long(tmp_path, seed):
    copied_under_kills(tmp_path, seed)


def copied_under_kills(tmp_path, seed):
    random = Random(seed)
    with (
        told(f"seed {seed}"),
        BrokerProcess(tmp_path / "logs", *SETTINGS).start() as broker,
        run_of("confluent", broker.address) as by_members,
        run_of("aiokafka", broker.address) as by_owners,
    ):
        runs = (by_members, by_owners)
        dawdle(runs)
        for number in range(ROUNDS):
            for run in runs:
                run.man()
            wait_until_copying([random.choice(runs)])
            time.sleep(random.uniform(0, LIFE_S_MAX))
            if random.random() < 0.5:
                kill_somebody(random, runs, number)
            broker.kill()
            if random.random() < 0.2:
                kill_somebody(random, runs, number)
            broker.start()
        for run in runs:
            run.finish()
            run.check()
            assert run.crews[0].count("aborted") > 0
            wait_until(run.aborted_that_were_seen)
        assert "Traceback" not in broker.log_text


def dawdle(runs):
    """One of each takes longer for a transaction than it may, and learns that it is out."""
    slow = [run.crews[0].present[0] for run in runs]
    for copier in slow:
        copier.order("dawdle")
    deadline = time.monotonic() + CATCH_UP_S
    while not all(copier.happened("ended") for copier in slow):
        assert time.monotonic() < deadline, [copier.events[-3:] for copier in slow]
        for run in runs:
            run.feed()
        time.sleep(0.05)


def kill_somebody(random, runs, number):
    """Who comes next is sometimes somebody else, and what is open has to time out."""
    by_members, _ = runs
    (crew,) = random.choice(runs).crews
    which = random.randrange(len(crew.present))
    crew.present[which].kill()
    if crew is by_members.crews[0] and random.random() < 0.3:
        crew.rename(which, f"renamed-{number}-{which}")


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    data_dir = tmp_path_factory.mktemp("copies") / "logs"
    with BrokerProcess(data_dir, *SETTINGS).start() as running:
        yield running


@pytest.mark.parametrize("kind", ["range", "cooperative", "static"])
def test_g1_chained_groups_under_churn_copy_each_record_exactly_once(broker, kind):
    names = [f"{kind}-{name}" for name in ("raw", "refined", "pure")]
    for name in names:
        create_topic(broker.address, name, partitions=SIZE)
    crews = [
        Crew("confluent", broker.address, [post(kind, *both, number) for number in range(SIZE)])
        for both in pairwise(names)
    ]
    with CopyRun(broker.address, crews, partitions=SIZE) as run:
        for number in range(CHURNS):
            wait_until_copying([run])
            for crew in crews:
                crew.present[number % SIZE].close()
            run.man()
        run.finish()
        run.check()
    everybody = [copier for crew in crews for copier in crew.everybody]
    refusals = [event["error"] for each in everybody for event in each.happened("refused")]
    assert "UNKNOWN_MEMBER_ID" not in refusals, refusals
    assert not any(each.happened("ended") for each in everybody)


def post(kind, source, target, number):
    return CopierOptions(
        group=f"{source}-group",
        source=source,
        target=target,
        transactional_id=f"{source}-{number}",
        assignor="range" if kind == "static" else kind,
        instance=f"{source}-{number}" if kind == "static" else None,
    )
