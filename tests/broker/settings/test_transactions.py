"""Tests of broker/settings/transactions.py."""

import pytest

from odradek.broker.settings.sources import BadSettings, load


def read(*overrides):
    return load(file=None, environment={}, overrides=overrides)


def test_the_defaults_are_kafkas():
    settings = read().transactions
    assert settings.max_timeout_ms == 900_000
    assert settings.id_expiration_ms == 604_800_000
    assert settings.abort_check_interval_ms == 10_000
    assert settings.expiration_check_interval_ms == 3_600_000
    assert settings.load_buffer_bytes == 5_242_880


@pytest.mark.parametrize(
    "name",
    [
        "transaction.max.timeout.ms",
        "transactional.id.expiration.ms",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        "transaction.state.log.load.buffer.size",
    ],
)
def test_all_of_them_are_positive(name):
    assert read(f"{name}=1")
    with pytest.raises(BadSettings, match="at least 1"):
        read(f"{name}=0")


def test_where_there_is_one_broker_the_log_of_transactions_has_one_replica():
    alone = read().internal_topics
    assert (alone.transactions_replication_factor, alone.transactions_min_isr) == (1, 1)
    one_of_many = read("zookeeper.connect=here:2181").internal_topics
    assert (one_of_many.transactions_replication_factor, one_of_many.transactions_min_isr) == (3, 2)
