"""What Kafka answered to requests about configurations is what our handlers answer.

Compared are the settings that our tables declare, and those that nobody knows.
"""

import logging
from collections.abc import Mapping
from typing import Any

import pytest

from odradek.broker.settings import kafka_config_names
from odradek.broker.settings.server_settings import SETTINGS_BY_NAME
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.registry import api
from odradek.storage.settings import TopicSettings
from tests.support.config_scene import config_scene
from tests.support.kafka_json import from_json, to_json
from tests.support.raw_answer import without_words
from tests.support.recorded_configs import saved_steps

RECORDED = saved_steps()
TOPIC = 2

#: Which settings are shown otherwise on purpose.
DIFFERENT_SETTINGS = {
    "advertised.listeners": "listeners stay as they are while the broker runs",
    "listener.security.protocol.map": "likewise",
    "listeners": "likewise",
    "num.io.threads": "the threads for the disk stay as many as they are",
    "num.network.threads": "stays as it is too, and is 1 unless it is set",
    "group.coordinator.rebalance.protocols": "the consumer protocol is on, as from 4.0 on",
    "group.consumer.migration.policy": "from 4.0 on",
    "log.dir": "Kafka's default may be emptied by a restart of the machine",
    "log.initial.task.delay.ms": "Kafka has it for its own tests, and does not show it",
    "producer.id.expiration.check.interval.ms": "likewise",
    "zookeeper.sasl.jaas.config": "Kafka has it in another file",
}
#: While a finer unit is set dynamically, Kafka shows the default in place of the value it has.
SHOWN_AS_DEFAULT = {"log.retention.minutes", "log.roll.hours"}

#: Which steps are answered otherwise on purpose.
_FAILS = "Kafka fails, with UNKNOWN_SERVER_ERROR"
_NO_RESPONSE = "Kafka never answers"
_FIXED = "it can be changed by a restart only"
_GROUP_CONFIGS = "single groups are configured, as from 4.0 on"
_HIDDEN = "what the broker's own value hides is checked too, or removing that could fail"
DIFFERENT_RESPONSES = {
    "no.such.setting 2 3 of the broker": _FAILS,
    "no.such.setting 2 3 of all brokers": _FAILS,
    "no.such.setting 2 3 of a topic": _FAILS,
    "log.cleaner.threads 2 1 of a topic": _FAILS,
    "log.cleaner.threads 3 1 of a topic": _FAILS,
    "log.cleanup.policy 2 shred of a topic": _FAILS,
    "message.max.bytes 9 1 of a topic": _FAILS,
    "num.io.threads 0 5 of the broker": _FIXED,
    "num.io.threads 0 5 of all brokers": _FIXED,
    "num.io.threads=5 alone of the broker": _FIXED,
    "num.io.threads=5 alone of all brokers": _FIXED,
    "num.network.threads 0 3 of the broker": _FIXED,
    "num.network.threads 0 3 of all brokers": _FIXED,
    "num.network.threads=3 alone of the broker": _FIXED,
    "num.network.threads=3 alone of all brokers": _FIXED,
    "listeners 0 PLAINTEXT://:1 of the broker": _FIXED,
    "listeners=PLAINTEXT://:1 alone of the broker": _FIXED,
    "log.retention.ms 0 0 of all brokers": _HIDDEN,
    "log.retention.ms=0 alone of all brokers": _HIDDEN,
    "unknown resources are replaced": _NO_RESPONSE,
    "resources are replaced twice": _NO_RESPONSE,
    "metrics and a group": _GROUP_CONFIGS,
    "all of metrics and a group": _GROUP_CONFIGS,
    "a logger without a level": "a package is a logger here, whether it logs or not",
}


@pytest.fixture
def _loggers_of_kafka():
    root = logging.getLogger()
    before = root.level
    root.setLevel(logging.INFO)
    logging.getLogger("kafka.server.KafkaApis")
    yield
    root.setLevel(before)
    logging.getLogger("kafka.server.KafkaApis").setLevel(logging.NOTSET)


@pytest.mark.usefixtures("_loggers_of_kafka")
async def test_every_step_gets_the_recorded_response_of_kafka():
    file = {name: _with_address(text) for name, text in RECORDED.file.items()}
    creation, *steps = RECORDED.steps
    scene = await config_scene(file, topics=_topic_configs(creation.request))
    differing = {}
    for step in steps:
        key = ApiKey[step.api]
        request = from_json(api(key).request, step.version, step.request)
        message = await scene.asked(key, request, version=step.version)
        response = _comparable(without_words(to_json(message, step.version)))
        expected = step.answer and _comparable(_with_address(step.answer))
        if response != expected:
            differing[step.name] = (response, expected)
    assert differing.keys() == DIFFERENT_RESPONSES.keys(), differing


def _topic_configs(request: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    return {
        topic["name"]: {config["name"]: config["value"] for config in topic["configs"]}
        for topic in request["topics"]
    }


def _with_address(recorded: Any) -> Any:
    match recorded:
        case str():
            return recorded.replace("<address>", "127.0.0.1:9092")
        case list():
            return [_with_address(each) for each in recorded]
        case dict():
            return {name: _with_address(each) for name, each in recorded.items()}
    return recorded


def _comparable(response: Mapping[str, Any]) -> Any:
    """Settings have no order, and some are not compared."""
    if "results" not in response:
        return response
    results = [{**result, "configs": _configs(result)} for result in response["results"]]
    return {**response, "results": results}


def _configs(result: Mapping[str, Any]) -> dict[str, Any]:
    compared = {
        each["name"]: each for each in result["configs"] if _is_compared(each["name"], result)
    }
    for name in SHOWN_AS_DEFAULT & compared.keys():
        compared[name] = {**compared[name], "value": None}
    return compared


def _is_compared(name: str, result: Mapping[str, Any]) -> bool:
    if result["resourceType"] == TOPIC:
        return name in TopicSettings.by_name
    is_unknown = name not in kafka_config_names.READ_ONLY and name not in kafka_config_names.DYNAMIC
    return name not in DIFFERENT_SETTINGS and (name in SETTINGS_BY_NAME or is_unknown)
