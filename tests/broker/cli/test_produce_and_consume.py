"""``odradek produce`` and ``odradek consume`` against a broker."""

import itertools

import pytest

from odradek.broker.cli.produce import CODECS

numbers = itertools.count()


@pytest.fixture
def topic(command):
    name = f"records-{next(numbers)}"
    command("topics", "create", name)
    return name


def read(command, topic, *arguments):
    return command("consume", topic, "--until-end", *arguments)


def test_produced_values_are_consumed(command, topic):
    assert command("produce", topic, "one", "two").lines == []
    assert read(command, topic).lines == ["one", "two"]


def test_values_may_follow_options(command, topic):
    command("produce", topic, "--key", "alice", "one", "--codec", "lz4", "two")
    assert [
        (record["key"], record["value"]) for record in read(command, topic, "--json").objects
    ] == [
        ("alice", "one"),
        ("alice", "two"),
    ]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_records_are_delivered_with_every_codec_and_acks(command, topic, codec, acks):
    lines = "".join(f"record {number}\n" for number in range(500))
    command("produce", topic, "--codec", codec, "--acks", acks, stdin=lines.encode())
    consumed = command("consume", topic, "--count", 500, "--idle", 10)
    assert consumed.lines == lines.splitlines()


def test_each_line_of_a_file_is_a_record(command, topic, tmp_path):
    file = tmp_path / "lines"
    file.write_bytes(b"a\n\nb\r\nlast")
    command("produce", topic, "--file", file)
    assert [record["value"] for record in read(command, topic, "--json").objects] == [
        *("a", "", "b\r", "last")
    ]


def test_key_headers_and_partition_are_produced(command, topic):
    reported = command(
        *("produce", topic, "--key-separator", ":", "--header", "h=1", "--header", "h=2"),
        *("--partition", 0, "--report", "--idempotent"),
        stdin=b"k:v:w\n",
    )
    assert reported.lines == ["0\t0"]
    (record,) = read(command, topic, "--json").objects
    assert record.pop("timestamp") > 1_600_000_000_000
    assert record == {
        "topic": topic,
        "partition": 0,
        "offset": 0,
        "key": "k",
        "value": "v:w",
        "headers": [["h", "1"], ["h", "2"]],
    }


def test_json_records_are_copied_to_another_topic(command, topic):
    command(
        *("produce", topic, "--json"),
        stdin=b'{"value": null, "key": "gone"}\n'
        b'{"value": {"base64": "/w=="}, "timestamp": 1600000000000, "headers": [["n", null]]}\n',
    )
    read_once = read(command, topic, "--json")
    first, second = read_once.objects
    assert (first["key"], first["value"]) == ("gone", None)
    assert (second["value"], second["timestamp"]) == ({"base64": "/w=="}, 1_600_000_000_000)
    assert second["headers"] == [["n", None]]
    command("topics", "create", f"{topic}-copy")
    command("produce", f"{topic}-copy", "--json", stdin=read_once.out.encode())
    copied = read(command, f"{topic}-copy", "--json").objects
    assert [record | {"topic": topic} for record in copied] == [first, second]


def test_format_option_sets_the_printed_fields(command, topic):
    command("produce", topic, "v", "--key", "k", "--header", "h=1")
    printed = read(
        command, topic, "--format", r"{topic}:{partition}:{offset}\t{key}={value} {headers}"
    )
    assert printed.lines == [f"{topic}:0:0\tk=v h=1"]


@pytest.mark.parametrize(
    ("start", "values"),
    [
        ("beginning", ["a", "b", "c", "d"]),
        ("0", ["a", "b", "c", "d"]),
        ("2", ["c", "d"]),
        ("99", []),
        ("-1", ["d"]),
        ("-99", ["a", "b", "c", "d"]),
        ("end", []),
        ("@3000", ["c", "d"]),
        ("1970-01-01T00:00:04+00:00", ["d"]),
        ("@5000", []),
    ],
)
def test_consume_starts_at_the_given_position(command, topic, start, values):
    lines = [
        b'{"value": "%s", "timestamp": %d}\n' % (value, (index + 1) * 1000)
        for index, value in enumerate([b"a", b"b", b"c", b"d"])
    ]
    command("produce", topic, "--json", stdin=b"".join(lines))
    assert read(command, topic, "--from", start).lines == values


