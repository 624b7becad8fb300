"""``odradek`` itself: help, exit codes and commands that need no broker."""

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


def test_help_lists_every_command(offline):
    words = offline("--help").out.split()
    assert [command for command in COMMANDS if command not in words] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(offline, command):
    result = offline(command, "--help")
    assert (result.status, result.err) == (0, "")
    assert result.out.startswith(f"usage: odradek {command} ")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_no_docstring_markup(offline, command):
    assert "``" not in offline(command, "--help").out


@pytest.mark.parametrize(
    "command",
    [
        *("topics", "configs", "groups", "transactions", "produce", "consume"),
        *("cluster", "reassign", "leaders"),
    ],
)
def test_examples_in_help_are_complete_commands(offline, command):
    lines = offline(command, "--help").lines
    examples = lines[lines.index("Examples:") + 1 :]
    assert len(examples) == 2
    assert all(line.startswith(f"  odradek {command} ") for line in examples)


@pytest.mark.parametrize("verb", ["create", "list", "describe", "alter", "delete"])
def test_help_of_every_topics_verb_names_the_default_address(offline, verb):
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


@pytest.mark.parametrize("arguments", [[], ["nix"], ["topics"], ["topics", "create"], ["consume"]])
def test_invalid_command_exits_with_2(offline, arguments):
    assert offline(*arguments).status == 2


def test_version_is_printed(offline):
    (line,) = offline("version").lines
    assert line.startswith(f"odradek {odradek.__version__} on Python 3.")


def test_unreachable_broker_is_reported_at_once_in_one_line(offline):
    port = free_port()
    complaint = offline("topics", "list", "--bootstrap", f"127.0.0.1:{port}").complaint
    assert complaint == f"odradek: no broker is reachable at 127.0.0.1:{port}: Connection refused"


@pytest.mark.parametrize("address", ["nowhere", "host:port", ":1", "h:99999999"])
def test_invalid_address_is_reported_in_one_line(offline, address):
    assert address in offline("topics", "list", "--bootstrap", address).complaint


def test_missing_client_package_is_reported_in_one_line(offline, monkeypatch):
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    complaint = offline("topics", "list").complaint
    assert complaint == "odradek: this command needs confluent_kafka: pip install 'odradek[cli]'"


def test_heavy_modules_are_not_imported_at_startup():
    program = (
        "import sys, odradek.broker.cli.main\n"
        "print(*{'asyncio', 'confluent_kafka', 'rich', 'odradek.broker.server'} & set(sys.modules))"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30
    )
    assert result.stdout.split() == []


def test_closed_standard_output_causes_no_traceback(command):
    command("topics", "create", *(f"topic-{number}" for number in range(5)))
    listing = [*ODRADEK, "topics", "list", "--bootstrap", command.bootstrap]
    read_end, write_end = os.pipe()
    os.close(read_end)
    result = subprocess.run(
        listing, stdout=write_end, stderr=subprocess.PIPE, text=True, timeout=30
    )
    os.close(write_end)
    assert (result.returncode, result.stderr) == (128 + 13, "")


def test_dump_log_prints_the_records_of_a_log(command, broker):
    command("topics", "create", "dumped")
    command("produce", "dumped", "in a file")
    command.bootstrap = None
    dumped = command("dump-log", "--records", broker.data_dir / "dumped-0")
    assert 'value "in a file"' in dumped.out
    assert dumped.status == 0


def test_property_option_overrides_the_client_settings_of_a_command():
    arguments = type("Arguments", (), {"bootstrap": "h:1", "property": []})
    assert client.settings(arguments, linger_ms=5)["linger.ms"] == 5
    arguments.property = [client.parse_name_value("linger.ms=7")]
    assert client.settings(arguments, linger_ms=5)["linger.ms"] == "7"


def test_broker_that_does_not_respond_is_reported_in_one_line(offline):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        result = offline("groups", "list", "--bootstrap", address, "--timeout", "0.5")
    assert (result.status, result.out) == (1, "")
    assert result.err.startswith("odradek: ")
    assert result.err.count("\n") == 1
