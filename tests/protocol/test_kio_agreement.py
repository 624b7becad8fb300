"""kio, an independent implementation of Kafka's schemas, reads our messages.

kio must encode the same bytes again. Its classes have durations, dates and error enums where the
wire format has numbers, so the tests use realistic numbers.
"""

import io
from pkgutil import resolve_name

import pytest
from kio.schema.index import schema_name_map
from kio.serial import entity_reader, entity_writer

from odradek.protocol.codec import encode_bytes
from odradek.protocol.schema import Message
from tests.support.all_messages import all_messages, versions_of
from tests.support.message_values import LONG, NULL_LEAVES, NULLS, TYPICAL, defaults, filled

#: Name and version of each kio class, and its import path.
KIO_CLASSES = {
    (import_path.split(":")[1], version): import_path
    for versions in schema_name_map.values()
    for version, import_paths in versions.items()
    for import_path in import_paths.values()
}
#: kio follows Kafka 4, which renamed this API.
RENAMED = ("ListClientMetricsResources", "ListConfigResources")
#: Kafka 4.1 changed this version in place. We follow Kafka 3.9.
CHANGED_IN_PLACE = ("ReadShareGroupStateSummaryResponse", 0)


def kio_class_path(message: type[Message], version: int) -> str | None:
    return KIO_CLASSES.get((message.__name__.replace(*RENAMED), version))


SHARED = [
    (message, version)
    for message in all_messages()
    for version in versions_of(message)
    if kio_class_path(message, version) and (message.__name__, version) != CHANGED_IN_PLACE
]


@pytest.mark.parametrize(
    "message",
    dict.fromkeys(message for message, _ in SHARED),
    ids=lambda each: each.__name__,
)
def test_kio_decodes_and_reencodes_our_messages(message):
    for version in [version for each, version in SHARED if each is message]:
        values = [
            filled(message, version, recipe) for recipe in (TYPICAL, LONG, NULLS, NULL_LEAVES)
        ]
        for value in (defaults(message), *values):
            encoded = encode_bytes(value, version)
            assert reencode_with_kio(message, version, encoded) == encoded, f"version {version}"


def test_kio_has_most_of_our_messages():
    # kio's version is pinned, so a smaller number means that the lookup is broken.
    assert len(SHARED) > 500


def reencode_with_kio(message: type[Message], version: int, encoded: bytes) -> bytes:
    kio_class = resolve_name(kio_class_path(message, version))
    entity, size = entity_reader(kio_class)(encoded, 0)
    assert size == len(encoded)
    output = io.BytesIO()
    entity_writer(kio_class)(output, entity)
    return output.getvalue()