def test_partition_option_selects_and_validates_partitions(command, topic):
    command("topics", "alter", topic, "--partitions", 3)
    for partition in range(3):
        command("produce", topic, f"in {partition}", "--partition", partition)
    assert read(command, topic, "--partition", 2).lines == ["in 2"]
    assert sorted(read(command, topic).lines) == ["in 0", "in 1", "in 2"]
    assert "has no partition 3" in read(command, topic, "--partition", 3).complaint


def test_consume_stops_after_the_given_count(command, topic):
    command("produce", topic, "a", "b", "c")
    assert command("consume", topic, "--count", 2).lines == ["a", "b"]


def test_consume_stops_after_the_idle_time(command, topic):
    command("produce", topic, "a")
    assert command("consume", topic, "--idle", 0.3).lines == ["a"]


@pytest.mark.parametrize(
    ("arguments", "stdin", "complaint"),
    [
        (["--key-separator", ":"], b"k:v\nvalue\n", "record 2: the key separator ':' is missing"),
        (["--json"], b"{", "record 1: "),
        (["--json"], b"[]", "record 1: a record must be a JSON object with a value"),
        (["--json"], b'{"value": "", "x": 1}', "record 1: unknown field x"),
        (["--json"], b'{"value": "", "partition": "0"}', "record 1: partition must be a number"),
        (["--json"], b'{"value": {"base64": "%"}}', "record 1: base64"),
        (["--json"], b'{"value": "", "headers": ["h"]}', "record 1: headers must be pairs"),
        (["--idempotent", "--acks", "1"], b"", "--idempotent needs --acks all"),
        (["v", "--file", "f"], b"", "give values or --file, not both"),
        (["--file", "missing"], b"", "missing: No such file"),
        (["v", "--partition", "9", "--timeout", "2"], b"", "1 of 1 records were not delivered"),
        (["v", "--property", "nix=1"], b"", "nix"),
    ],
)
def test_invalid_produce_is_reported_in_one_line(command, topic, arguments, stdin, complaint):
    assert complaint in command("produce", topic, *arguments, stdin=stdin).complaint


def test_records_before_an_invalid_line_are_delivered(command, topic):
    lines = b"".join(b"k:%d\n" % number for number in range(100)) + b"no key\nk:after\n"
    result = command("produce", topic, "--key-separator", ":", stdin=lines)
    assert "record 101: the key separator ':'" in result.complaint
    assert read(command, topic).lines == [str(number) for number in range(100)]


@pytest.mark.parametrize("text", ["-1", "0", "1.5", "all"])
def test_count_must_be_a_positive_integer(offline, text):
    result = offline("consume", "t", "--count", text)
    assert result.status == 2
    assert f"--count: '{text}' is not a number of records of at least 1" in result.err


@pytest.mark.parametrize("text", ["nan", "-1", "soon"])
def test_idle_time_must_be_a_number_of_seconds(offline, text):
    result = offline("consume", "t", "--idle", text)
    assert result.status == 2
    assert "is not a number of seconds" in result.err


def test_record_that_is_too_large_is_rejected(command, topic):
    assert command("produce", topic, "v" * 600_000, "w" * 600_000).lines == []
    narrow = f"{topic}-narrow"
    command("topics", "create", narrow, "--config", "max.message.bytes=1000")
    rejected = command("produce", narrow, "v" * 2000)
    assert rejected.complaint.startswith(
        "odradek: 1 of 1 records were not delivered: MSG_SIZE_TOO_LARGE"
    )


@pytest.mark.parametrize("template", ["{nix}", "{value.nix}", "{value", "{0}"])
def test_format_with_unknown_fields_is_rejected(command, topic, template):
    complaint = command("consume", topic, "--format", template).complaint
    assert f"--format {template!r}: the fields are {{topic}}, " in complaint


def test_consume_does_not_create_an_unknown_topic(command):
    assert "UNKNOWN_TOPIC" in command("consume", "nobodys", "--until-end").complaint
    assert "nobodys" not in [row[0] for row in command("topics", "list").rows]
