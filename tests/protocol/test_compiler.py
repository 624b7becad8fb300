"""Functions are compiled once for each message and version, as straight-line code."""

import subprocess
import sys

import pytest

from odradek.protocol.api.fetch import FetchRequest
from odradek.protocol.api.heartbeat import HeartbeatResponse
from odradek.protocol.api.metadata import MetadataResponse
from odradek.protocol.compiler import decoder, encoder, prefix_decoder, source_of
from odradek.protocol.schema import (
    Message,
    Struct,
    array,
    int8,
    int32,
    string,
    struct,
    uuid,
)
from odradek.protocol.types import Uuid
from tests.support.all_messages import all_messages, versions_of

IMPORTED = "import odradek.protocol.codec, odradek.protocol.registry, odradek.protocol.header;"
COMPILED = "from odradek.protocol.compiler import decoder, encoder, prefix_decoder as prefix;"
COUNT = "print([each.cache_info().currsize for each in (decoder, encoder, prefix)])"


def lines_with(text, source):
    return [line.strip() for line in source.splitlines() if text in line]


@pytest.mark.parametrize("message", all_messages(), ids=lambda message: message.__name__)
def test_every_version_compiles(message):
    for version in versions_of(message):
        assert callable(decoder(message, version))
        assert callable(encoder(message, version))
        assert callable(prefix_decoder(message, version))


def test_function_is_compiled_once():
    assert decoder(HeartbeatResponse, 1) is decoder(HeartbeatResponse, 1)
    assert encoder(HeartbeatResponse, 1) is encoder(HeartbeatResponse, 1)
    assert prefix_decoder(HeartbeatResponse, 1) is prefix_decoder(HeartbeatResponse, 1)


def test_functions_are_compiled_on_first_use():
    program = IMPORTED + COMPILED + COUNT
    completed = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert completed.stdout.strip() == b"[0, 0, 0]"


@pytest.mark.parametrize("version", [-1, 5])
@pytest.mark.parametrize("compile_function", [decoder, encoder, prefix_decoder, source_of])
def test_version_without_a_schema_is_rejected(compile_function, version):
    with pytest.raises(ValueError, match=f"HeartbeatResponse has versions 0-4, not {version}"):
        compile_function(HeartbeatResponse, version)


class TestSource:
    def test_fixed_width_fields_are_read_and_written_in_one_call(self):
        source = source_of(FetchRequest, 12)
        reads = lines_with("o3.fetch_offset", source)
        assert len(reads) == 1
        for name in ("partition", "current_leader_epoch", "log_start_offset"):
            assert f"o3.{name}" in reads[0]

    def test_number_array_is_read_and_written_in_one_call(self):
        source = source_of(MetadataResponse, 12)
        assert len(lines_with("replica_nodes = list(unpack_many_i", source)) == 1
        assert len(lines_with("pack_many_hiiiBNiBNiBNiB[", source)) == 1

    def test_no_version_is_tested_at_run_time(self):
        assert "version" not in source_of(FetchRequest, 12)

    def test_field_missing_from_the_version_is_set_to_its_default(self):
        assert "o.error_code = 0" in source_of(MetadataResponse, 12)
        assert "o.throttle_time_ms = 0" in source_of(HeartbeatResponse, 0)

    @pytest.mark.parametrize("message", all_messages(), ids=lambda message: message.__name__)
    def test_no_function_is_generated_twice(self, message):
        for version in versions_of(message):
            for source in source_of(message, version).split("\n\n"):
                functions = lines_with("def ", source)
                assert len(functions) == len(set(functions)), (version, functions)


class TestLimitsOfTheLanguage:
    def test_arrays_of_uuids_are_rejected(self):
        class Ids(Message, versions="0"):
            ids: list[Uuid] = array(uuid)

        with pytest.raises(AssertionError):
            encoder(Ids, 0)

    def test_arrays_of_arrays_are_rejected(self):
        class Table(Message, versions="0"):
            rows: list[list[int]] = array(lambda: array(int8))

        with pytest.raises(AssertionError, match="array of arrays"):
            encoder(Table, 0)
        with pytest.raises(AssertionError, match="array of arrays"):
            decoder(Table, 0)


class Deep(Message, versions="0-1", flexible="1+"):
    """A message as deep as any in the protocol, with the same names on every level."""

    class Level(Struct):
        class Level(Struct):
            class Level(Struct):
                value: int = int32()
                names: list[str] = array(string)

            level: Level = struct(Level)
            levels: list[Level] = array(Level)

        level: Level = struct(Level)
        levels: list[Level] | None = array(Level, nullable="0+")
        tagged: Level | None = struct(Level, "1+", nullable="1+", tag=0, default=None)

    level: Level = struct(Level)
    levels: list[Level] = array(Level)


def deep(value):
    bottom = Deep.Level.Level.Level
    middle = Deep.Level.Level

    def low(number):
        return bottom(value=value + number, names=["a" * number])

    def mid(number):
        return middle(level=low(number), levels=[low(number + 1), low(number + 2)])

    top = Deep.Level(level=mid(10), levels=[mid(20), mid(30)])
    return Deep(level=top, levels=[Deep.Level(level=mid(40), levels=None), top])


@pytest.mark.parametrize("version", [0, 1])
def test_nested_structs_of_the_same_name_are_distinguished(version):
    message = deep(1000)
    if version == 1:
        message.levels[0].tagged = message.level.level
    frame = b"".join(encoder(Deep, version)(message))
    assert decoder(Deep, version)(frame) == message
