"""Requests about configurations get the responses that were recorded from Kafka.

The test compares the settings that our tables declare and the settings that Kafka does not know.
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

#: Settings that are returned differently on purpose, with the reason.
DIFFERENT_SETTINGS = {
    "advertised.listeners": "listeners cannot change while the broker runs",
    "listener.security.protocol.map": "likewise",
    "listeners": "likewise",
    "num.io.threads": "the number of disk threads cannot change",
    "num.network.threads": "cannot change either, and its default is 1",
    "group.coordinator.rebalance.protocols": "the consumer protocol is enabled, as in Kafka 4.0",
    "group.consumer.migration.policy": "as in Kafka 4.0",
    "log.dir": "Kafka's default may be emptied by a restart of the machine",
    "log.initial.task.delay.ms": "Kafka has it for its own tests and does not return it",
    "producer.id.expiration.check.interval.ms": "likewise",
    "zookeeper.sasl.jaas.config": "Kafka has it in another file",
}
#: While a finer unit is set dynamically, Kafka returns the default instead of the actual value.
SHOWN_AS_DEFAULT = {"log.retention.minutes", "log.roll.hours"}

#: Steps that are answered differently on purpose, with the reason.
_FAILS = "Kafka fails, with UNKNOWN_SERVER_ERROR"
_NO_RESPONSE = "Kafka never answers"
_FIXED = "it can be changed only by a restart"
_GROUP_CONFIGS = "groups have configs, as in Kafka 4.0"
_HIDDEN = "a default hidden by the broker's value is checked too, or removing that value could fail"
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
    "a logger without a level": "every package is a logger here, even if it logs nothing",
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
    """Ignore the order of the settings, and drop those that are not compared."""
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
