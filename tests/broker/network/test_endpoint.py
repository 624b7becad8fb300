"""Parsing of listener settings."""

import pytest

from odradek.broker.network.endpoint import (
    Endpoint,
    check_distinct_ports,
    parse_counts,
    parse_endpoints,
    parse_protocols,
)

PROTOCOLS = {"PLAINTEXT": "PLAINTEXT", "INTERNAL": "SSL", "EXTERNAL": "PLAINTEXT"}


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("PLAINTEXT://:9092", "", 9092),
        ("plaintext://my-host.example:1", "my-host.example", 1),
        ("PLAINTEXT://[::1]:9092", "::1", 9092),
        (" PLAINTEXT://0.0.0.0:0 ", "0.0.0.0", 0),
    ],
)
def test_endpoint_has_name_host_and_port(text, host, port):
    assert parse_endpoints(text, PROTOCOLS) == (Endpoint("PLAINTEXT", "PLAINTEXT", host, port),)


def test_endpoint_is_formatted_as_it_is_parsed():
    for text in ("PLAINTEXT://:9092", "PLAINTEXT://[::1]:9092", "PLAINTEXT://host:1"):
        assert str(parse_endpoints(text, PROTOCOLS)[0]) == text


def test_listener_name_is_mapped_to_its_protocol():
    external, internal = parse_endpoints("EXTERNAL://:1,internal://:2", PROTOCOLS)
    assert (external.listener, external.security_protocol) == ("EXTERNAL", "PLAINTEXT")
    assert (internal.listener, internal.security_protocol) == ("INTERNAL", "SSL")


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("localhost:9092", "must be NAME://host:port"),
        ("PLAINTEXT://host", "must be NAME://host:port"),
        ("PLAINTEXT://ho st:1", "must be NAME://host:port"),
        ("://host:1", "must have a name"),
        ("PLAINTEXT://:65536", "must have ports between 0 and 65535"),
        ("PLAINTEXT://:-1", "must have ports between 0 and 65535"),
        ("PLAINTEXT://my..host:1", "valid host names, but 'my..host' is not one"),
        (f"PLAINTEXT://{'x' * 64}.org:1", "must have valid host names"),
        ("OTHER://:1", "names OTHER"),
        ("PLAINTEXT://:1,plaintext://:2", "has PLAINTEXT twice"),
    ],
)
def test_invalid_endpoint_is_rejected_with_its_rule(text, rule):
    with pytest.raises(ValueError, match=rule):
        parse_endpoints(text, PROTOCOLS)


def test_port_may_be_shared_by_an_ipv4_and_an_ipv6_address_only():
    check_distinct_ports(parse_endpoints("PLAINTEXT://127.0.0.1:1,EXTERNAL://[::1]:1", PROTOCOLS))
    check_distinct_ports(parse_endpoints("PLAINTEXT://:0,EXTERNAL://:0", PROTOCOLS))
    for text in (
        "PLAINTEXT://:1,EXTERNAL://:1",
        "PLAINTEXT://127.0.0.1:1,EXTERNAL://127.0.0.2:1",
        "PLAINTEXT://127.0.0.1:1,EXTERNAL://[::1]:1,INTERNAL://:1",
    ):
        with pytest.raises(ValueError, match="a different port"):
            check_distinct_ports(parse_endpoints(text, PROTOCOLS))


def test_security_protocol_map_is_parsed():
    assert parse_protocols("a:SSL, B:plaintext,") == {"A": "SSL", "B": "PLAINTEXT"}
    for text in ("A", ":SSL", "A:TLS", "A:SSL,a:SSL"):
        with pytest.raises(ValueError, match="must"):
            parse_protocols(text)


def test_counts_per_host_are_parsed():
    assert parse_counts("") == {}
    assert parse_counts("host:100, 127.0.0.1:2,[::1]:3,fe80::1:4") == {
        "host": 100,
        "127.0.0.1": 2,
        "::1": 3,
        "fe80::1": 4,
    }
    for text in ("host", "host:", "host:-1", ":5", "host:x"):
        with pytest.raises(ValueError, match="must be host:number"):
            parse_counts(text)
