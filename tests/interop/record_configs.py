"""Makes tests/vectors/configs.json anew: what a real broker says about configurations.

    .venv/bin/python -m tests.interop.record_configs [FILE]

The steps of config_steps are sent to a broker of Kafka 3.9 in ZooKeeper mode, one after the other.
Some are never answered, which takes half a minute each.
"""

import json
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from odradek.protocol.api_keys import ApiKey
from tests.interop.config_steps import FILE, Step, steps
from tests.support.apache_kafka import ApacheKafka, ZooKeeper, zookeeper_broker
from tests.support.raw_answer import answer_to, without_words
from tests.support.recorded_configs import ANSWERS, save_steps

#: Until brokers have read what was changed: they are told by a watch, after the answer.
APPLIED_S = 1.5


def main() -> None:
    destination = Path(sys.argv[1]) if len(sys.argv) > 1 else ANSWERS
    with tempfile.TemporaryDirectory() as scratch:
        save_steps(record(Path(scratch)), destination)


def record(directory: Path) -> list[dict[str, Any]]:
    with (
        ZooKeeper(directory) as zookeeper,
        zookeeper_broker(directory, zookeeper=zookeeper.address, properties=FILE) as broker,
    ):
        shown = {
            str(broker.data_directory): "<data directory>",
            zookeeper.address: "zookeeper:2181",
            broker.bootstrap: "<address>",
        }
        file = _replaced(broker.configuration.read_text().splitlines(), shown)
        begin = {"file": dict(line.split("=", 1) for line in file)}
        return [begin, *(_recorded(broker, step, shown) for step in steps())]


def _recorded(broker: ApacheKafka, step: Step, shown: dict[str, str]) -> dict[str, Any]:
    answer: dict[str, Any] | None
    try:
        answer = answer_to(broker.port, ApiKey[step.api], step.version, step.request)
    except TimeoutError:
        answer = None
    if step.api != "DESCRIBE_CONFIGS" and not step.request["validateOnly"]:
        time.sleep(APPLIED_S)
    return {**asdict(step), "answer": _replaced(without_words(answer), shown)}


def _replaced(recorded: Any, shown: dict[str, str]) -> Any:
    text = json.dumps(recorded)
    for written, placeholder in shown.items():
        text = text.replace(written, placeholder)
    return json.loads(text)


if __name__ == "__main__":
    main()
