"""A story of transactions that brokers of all kinds are told, for what they write of it.

Producers commit, abort, are fenced, are late, are left open, and are forgotten, by raw requests.
"""

from __future__ import annotations

from odradek.protocol.api_keys import ApiKey
from tests.support.group_members import wait_until
from tests.support.group_wire import find_coordinator
from tests.support.partition_client import create_topic
from tests.support.transaction_wire import WireProducer, name_of, settled, state_of
from tests.support.wire_client import call

TOPIC, PARTITIONS = "events", 2
SHORT_MS = 500
#: In which a producer tells that it speaks the second version.
SECOND_PRODUCE, SECOND_END = 12, 5
#: Of the brokers that are told it.
PROPERTIES = {
    "transactional.id.expiration.ms": "3000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "200",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
}


def transact(address: str) -> None:
    create_topic(address, TOPIC, partitions=PARTITIONS)
    find_coordinator(address)
    with WireProducer(address, "forgotten") as producer:
        producer.init()
    wait_until(lambda: is_forgotten(address, "forgotten"))
    with WireProducer(address, "committer") as producer:
        producer.init()
        for partition in range(PARTITIONS):
            producer.write(TOPIC, b"committed", partition=partition)
        producer.commit_offset("group", TOPIC, 1)
        producer.commit()
        producer.write(TOPIC, b"aborted")
        producer.abort()
    with WireProducer(address, "fenced") as producer, WireProducer(address, "fenced") as other:
        producer.init()
        producer.write(TOPIC, b"fenced")
        other.init()
    with WireProducer(address, "late", timeout_ms=SHORT_MS) as producer:
        producer.init()
        producer.write(TOPIC, b"late")
        wait_until(lambda: state_of(address, "late") == "CompleteAbort")
    with WireProducer(address, "open") as producer:
        producer.init()
        producer.write(TOPIC, b"open", partition=1)


def transact_in_second_version(address: str) -> None:
    with WireProducer(address, "second") as producer:
        producer.init()
        for committed in (True, False):
            answer = settled(lambda: producer.ask_produce(TOPIC, b"second", version=SECOND_PRODUCE))
            assert answer == "NONE", answer
            answer = producer.ask_end(committed=committed, version=SECOND_END)
            assert answer == "NONE", answer
        wait_until(lambda: state_of(address, "second") == "CompleteAbort")


def is_forgotten(address: str, transactional_id: str) -> bool:
    asked = {"transactional_ids": [transactional_id]}
    (described,) = call(address, ApiKey.DESCRIBE_TRANSACTIONS, 0, **asked).transaction_states
    return name_of(described.error_code) == "TRANSACTIONAL_ID_NOT_FOUND"
