"""Makes tests/vectors/validation.json anew: what a real broker says to record sets of all kinds.

    .venv/bin/python -m tests.interop.record_validation [FILE]

Each set of validation_cases goes to a topic of its own on a Kafka 3.9 broker, byte for byte.
"""

import socket
import sys
import tempfile
import time
import uuid
from collections.abc import Iterable
from pathlib import Path

from odradek.protocol.api.produce import ProduceRequest, ProduceResponse
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.codec import decode
from odradek.protocol.header import request_frame
from tests.interop.validation_cases import KEPT, Case, cases
from tests.support.apache_kafka import ApacheKafka, ZooKeeper, zookeeper_broker
from tests.support.java_client import JavaClient
from tests.support.kafka_jars import kafka_jars
from tests.support.produce_answers import ANSWERS, ProduceAnswer, save_answers
from tests.support.raw_request import LOOPBACK, TOPIC_IS_NEW

TIMEOUT_S = 10
CORRELATION_ID_BYTES = 4

Answer = ProduceResponse.Topic.Partition


def main() -> None:
    destination = Path(sys.argv[1]) if len(sys.argv) > 1 else ANSWERS
    with (
        tempfile.TemporaryDirectory() as scratch,
        ZooKeeper(Path(scratch)) as zookeeper,
        zookeeper_broker(Path(scratch), zookeeper=zookeeper.address) as broker,
    ):
        save_answers(record(broker, cases()), destination)


def record(broker: ApacheKafka, cases: Iterable[Case]) -> list[ProduceAnswer]:
    with JavaClient(kafka_jars(broker.version), broker.bootstrap) as java:
        return [_recorded(broker, java, case) for case in cases]


def _recorded(broker: ApacheKafka, java: JavaClient, case: Case) -> ProduceAnswer:
    topic = f"validation-{uuid.uuid4().hex}"
    java.create_topic(topic, {**KEPT, **case.topic})
    now_ms = int(time.time() * 1000)
    answer = answered(broker.port, topic, case)
    return ProduceAnswer(
        name=case.name,
        version=case.version,
        topic=case.topic,
        sent=case.records,
        error_code=answer.error_code,
        bad_records=tuple(error.batch_index for error in answer.record_errors),
        append_time_ms=answer.log_append_time_ms,
        stored=broker.segment(topic).read_bytes(),
        now_ms=now_ms,
    )


def answered(port: int, topic: str, case: Case) -> Answer:
    """What the leader of partition 0 says, once there is one."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        answer = _answered_once(port, topic, case)
        if answer.error_code not in TOPIC_IS_NEW or time.monotonic() > deadline:
            return answer
        time.sleep(0.02)


def _answered_once(port: int, topic: str, case: Case) -> Answer:
    partition = ProduceRequest.Topic.Partition(index=0, records=case.records)
    request = ProduceRequest(
        transactional_id=case.transactional_id,
        acks=1,
        timeout_ms=TIMEOUT_S * 1000,
        topic_data=[ProduceRequest.Topic(name=topic, partition_data=[partition])],
    )
    frame = b"".join(request_frame(ApiKey.PRODUCE, case.version, 1, "validation", request))
    with socket.create_connection((LOOPBACK, port), TIMEOUT_S) as connection:
        connection.sendall(frame)
        with connection.makefile("rb") as stream:
            size = int.from_bytes(stream.read(4), "big")
            body = stream.read(size)[CORRELATION_ID_BYTES:]
    response = decode(ProduceResponse, case.version, body)
    return response.responses[0].partition_responses[0]


if __name__ == "__main__":
    main()
