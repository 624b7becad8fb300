"""The settings of transactions."""

import pytest

from odradek.broker.settings.sources import BadSettings, load


def read(*overrides):
    return load(file=None, environment={}, overrides=overrides)


def test_defaults_are_those_of_kafka():
    settings = read().transactions
    assert settings.max_timeout_ms == 900_000
    assert settings.transactional_id_expiration_ms == 604_800_000
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
def test_values_must_be_positive(name):
    assert read(f"{name}=1")
    with pytest.raises(BadSettings, match="at least 1"):
        read(f"{name}=0")


def test_transaction_log_of_a_standalone_broker_has_one_replica():
    standalone = read().internal_topics
    assert (standalone.transactions_replication_factor, standalone.transactions_min_isr) == (1, 1)
    clustered = read("zookeeper.connect=here:2181").internal_topics
    assert (clustered.transactions_replication_factor, clustered.transactions_min_isr) == (3, 2)
