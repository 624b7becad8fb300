"""T1 and G5 on three brokers: copied in transactions, from where a group was, each record is once.

Coordinators of the group and of the transactions move with the partitions that they live in.

The copiers are aiokafka's: librdkafka (2.16), once a broker is gone from the metadata, may wait for
it for ever if it was the group's coordinator (rd_kafka_send_offsets_to_transaction).
"""

import time
from functools import partial
from random import Random

import pytest

from tests.support.cluster_faults import CUT_S, FAULTS, TARGETS, Fault, Kind, Target
from tests.support.copiers import CopierOptions, Crew
from tests.support.copy_run import CopyRun
from tests.support.crash_rounds import seeds, told
from tests.support.group_members import wait_until
from tests.support.group_readers import commit

PARTITIONS = 2
TIMEOUT_MS = 10_000
#: Where coordinators are.
HOMES = ("__consumer_offsets", "__transaction_state")
ROUNDS = 20
#: For so many to be copied, transactions must end.
SOME = 50


def copy_run(cluster, name):
    source, target = f"{name}-source", f"{name}-target"
    for topic in (source, target):
        cluster.create(topic, PARTITIONS)
    commit(cluster.addresses, name, {(source, number): 0 for number in range(PARTITIONS)})
    posts = [
        CopierOptions(
            group=name,
            source=source,
            target=target,
            transactional_id=f"{name}-{number}",
            timeout_ms=TIMEOUT_MS,
            abort_share=0.2,
            pause_s=0.01,
            partitions=[number],
        )
        for number in range(PARTITIONS)
    ]
    crew = Crew("aiokafka", cluster.addresses, posts)
    return CopyRun(cluster.addresses, [crew], partitions=PARTITIONS)


def copied_in_spite_of(cluster, name, faults):
    with copy_run(cluster, name) as run:
        for topic, fault in faults:
            with told(f"{fault} of {topic}"):
                wait_for_more(run)
                heal = fault.make(cluster, topic)
                try:
                    wait_while(fault, run)
                finally:
                    heal()
                for each in (f"{name}-target", *HOMES):
                    cluster.wait_until_whole(each)
        run.finish()
        run.check()


def wait_while(fault, run):
    """aiokafka waits for the answer of a broker that is paused, for longer than we do."""
    if fault.kind is Kind.PAUSE:
        time.sleep(CUT_S)
    else:
        fault.wait_while(partial(wait_for_more, run))


def wait_for_more(run):
    wanted = run.committed.count + SOME

    def is_copied():
        run.man()
        run.feed()
        return run.committed.count >= wanted

    wait_until(is_copied, or_else=lambda: run)


def test_t1_g5_copies_survive_their_coordinators(shared):
    killed, cut_off = Fault(Kind.KILL, Target.LEADER), Fault(Kind.ISOLATE, Target.LEADER)
    copied_in_spite_of(shared, "t1", zip(HOMES, (killed, cut_off), strict=True))


@pytest.mark.soak
@pytest.mark.parametrize("seed", seeds(1))
def test_t1_copies_survive_whatever_happens(shared, seed):
    random, name = Random(seed), f"t1-{seed}"
    topics = (*HOMES, f"{name}-target")
    faults = [
        (random.choice(topics), Fault(random.choice(FAULTS), random.choice(TARGETS)))
        for _ in range(ROUNDS)
    ]
    copied_in_spite_of(shared, name, faults)
