"""The declarations against the schemas that Kafka publishes inside its own jars."""

import json
import re
import zipfile
from functools import cache
from pathlib import Path

import pytest

from odradek.protocol.field import Array, Nested, Versions
from odradek.protocol.schema import default_value, read_only_default
from odradek.protocol.types import ZERO_UUID
from tests.support.all_messages import all_messages, versions_of
from tests.support.kafka_json import kafka_name

#: What Kafka 4.1 calls otherwise: one API, and two of its fields.
RENAMED_API = ("ListClientMetricsResources", "ListConfigResources")
RENAMED_FIELDS = {"configresources": "clientmetricsresources", "resourcename": "name"}
#: Kafka 3.9 has them without the tagged fields that 4.1 writes.
AS_IN_4_1 = {"ConsumerGroupMetadataValue", "TransactionLogValue"}


@pytest.mark.parametrize("message", all_messages(), ids=lambda message: message.__name__)
def test_every_version_is_laid_out_as_kafka_publishes_it(message, kafka_39_jars, kafka_41_jars):
    for version in versions_of(message):
        published, their_version = published_schema(
            message, version, (kafka_39_jars, kafka_41_jars)
        )
        structs = {struct["name"]: struct for struct in published.get("commonStructs", [])}
        if published["name"].startswith(RENAMED_API[1]):
            rename_fields(published["fields"])
        flexible = Versions.parse(published["flexibleVersions"])
        assert (version in message.__schema__.flexible) == (their_version in flexible)
        assert our_layout(message, version) == their_layout(
            published["fields"], structs, their_version
        ), f"version {version}"


def published_schema(message, version, jar_directories):
    """The schema that has this version, and the number Kafka gives it there."""
    name = message.__name__
    if name in AS_IN_4_1:
        jar_directories = jar_directories[1:]
    for jars in jar_directories:
        for candidate in (name, name.replace(*RENAMED_API)):
            schema = schemas_in(jars).get(candidate)
            if schema is None:
                continue
            if schema.get("type") == "coordinator-key" and schema["apiKey"] == version:
                return schema, 0
            if version in Versions.parse(schema["validVersions"]):
                return schema, version
    raise AssertionError(f"Kafka publishes no {name} v{version}")


def rename_fields(fields):
    for field in fields:
        field["name"] = RENAMED_FIELDS.get(field["name"].lower(), field["name"])
        rename_fields(field.get("fields", []))


@cache
def schemas_in(jars: Path) -> dict:
    found = {}
    for jar in jars.glob("kafka-*.jar"):
        with zipfile.ZipFile(jar) as archive:
            for member in archive.namelist():
                if member.endswith(".json") and "message/" in member:
                    text = archive.read(member).decode()
                    schema = json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))
                    found[schema["name"]] = schema
    return found


def our_layout(struct, version):
    return [
        (
            kafka_name(field.name).lower(),
            our_type(field.type, version),
            version in field.nullable,
            field.tag,
            comparable(default_value(field)),
        )
        for field in struct.__schema__.fields
        if version in field.versions
    ]


def our_type(wire_type, version):
    match wire_type:
        case Array(element):
            return [our_type(element, version)]
        case Nested(struct):
            return our_layout(struct, version)
    return wire_type.name


def comparable(default):
    if default == ZERO_UUID or default in ("", b"", None) or default == []:
        return None if default is None else "empty"
    if hasattr(default, "__schema__"):
        assert default == read_only_default(type(default).__mro__[1])
        return "empty"
    return default


def their_layout(fields, structs, version):
    """The fields that travel in a version: name, type, nullable, tag, default."""
    return [
        (
            field["name"].lower(),
            their_type(field, structs, version),
            version in Versions.parse(field.get("nullableVersions", "none")),
            field.get("tag"),
            their_default(field),
        )
        for field in fields
        if version in Versions.parse(field.get("versions") or field["taggedVersions"])
    ]


def their_type(field, structs, version):
    name = field["type"].removeprefix("[]")
    if name[0].isupper():
        inner = field.get("fields") or structs[name]["fields"]
        element = their_layout(inner, structs, version)
    else:
        element = name
    return [element] if field["type"].startswith("[]") else element


def their_default(field):
    default, kind = field.get("default", ""), field["type"]
    if default == "null" or kind == "records":
        return None
    if kind.startswith("[]") or kind[0].isupper() or kind in ("string", "bytes", "uuid"):
        return default or "empty"
    if kind == "bool":
        return str(default).lower() == "true"
    if kind == "float64":
        return float(default or 0)
    return int(str(default or 0), 0)
