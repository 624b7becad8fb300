"""T1, G5 and T4 on three brokers: whatever happens to them, a transaction is done once, and whole.

Copied in transactions, from where a group was, each record is there once; moved in transactions, no
money is made or lost.  Coordinators of the group and of the transactions move with the partitions
that they live in.

The copiers are aiokafka's: librdkafka (2.16), once a broker is gone from the metadata, may wait for
it for ever if it was the group's coordinator (rd_kafka_send_offsets_to_transaction).
"""

import time
from functools import partial
from random import Random

import pytest

from tests.support.bank_run import BankRun
from tests.support.cluster_faults import CUT_S, FAULTS, TARGETS, Fault, Kind, Target
from tests.support.copiers import CopierOptions, Crew
from tests.support.copy_run import CopyRun
from tests.support.crash_rounds import seeds, told
from tests.support.group_members import wait_until
from tests.support.group_readers import commit

PARTITIONS = 2
TIMEOUT_MS = 10_000
#: Where coordinators are.
HOMES = GROUPS, TRANSACTIONS = ("__consumer_offsets", "__transaction_state")
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
        endure(cluster, faults, partial(wait_for_more, run), (f"{name}-target", *HOMES))
        run.finish()
        run.check()


def endure(cluster, faults, wait_for_more, topics):
    """One fault after the other, of the leader of a topic; each time all goes on before and after.

    Most clients wait for the answer of a broker that is paused for longer than we do.
    """
    for topic, fault in faults:
        with told(f"{fault} of {topic}"):
            wait_for_more()
            heal = fault.make(cluster, topic)
            try:
                if fault.kind is Kind.PAUSE:
                    time.sleep(CUT_S)
                else:
                    fault.wait_while(wait_for_more)
            finally:
                heal()
            for each in topics:
                cluster.wait_until_whole(each)


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
    name = f"t1-{seed}"
    copied_in_spite_of(shared, name, faults_of(seed, *HOMES, f"{name}-target"))


def faults_of(seed, *topics):
    random = Random(seed)
    return [
        (random.choice(topics), Fault(random.choice(FAULTS), random.choice(TARGETS)))
        for _ in range(ROUNDS)
    ]


def moved_in_spite_of(cluster, name, faults):
    cluster.create(name, PARTITIONS)
    with BankRun(cluster.addresses, name, partitions=PARTITIONS) as run:
        endure(cluster, faults, run.wait_for_more, (name, TRANSACTIONS))
        run.wait_for_more()
        run.finish()
        run.check()


def test_t4_no_money_is_made_or_lost_by_what_happens_to_coordinators_and_leaders(shared):
    killed, paused = Fault(Kind.KILL, Target.LEADER), Fault(Kind.PAUSE, Target.LEADER)
    moved_in_spite_of(shared, "t4", [(TRANSACTIONS, killed), ("t4", paused)])


@pytest.mark.soak
@pytest.mark.parametrize("seed", seeds(1))
def test_t4_nor_by_whatever_happens(shared, seed):
    name = f"t4-{seed}"
    moved_in_spite_of(shared, name, faults_of(seed, TRANSACTIONS, name))
