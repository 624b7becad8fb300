"""T4: a bank in which money is moved in transactions; none is made, and none is lost."""

import signal
import time
from contextlib import ExitStack
from random import Random

import pytest

from tests.support import bank
from tests.support.bank import BankReader, Teller, TellerOptions
from tests.support.broker_process import BrokerProcess
from tests.support.crash_rounds import seeds, told
from tests.support.free_ports import free_port
from tests.support.group_members import wait_until
from tests.support.partition_client import create_topic
from tests.support.severable_wire import LOOPBACK, SteeredWire

SETTINGS = (
    "transaction.state.log.num.partitions=2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms=200",
)
TOPIC, PARTITIONS = "bank", 4
ACCOUNTS, TELLERS = 100, 3
ROUNDS = 8
LIFE_S_MAX, PAUSE_S = 0.3, 0.3


@pytest.mark.parametrize("seed", seeds(1))
def test_t4_every_snapshot_of_the_bank_sums_to_zero(tmp_path, seed):
    business_under_kills(tmp_path, seed)


@pytest.mark.soak
@pytest.mark.parametrize("seed", seeds(20)[1:])
def test_t4_so_it_is_for_long(tmp_path, seed):
    business_under_kills(tmp_path, seed)


def business_under_kills(tmp_path, seed):
    random, port = Random(seed), free_port()
    with (
        told(f"seed {seed}"),
        SteeredWire(f"{LOOPBACK}:{port}") as wire,
        ExitStack() as tellers,
        reached_by(wire, tmp_path / "logs", port).start() as broker,
    ):
        create_topic(broker.address, TOPIC, partitions=PARTITIONS)
        reader = BankReader(broker.address, TOPIC, PARTITIONS)
        everybody = []

        def open_counter(number):
            teller = Teller(wire.address, options(number))
            everybody.append(tellers.enter_context(teller))
            return teller

        present = [open_counter(number) for number in range(TELLERS)]
        for number in range(ROUNDS):
            look_until_all_have_moved(reader, present)
            time.sleep(random.uniform(0, LIFE_S_MAX))
            which = random.randrange(TELLERS)
            present[which].kill()
            FAULTS[number % len(FAULTS)](broker, wire)
            present[which] = open_counter(which)
        look_until_all_have_moved(reader, present)
        for teller in present:
            teller.close()
        check_the_end(broker, reader, everybody)
        assert "Traceback" not in broker.log_text


def reached_by(wire, path, port):
    """A broker that all others reach by the wire alone; it asks itself by none."""
    advertised = f"advertised.listeners=PLAINTEXT://{wire.address}"
    return BrokerProcess(path, *SETTINGS, advertised, port=port)


def options(number):
    """No two tellers have an account in common, and each has some in every partition."""
    accounts = [f"{account}" for account in range(ACCOUNTS) if account // 4 % TELLERS == number]
    return TellerOptions(f"teller-{number}", TOPIC, PARTITIONS, accounts)


def killed(broker, wire):
    broker.kill()
    broker.start()


def paused(broker, wire):
    broker.send(signal.SIGSTOP)
    time.sleep(PAUSE_S)
    broker.send(signal.SIGCONT)


def isolated(broker, wire):
    wire.cut()
    time.sleep(PAUSE_S)
    wire.mend()


def stopped(broker, wire):
    broker.stop()
    broker.start()


FAULTS = (killed, paused, isolated, killed, stopped)


def look_until_all_have_moved(reader, tellers):
    before = [len(teller.happened("moved")) for teller in tellers]

    def have_all_moved():
        assert all(teller.is_alive() for teller in tellers), "one has given up"
        reader.read_on()
        bank.check(reader.bank)
        now = [len(teller.happened("moved")) for teller in tellers]
        return all(after > 2 + count for after, count in zip(now, before, strict=True))

    wait_until(have_all_moved)


def check_the_end(broker, reader, everybody):
    whole = bank.read_bank(broker.address, TOPIC, PARTITIONS)
    reader.read_on()
    assert reader.bank == whole == bank.without_halves(whole)
    bank.check(whole)
    assert sum(bank.balances_in(whole).values()) == 0
    transfers = {entry.transfer for entries in whole for entry in entries}
    moved = {each["transfer"] for teller in everybody for each in teller.happened("moved")}
    aborted = {each["transfer"] for teller in everybody for each in teller.happened("aborted")}
    assert moved <= transfers, "what was committed is there"
    # Those who were killed may have committed what they could not tell any more.
    assert len(transfers - moved) <= ROUNDS
    assert aborted
    assert not aborted & transfers
