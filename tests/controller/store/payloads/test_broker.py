"""The broker registration znode in all versions that Kafka has written."""

import pytest

from odradek.controller.store.payloads.broker import (
    BrokerRegistration,
    Endpoint,
    SecurityProtocol,
    SupportedVersionRange,
)
from odradek.controller.store.payloads.json_object import CorruptPayload

PLAINTEXT = Endpoint("PLAINTEXT", "h", 9092, SecurityProtocol.PLAINTEXT)
SSL = Endpoint("SSL", "h", 9093, SecurityProtocol.SSL)
TIME_MS = 1700000000000

ENCODED = [
    (
        BrokerRegistration((PLAINTEXT,), timestamp_ms=TIME_MS),
        b'{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},'
        b'"endpoints":["PLAINTEXT://h:9092"],"jmx_port":-1,"port":9092,"host":"h",'
        b'"version":5,"timestamp":"1700000000000"}',
    ),
    (
        BrokerRegistration(
            (SSL, Endpoint("A", "::1", 9092, SecurityProtocol.PLAINTEXT)),
            rack="r1",
            jmx_port=9999,
            timestamp_ms=TIME_MS,
        ),
        b'{"features":{},"listener_security_protocol_map":{"SSL":"SSL","A":"PLAINTEXT"},'
        b'"endpoints":["SSL://h:9093","A://[::1]:9092"],"rack":"r1","jmx_port":9999,"port":9092,'
        b'"host":"::1","version":5,"timestamp":"1700000000000"}',
    ),
    (
        BrokerRegistration(
            (Endpoint("SSL", "", 9093, SecurityProtocol.SSL),), timestamp_ms=TIME_MS
        ),
        b'{"features":{},"listener_security_protocol_map":{"SSL":"SSL"},'
        b'"endpoints":["SSL://:9093"],"jmx_port":-1,"port":-1,"host":null,'
        b'"version":5,"timestamp":"1700000000000"}',
    ),
    (
        BrokerRegistration(
            (PLAINTEXT,),
            features={
                "metadata.version": SupportedVersionRange(1, 5),
                "group.version": SupportedVersionRange(0, 1),
                "alpha": SupportedVersionRange(0, 1),
            },
            timestamp_ms=TIME_MS,
        ),
        b'{"features":{"group.version":{"min_version":0,"max_version":1},'
        b'"metadata.version":{"min_version":1,"max_version":5},'
        b'"alpha":{"min_version":0,"max_version":1}},'
        b'"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},'
        b'"endpoints":["PLAINTEXT://h:9092"],"jmx_port":-1,"port":9092,"host":"h",'
        b'"version":5,"timestamp":"1700000000000"}',
    ),
]


@pytest.mark.parametrize(("registration", "value"), ENCODED)
def test_registration_is_encoded_as_in_kafka(registration, value):
    assert registration.encode() == value
    assert BrokerRegistration.decode(value) == registration


def test_registration_is_encoded_for_older_brokers():
    registration = BrokerRegistration((PLAINTEXT,), rack="r1", timestamp_ms=TIME_MS)
    assert registration.encode(version=4) == (
        b'{"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},'
        b'"endpoints":["PLAINTEXT://h:9092"],"rack":"r1","jmx_port":-1,"port":9092,"host":"h",'
        b'"version":4,"timestamp":"1700000000000"}'
    )


OLDER_VERSIONS = [
    (
        b'{"version":1,"host":"h","port":9092,"jmx_port":9999,"timestamp":"2233345666"}',
        BrokerRegistration((PLAINTEXT,), jmx_port=9999, timestamp_ms=2233345666),
    ),
    (
        b'{"version":2,"host":"h","port":9092,"jmx_port":9999,"timestamp":"2233345666",'
        b'"endpoints":["PLAINTEXT://h:9092", "SSL://h:9093"]}',
        BrokerRegistration((PLAINTEXT, SSL), jmx_port=9999, timestamp_ms=2233345666),
    ),
    (
        b'{"version":3,"host":null,"port":-1,"jmx_port":9999,"timestamp":"2233345666",'
        b'"endpoints":["SSL://h:9093"],"rack":"dc1"}',
        BrokerRegistration((SSL,), rack="dc1", jmx_port=9999, timestamp_ms=2233345666),
    ),
    (
        b'{"version":4,"host":"h","port":9092,"jmx_port":-1,"timestamp":"2233345666",'
        b'"endpoints":["CLIENT://h:9093"],"listener_security_protocol_map":{"CLIENT":"sasl_ssl"}}',
        BrokerRegistration(
            (Endpoint("CLIENT", "h", 9093, SecurityProtocol.SASL_SSL),), timestamp_ms=2233345666
        ),
    ),
]


@pytest.mark.parametrize(("value", "registration"), OLDER_VERSIONS)
def test_older_versions_are_decoded(value, registration):
    assert BrokerRegistration.decode(value) == registration


def test_listener_name_is_uppercased():
    value = (
        b'{"version":4,"jmx_port":-1,"endpoints":["client://h:1"],'
        b'"listener_security_protocol_map":{"CLIENT":"SSL"}}'
    )
    (endpoint,) = BrokerRegistration.decode(value).endpoints
    assert endpoint == Endpoint("CLIENT", "h", 1, SecurityProtocol.SSL)


def test_rack_and_features_may_be_missing_or_null():
    value = (
        b'{"version":5,"jmx_port":-1,"timestamp":7,"endpoints":["PLAINTEXT://h:9092"],'
        b'"rack":null,"features":null}'
    )
    assert BrokerRegistration.decode(value) == BrokerRegistration((PLAINTEXT,), timestamp_ms=7)


def test_later_version_is_decoded_and_its_unknown_fields_are_kept():
    encoded = ENCODED[0][1][:-1] + b',"zone":{"a":[1]}}'
    registration = BrokerRegistration.decode(encoded.replace(b'"version":5', b'"version":6'))
    assert registration.endpoints == (PLAINTEXT,)
    assert registration.encode() == encoded


@pytest.mark.parametrize(
    "fields",
    [
        b'"version":0,"host":"h","port":1',
        b'"host":"h","port":1',
        b'"version":1,"port":1',
        b'"version":1,"host":"h"',
        b'"version":1,"host":null,"port":1',
        b'"version":2',
        b'"version":2,"endpoints":"PLAINTEXT://h:1"',
        b'"version":2,"endpoints":["PLAINTEXT:h:1"]',
        b'"version":2,"endpoints":["PLAINTEXT://h"]',
        b'"version":2,"endpoints":["PLAINTEXT://h h:1"]',
        b'"version":2,"endpoints":["OTHER://h:1"]',
        b'"version":4,"endpoints":["SSL://h:1"],"listener_security_protocol_map":{}',
        b'"version":4,"endpoints":["A://h:1"],"listener_security_protocol_map":{"A":"TLS"}',
        b'"version":5,"endpoints":[],"rack":1',
        b'"version":5,"endpoints":[],"features":{"f":{"min_version":1}}',
        b'"version":5,"endpoints":[],"features":{"f":{"min_version":2,"max_version":1}}',
        b'"version":5,"endpoints":[],"features":{"f":{"min_version":-1,"max_version":1}}',
    ],
)
def test_malformed_registration_is_rejected(fields):
    with pytest.raises(CorruptPayload, match=r"^/brokers/ids/1: "):
        BrokerRegistration.decode(b'{"jmx_port":-1,' + fields + b"}", "/brokers/ids/1")
