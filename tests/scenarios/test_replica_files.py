"""Replicas that differ are found, on whichever disk they are."""

from struct import pack

import pytest

from tests.support.replica_files import check_replicas

NAME, EVERYBODY = "events-0", {"events-0": (0, 1)}


@pytest.fixture
def brokers(tmp_path):
    """Two of them, each with two disks; the replica of each is on its second."""
    disks = [[tmp_path / f"{number}{disk}" for disk in "ab"] for number in range(2)]
    for _, second in disks:
        (second / NAME).mkdir(parents=True)
        write(second, b"first", b"second", b"third")
        note(second, 2)
    return disks


def write(disk, *batches):
    """Of one record each."""
    written = [pack(">qi", offset, len(each)) + each for offset, each in enumerate(batches)]
    (disk / NAME / f"{0:020}.log").write_bytes(b"".join(written))


def note(disk, high_watermark):
    (disk / "replication-offset-checkpoint").write_text(f"0\n1\nevents 0 {high_watermark}\n")


def test_replicas_that_are_alike_are_in_order(brokers):
    check_replicas(brokers, EVERYBODY)


def test_replicas_may_differ_behind_what_all_had(brokers):
    write(brokers[1][1], b"first", b"second", b"another")
    check_replicas(brokers, EVERYBODY)


@pytest.mark.parametrize("batches", [[b"first", b"another", b"third"], [b"first"]])
def test_replicas_that_differ_before_that_are_found(brokers, batches):
    write(brokers[1][1], *batches)
    with pytest.raises(AssertionError, match="events-0 differs between 0 and 2"):
        check_replicas(brokers, EVERYBODY)


def test_a_replica_whose_high_watermark_is_not_noted_is_found(brokers):
    (brokers[1][1] / "replication-offset-checkpoint").unlink()
    with pytest.raises(AssertionError, match=r"events-0: brokers \[1\] have not noted"):
        check_replicas(brokers, EVERYBODY)


def test_who_need_not_have_noted_it_is_left_out(brokers):
    left_out, *others = *brokers, brokers[1]
    (left_out[1] / "replication-offset-checkpoint").unlink()
    write(left_out[1], b"another")
    check_replicas([left_out, *others], {NAME: (1, 2)})


def test_and_the_others_are_compared_nevertheless(brokers, tmp_path):
    third = tmp_path / "third"
    (third / NAME).mkdir(parents=True)
    write(third, b"first", b"another")
    note(third, 2)
    (brokers[0][1] / "replication-offset-checkpoint").unlink()
    with pytest.raises(AssertionError, match="events-0 differs between 0 and 2"):
        check_replicas([*brokers, [third]], {NAME: (1, 2)})


def test_a_replica_that_is_not_there_is_found(brokers):
    with pytest.raises(AssertionError, match=r"events-0: brokers \[2\] have not noted"):
        check_replicas([*brokers, []], {NAME: (0, 1, 2)})


def test_a_replica_on_two_disks_is_found(brokers):
    first, _ = brokers[0]
    (first / NAME).mkdir(parents=True)
    write(first, b"first")
    with pytest.raises(AssertionError, match="on two disks at once"):
        check_replicas(brokers, EVERYBODY)
