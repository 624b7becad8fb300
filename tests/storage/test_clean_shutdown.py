"""The clean shutdown file."""

import pytest

from odradek.storage import clean_shutdown
from odradek.storage.clean_shutdown import CleanShutdown
from tests.support.power_cut import PowerCut

FILE = ".kafka_cleanshutdown"


def test_file_has_the_bytes_that_kafka_writes(tmp_path):
    clean_shutdown.write(tmp_path)
    assert (tmp_path / FILE).read_bytes() == b'{"version":0,"brokerEpoch":-1}'
    assert clean_shutdown.read(tmp_path) == CleanShutdown(broker_epoch=-1)


def test_file_may_hold_a_broker_epoch(tmp_path):
    clean_shutdown.write(tmp_path, broker_epoch=2**62)
    assert clean_shutdown.read(tmp_path) == CleanShutdown(broker_epoch=2**62)


def test_missing_file_means_unclean_shutdown(tmp_path):
    assert clean_shutdown.read(tmp_path) is None


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"{", b"null", b"[]", b"{}", b'{"brokerEpoch":"5"}', b'{"brokerEpoch":null}'),
        *(b'{"brokerEpoch":true}', b"\xff\xfe\xfd", bytes(30), b"[" * 100_000),
    ],
)
def test_unreadable_file_still_means_clean_shutdown(tmp_path, content):
    (tmp_path / FILE).write_bytes(content)
    assert clean_shutdown.read(tmp_path) == CleanShutdown(broker_epoch=None)


def test_remove_succeeds_whether_or_not_the_file_exists(tmp_path):
    clean_shutdown.write(tmp_path)
    clean_shutdown.remove(tmp_path)
    clean_shutdown.remove(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("seed", range(20))
def test_power_cut_neither_loses_the_file_nor_restores_a_removed_one(tmp_path, seed):
    with PowerCut(tmp_path, seed) as disk:
        clean_shutdown.write(tmp_path)
        disk.cut()
        assert clean_shutdown.read(tmp_path) == CleanShutdown(broker_epoch=-1), disk
        clean_shutdown.remove(tmp_path)
        disk.cut()
        assert clean_shutdown.read(tmp_path) is None, disk
