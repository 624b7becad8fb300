"""``odradek`` itself: help, exit statuses, and what needs no broker."""

import os
import socket
import subprocess
import sys

import pytest

import odradek
from odradek.broker.cli import client
from tests.support.free_ports import free_port

ODRADEK = [sys.executable, "-m", "odradek.broker.cli.main"]
COMMANDS = [
    *("serve", "topics", "configs", "groups", "transactions", "produce", "consume"),
    *("cluster", "reassign", "leaders", "scan", "dump-log", "zookeeper", "version"),
]


def test_help_names_every_command(offline):
    words = offline("--help").out.split()
    assert [command for command in COMMANDS if command not in words] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(offline, command):
    ran = offline(command, "--help")
    assert (ran.status, ran.err) == (0, "")
    assert ran.out.startswith(f"usage: odradek {command} ")


@pytest.mark.parametrize("command", COMMANDS)
def test_no_help_has_the_marks_of_our_own_comments(offline, command):
    assert "``" not in offline(command, "--help").out


@pytest.mark.parametrize(
    "command",
    [
        *("topics", "configs", "groups", "transactions", "produce", "consume"),
        *("cluster", "reassign", "leaders"),
    ],
)
def test_each_example_is_a_line_to_be_copied(offline, command):
    lines = offline(command, "--help").lines
    examples = lines[lines.index("Examples:") + 1 :]
    assert len(examples) == 2
    assert all(line.startswith(f"  odradek {command} ") for line in examples)


@pytest.mark.parametrize("verb", ["create", "list", "describe", "alter", "delete"])
def test_every_verb_of_topics_has_help_with_the_default_address(offline, verb):
    assert "127.0.0.1:9092" in offline("topics", verb, "--help").out


@pytest.mark.parametrize(
    ("command", "verb"),
    [
        *(("groups", verb) for verb in ("list", "describe", "reset-offsets", "delete")),
        ("groups", "delete-offsets"),
        *(("transactions", verb) for verb in ("list", "describe", "describe-producers")),
        *(("transactions", verb) for verb in ("find-hanging", "abort")),
        *(("reassign", verb) for verb in ("generate", "execute", "verify", "cancel", "list")),
        *(("leaders", "elect"), ("cluster", "status")),
    ],
)
def test_every_verb_has_help_with_examples(offline, command, verb):
    lines = offline(command, verb, "--help").lines
    examples = lines[lines.index("Examples:") + 1 :]
    assert len(examples) >= 2
    assert all(line.startswith(f"  odradek {command} {verb}") for line in examples)
    assert any("127.0.0.1:9092" in line for line in lines)


@pytest.mark.parametrize("words", [[], ["nix"], ["topics"], ["topics", "create"], ["consume"]])
def test_a_command_that_makes_no_sense_has_status_2(offline, words):
    assert offline(*words).status == 2


def test_the_version_is_told(offline):
    (line,) = offline("version").lines
    assert line.startswith(f"odradek {odradek.__version__} on Python 3.")


def test_a_broker_that_is_not_there_is_told_in_one_line_at_once(offline):
    port = free_port()
    complaint = offline("topics", "list", "--bootstrap", f"127.0.0.1:{port}").complaint
    assert complaint == f"odradek: no broker answers at 127.0.0.1:{port}: Connection refused"


@pytest.mark.parametrize("address", ["nowhere", "host:port", ":1", "h:99999999"])
def test_an_address_that_makes_no_sense_is_told_in_one_line(offline, address):
    assert address in offline("topics", "list", "--bootstrap", address).complaint


def test_a_client_that_is_not_installed_is_told_in_one_line(offline, monkeypatch):
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    complaint = offline("topics", "list").complaint
    assert complaint == "odradek: this command needs confluent_kafka: pip install 'odradek[cli]'"


def test_nothing_heavy_is_imported_before_it_is_needed():
    program = (
        "import sys, odradek.broker.cli.main\n"
        "print(*{'asyncio', 'confluent_kafka', 'rich', 'odradek.broker.server'} & set(sys.modules))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30
    )
    assert ran.stdout.split() == []


def test_a_reader_that_has_gone_is_no_traceback(command):
    command("topics", "create", *(f"topic-{number}" for number in range(5)))
    listing = [*ODRADEK, "topics", "list", "--bootstrap", command.bootstrap]
    reading, writing = os.pipe()
    os.close(reading)
    ran = subprocess.run(listing, stdout=writing, stderr=subprocess.PIPE, text=True, timeout=30)
    os.close(writing)
    assert (ran.returncode, ran.stderr) == (128 + 13, "")


def test_the_files_of_a_log_are_dumped(command, broker):
    command("topics", "create", "dumped")
    command("produce", "dumped", "in a file")
    command.bootstrap = None
    dumped = command("dump-log", "--records", broker.data_dir / "dumped-0")
    assert 'value "in a file"' in dumped.out
    assert dumped.status == 0


def test_what_a_command_asks_of_the_library_can_be_overridden():
    arguments = type("Arguments", (), {"bootstrap": "h:1", "property": []})
    assert client.settings(arguments, linger_ms=5)["linger.ms"] == 5
    arguments.property = [client.assignment("linger.ms=7")]
    assert client.settings(arguments, linger_ms=5)["linger.ms"] == "7"


def test_a_broker_that_takes_connections_but_does_not_answer_is_told_of_in_one_line(offline):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        ran = offline("groups", "list", "--bootstrap", address, "--timeout", "0.5")
    assert (ran.status, ran.out) == (1, "")
    assert ran.err.startswith("odradek: ")
    assert ran.err.count("\n") == 1
