"""Run by the Python of an old client: one topic written and read by it.

What is asked comes as JSON on standard input: address, topic, codec, acks, is_idempotent, and the
records as lists of value, key, headers and timestamp.  The answer goes to standard output: the
version of the library, the offsets that it was told, the records that it read, and the offset that
it was told for the timestamp of the last.

Nothing is imported here but what any Python since 3.10 has, and the drivers.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from tests.support.client_driver import BEGINNING, Driver, Options, Received, Sent


def main() -> None:
    driver, version = driver_of(sys.argv[1])
    asked = json.load(sys.stdin)
    records = [sent(each) for each in asked["records"]]
    options = Options(
        acks=asked["acks"], codec=asked["codec"], is_idempotent=asked["is_idempotent"]
    )
    with driver.producer(asked["address"], options) as producer:
        offsets = producer.send(asked["topic"], records)
    with driver.consumer(asked["address"]) as consumer:
        found = consumer.read(asked["topic"], {0: BEGINNING}, count=len(records))
        last = consumer.offset_at(asked["topic"], 0, records[-1].timestamp_ms or 0)
    told = {
        "version": version,
        "offsets": list(offsets),
        "records": [shown(each) for each in found],
        "last": last,
    }
    json.dump(told, sys.stdout)


def driver_of(name: str) -> tuple[Driver, str]:
    """And the version of its library.  Only the one that is asked for is there."""
    if name == "confluent-kafka":
        import confluent_kafka

        from tests.support.confluent_driver import ConfluentDriver

        return ConfluentDriver(), confluent_kafka.version()[0]
    import kafka

    from tests.support.kafka_python_driver import KafkaPythonDriver

    return KafkaPythonDriver(), kafka.__version__


def sent(written: list[Any]) -> Sent:
    value, key, headers, timestamp_ms = written
    return Sent(
        value.encode(),
        None if key is None else key.encode(),
        tuple((name, text.encode()) for name, text in headers),
        timestamp_ms,
    )


def shown(record: Received) -> list[Any]:
    return [
        record.offset,
        (record.value or b"").decode(),
        None if record.key is None else record.key.decode(),
        [[name, text.decode()] for name, text in record.headers],
        record.timestamp_ms,
    ]


if __name__ == "__main__":
    main()
