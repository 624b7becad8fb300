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


def test_values_are_written_and_read(command, topic):
    assert command("produce", topic, "one", "two").lines == []
    assert read(command, topic).lines == ["one", "two"]


def test_values_may_stand_behind_options(command, topic):
    command("produce", topic, "--key", "alice", "one", "--codec", "lz4", "two")
    assert [(each["key"], each["value"]) for each in read(command, topic, "--json").objects] == [
        ("alice", "one"),
        ("alice", "two"),
    ]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_records_travel_with_every_codec_and_acknowledgement(command, topic, codec, acks):
    lines = "".join(f"record {number}\n" for number in range(500))
    command("produce", topic, "--codec", codec, "--acks", acks, stdin=lines.encode())
    counted = command("consume", topic, "--count", 500, "--idle", 10)
    assert counted.lines == lines.splitlines()


def test_lines_of_a_file_are_records(command, topic, tmp_path):
    file = tmp_path / "lines"
    file.write_bytes(b"a\n\nb\r\nlast")
    command("produce", topic, "--file", file)
    assert [each["value"] for each in read(command, topic, "--json").objects] == [
        *("a", "", "b\r", "last")
    ]


def test_keys_headers_and_places_are_kept(command, topic):
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


def test_json_goes_from_one_topic_to_another(command, topic):
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
    assert [each | {"topic": topic} for each in copied] == [first, second]


def test_a_template_says_how_records_are_printed(command, topic):
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
def test_reading_begins_where_it_is_told_to(command, topic, start, values):
    lines = [
        b'{"value": "%s", "timestamp": %d}\n' % (value, (at + 1) * 1000)
        for at, value in enumerate([b"a", b"b", b"c", b"d"])
    ]
    command("produce", topic, "--json", stdin=b"".join(lines))
    assert read(command, topic, "--from", start).lines == values


def test_partitions_are_chosen_and_missed(command, topic):
    command("topics", "alter", topic, "--partitions", 3)
    for partition in range(3):
        command("produce", topic, f"in {partition}", "--partition", partition)
    assert read(command, topic, "--partition", 2).lines == ["in 2"]
    assert sorted(read(command, topic).lines) == ["in 0", "in 1", "in 2"]
    assert "has no partition 3" in read(command, topic, "--partition", 3).complaint


def test_reading_stops_after_the_records_that_were_asked_for(command, topic):
    command("produce", topic, "a", "b", "c")
    assert command("consume", topic, "--count", 2).lines == ["a", "b"]


def test_reading_stops_when_nothing_comes_any_more(command, topic):
    command("produce", topic, "a")
    assert command("consume", topic, "--idle", 0.3).lines == ["a"]


@pytest.mark.parametrize(
    ("arguments", "stdin", "complaint"),
    [
        (["--key-separator", ":"], b"k:v\nvalue\n", "record 2: there is no ':' after a key"),
        (["--json"], b"{", "record 1: "),
        (["--json"], b"[]", "record 1: a record is an object with a value"),
        (["--json"], b'{"value": "", "x": 1}', "record 1: a record has no x"),
        (["--json"], b'{"value": "", "partition": "0"}', "record 1: partition must be a number"),
        (["--json"], b'{"value": {"base64": "%"}}', "record 1: base64"),
        (["--json"], b'{"value": "", "headers": ["h"]}', "record 1: headers are pairs"),
        (["--idempotent", "--acks", "1"], b"", "--idempotent needs --acks all"),
        (["v", "--file", "f"], b"", "give values or --file, not both"),
        (["--file", "missing"], b"", "missing: No such file"),
        (["v", "--partition", "9", "--timeout", "2"], b"", "1 of 1 records were not written"),
        (["v", "--property", "nix=1"], b"", "nix"),
    ],
)
def test_records_that_cannot_be_written_are_told_of_in_one_line(
    command, topic, arguments, stdin, complaint
):
    assert complaint in command("produce", topic, *arguments, stdin=stdin).complaint


def test_what_comes_before_a_line_that_is_no_record_is_written(command, topic):
    lines = b"".join(b"k:%d\n" % number for number in range(100)) + b"no key\nk:after\n"
    refused = command("produce", topic, "--key-separator", ":", stdin=lines)
    assert "record 101: there is no ':'" in refused.complaint
    assert read(command, topic).lines == [str(number) for number in range(100)]


@pytest.mark.parametrize("written", ["-1", "0", "1.5", "all"])
def test_a_count_is_a_number_of_records(offline, written):
    refused = offline("consume", "t", "--count", written)
    assert refused.status == 2
    assert f"--count: '{written}' is not a number of records, at least 1" in refused.err


@pytest.mark.parametrize("written", ["nan", "-1", "soon"])
def test_an_idle_time_is_a_time(offline, written):
    refused = offline("consume", "t", "--idle", written)
    assert refused.status == 2
    assert "is not a number of seconds" in refused.err


def test_a_record_that_is_too_large_is_refused(command, topic):
    assert command("produce", topic, "v" * 600_000, "w" * 600_000).lines == []
    narrow = f"{topic}-narrow"
    command("topics", "create", narrow, "--config", "max.message.bytes=1000")
    refused = command("produce", narrow, "v" * 2000)
    assert refused.complaint.startswith(
        "odradek: 1 of 1 records were not written: MSG_SIZE_TOO_LARGE"
    )


@pytest.mark.parametrize("written", ["{nix}", "{value.nix}", "{value", "{0}"])
def test_a_template_that_asks_for_what_is_not_there_is_refused(command, topic, written):
    complaint = command("consume", topic, "--format", written).complaint
    assert f"--format {written!r}: all there is are {{topic}}, " in complaint


def test_an_unknown_topic_cannot_be_read_and_is_not_created(command):
    assert "UNKNOWN_TOPIC" in command("consume", "nobodys", "--until-end").complaint
    assert "nobodys" not in [row[0] for row in command("topics", "list").rows]
