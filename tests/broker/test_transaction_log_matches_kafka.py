"""What a broker writes of transactions is what Apache Kafka wrote when it was told the same story.

On ZooKeeper, where no feature is finalised by itself, that of 3.9.1; on the embedded store, which
begins with the second version of transactions, that of 4.1.1.
"""

from __future__ import annotations

from collections import defaultdict

import pytest

from odradek.protocol.internal.log_record import decode_part, part_version
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
#: Others may be forgotten too, if they are slow to be told the rest.
FORGOTTEN = "forgotten"


def told(records):
    """Of each transactional id, one value after the other, without ids and times."""
    found = defaultdict(list)
    for key, value in records:
        transactional_id = decode_part(TransactionLogKey, key).transactional_id
        if value is not None:
            version = part_version(value)
            shown = to_json(decode_part(TransactionLogValue, value), version)
            has_begun = shown[TIMES[1]] > 0
            for name in (*TIMES, "producerId"):
                del shown[name]
            found[transactional_id].append((version, has_begun, shown))
        elif transactional_id == FORGOTTEN:
            found[transactional_id].append(None)
    return found


def told_by_kafka(release):
    (recorded,) = [each for each in recorded_transactions() if each.release == release]
    return told(
        (bytes.fromhex(each.key), each.value and bytes.fromhex(each.value))
        for each in recorded.records
    )


@pytest.mark.parametrize("release", [KAFKA_3_9, KAFKA_4_1])
def test_the_story_is_written_as_kafka_writes_it(release, tmp_path, request):
    store = on_zookeeper(request.getfixturevalue("zookeeper")) if release == KAFKA_3_9 else ()
    with BrokerProcess(tmp_path / "logs", *store, *SETTINGS).start() as broker:
        transact(broker.address)
        if release == KAFKA_4_1:
            transact_in_second_version(broker.address)
    written = told((each.key, each.value) for each in records_of(broker.data_dir))
    expected = told_by_kafka(release)
    assert set(written) == set(expected)
    for transactional_id in expected:
        assert written[transactional_id] == expected[transactional_id], transactional_id
    assert "Traceback" not in broker.log_text
