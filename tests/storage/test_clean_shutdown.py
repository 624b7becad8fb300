"""The marker of a clean shutdown."""

import pytest

from odradek.storage import clean_shutdown
from odradek.storage.clean_shutdown import CleanShutdown
from tests.support.power_cut import PowerCut

FILE = ".kafka_cleanshutdown"


def test_the_marker_is_as_kafka_writes_it(tmp_path):
    clean_shutdown.write(tmp_path)
    assert (tmp_path / FILE).read_bytes() == b'{"version":0,"brokerEpoch":-1}'
    assert clean_shutdown.read(tmp_path) == CleanShutdown(broker_epoch=-1)


def test_it_may_hold_a_broker_epoch(tmp_path):
    clean_shutdown.write(tmp_path, broker_epoch=2**62)
    assert clean_shutdown.read(tmp_path) == CleanShutdown(broker_epoch=2**62)


def test_without_a_marker_the_shutdown_was_not_clean(tmp_path):
    assert clean_shutdown.read(tmp_path) is None


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"{", b"null", b"[]", b"{}", b'{"brokerEpoch":"5"}', b'{"brokerEpoch":null}'),
        *(b'{"brokerEpoch":true}', b"\xff\xfe\xfd", bytes(30), b"[" * 100_000),
    ],
)
def test_whatever_it_says_its_being_there_counts(tmp_path, content):
    (tmp_path / FILE).write_bytes(content)
    assert clean_shutdown.read(tmp_path) == CleanShutdown(broker_epoch=None)


def test_it_is_removed_whether_it_was_there_or_not(tmp_path):
    clean_shutdown.write(tmp_path)
    clean_shutdown.remove(tmp_path)
    clean_shutdown.remove(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("seed", range(20))
def test_a_power_cut_neither_loses_a_marker_nor_brings_it_back(tmp_path, seed):
    with PowerCut(tmp_path, seed) as disk:
        clean_shutdown.write(tmp_path)
        disk.cut()
        assert clean_shutdown.read(tmp_path) == CleanShutdown(broker_epoch=-1), disk
        clean_shutdown.remove(tmp_path)
        disk.cut()
        assert clean_shutdown.read(tmp_path) is None, disk
