"""The transaction log has the records that Apache Kafka wrote for the same requests.

The broker on ZooKeeper finalizes no feature by itself and is compared with 3.9.1. The broker on the
embedded store begins with transaction.version 2 and is compared with 4.1.1.
"""

from __future__ import annotations

from collections import defaultdict

import pytest

from odradek.protocol.internal.coordinator_record import (
    decode_version_prefixed,
    read_version_prefix,
)
from odradek.protocol.internal.transaction_log import TransactionLogKey, TransactionLogValue
from tests.support.broker_process import BrokerProcess
from tests.support.broker_stores import on_zookeeper
from tests.support.kafka_jars import KAFKA_3_9, KAFKA_4_1
from tests.support.kafka_json import to_json
from tests.support.recorded_transactions import (
    STATE_PARTITIONS,
    recorded_transactions,
    records_of,
)
from tests.support.transaction_story import PROPERTIES, transact, transact_in_second_version

SETTINGS = (
    *(f"{name}={text}" for name, text in PROPERTIES.items()),
    f"transaction.state.log.num.partitions={STATE_PARTITIONS}",
    "offsets.topic.num.partitions=4",
)
TIMES = ("transactionLastUpdateTimestampMs", "transactionStartTimestampMs")
#: Other ids may expire too, if their requests are slow.
FORGOTTEN = "forgotten"


def decode_values(records):
    """Returns the values of each transactional id in order, without ids and times."""
    values = defaultdict(list)
    for key, value in records:
        transactional_id = decode_version_prefixed(TransactionLogKey, key).transactional_id
        if value is not None:
            version = read_version_prefix(value)
            fields = to_json(decode_version_prefixed(TransactionLogValue, value), version)
            has_begun = fields[TIMES[1]] > 0
            for name in (*TIMES, "producerId"):
                del fields[name]
            values[transactional_id].append((version, has_begun, fields))
        elif transactional_id == FORGOTTEN:
            values[transactional_id].append(None)
    return values


def recorded_values(release):
    (recorded,) = [story for story in recorded_transactions() if story.release == release]
    return decode_values(
        (bytes.fromhex(record.key), record.value and bytes.fromhex(record.value))
        for record in recorded.records
    )


@pytest.mark.parametrize("release", [KAFKA_3_9, KAFKA_4_1])
def test_transaction_log_matches_the_recording_of_kafka(release, tmp_path, request):
    store = on_zookeeper(request.getfixturevalue("zookeeper")) if release == KAFKA_3_9 else ()
    with BrokerProcess(tmp_path / "logs", *store, *SETTINGS).start() as broker:
        transact(broker.address)
        if release == KAFKA_4_1:
            transact_in_second_version(broker.address)
    actual = decode_values((record.key, record.value) for record in records_of(broker.data_dir))
    expected = recorded_values(release)
    assert set(actual) == set(expected)
    for transactional_id in expected:
        assert actual[transactional_id] == expected[transactional_id], transactional_id
    assert "Traceback" not in broker.log_text
