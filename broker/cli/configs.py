"""``odradek configs``: describe and alter the settings of topics, brokers and groups."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from odradek.broker.cli import client, tables
from odradek.broker.cli.errors import CommandFailed
from odradek.broker.cli.examples import examples
from odradek.broker.cli.name_values import parse_name_value, to_dict

if TYPE_CHECKING:
    from confluent_kafka.admin import ConfigEntry, ConfigResource

Commands = argparse._SubParsersAction  # the only name that argparse has for it

TOPIC, BROKER, GROUP = "topic", "broker", "group"
#: Names that users may try for the cluster-wide default, whose name in the protocol is empty.
ALL_BROKERS = frozenset({"", "default", "<default>"})
COLUMNS = ("name", "value", "source", "read_only", "sensitive")


def add_to(commands: Commands[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "configs",
        help="describe and alter the settings of topics, brokers and groups",
        description="Describe and alter the settings of topics, brokers and groups.",
        **examples(
            "odradek configs describe topic orders",
            "odradek configs alter topic orders --set retention.ms=60000",
        ),
    )
    verbs = parser.add_subparsers(title="what to do", metavar="VERB", required=True)
    _add_describe(verbs)
    _add_alter(verbs)


def _add_describe(verbs: Commands[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "describe",
        help="show settings and their sources",
        description="Show the settings of a topic, broker or group that are not defaults, and the "
        "source of each: the resource itself, the cluster-wide default of all brokers, or the "
        "broker's settings file.",
    )
    _add_resource(parser)
    parser.add_argument("--all", action="store_true", help="also show settings at their default")
    tables.add_options(parser)
    client.add_options(parser)
    parser.set_defaults(run=client.client_command(describe))


def _add_alter(verbs: Commands[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "alter",
        help="change settings of topics, brokers and groups",
        description="Change settings of a topic, broker or group.  Settings that are not named "
        "stay unchanged.",
    )
    _add_resource(parser)
    options = {
        "--set": "set a setting to a value",
        "--append": "append a value to a setting that is a list",
        "--subtract": "remove a value from a setting that is a list",
    }
    for option, help_text in options.items():
        parser.add_argument(
            option,
            metavar="NAME=VALUE",
            type=parse_name_value,
            action="append",
            default=[],
            help=f"{help_text}; repeatable",
        )
    parser.add_argument(
        "--unset",
        metavar="NAME",
        action="append",
        default=[],
        help="reset a setting to its default; repeatable",
    )
    client.add_options(parser)
    parser.set_defaults(run=client.client_command(alter))


def _add_resource(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kind", choices=(TOPIC, BROKER, GROUP))
    parser.add_argument(
        "name",
        metavar="NAME",
        help="the name of the topic or group, or the id of the broker (a broker shows the "
        "cluster-wide defaults too; only Kafka's kafka-configs --entity-default changes them)",
    )


def describe(arguments: argparse.Namespace) -> int:
    resource = _config_resource(arguments.kind, arguments.name)
    admin = client.create_admin_client(arguments)
    futures = admin.describe_configs([resource], request_timeout=arguments.timeout)
    entries: Mapping[str, ConfigEntry] = client.wait_for_result(arguments.name, futures[resource])
    rows = [
        (name, entry.value, _source_name(entry), entry.is_read_only, entry.is_sensitive)
        for name, entry in sorted(entries.items())
        if arguments.all or _source_name(entry) != "default"
    ]
    title = f"Settings of {arguments.kind} {arguments.name}"
    tables.show(COLUMNS, rows, title=title, as_json=arguments.json)
    return 0


def alter(arguments: argparse.Namespace) -> int:
    changes = {
        "SET": to_dict(arguments.set),
        "APPEND": to_dict(arguments.append),
        "SUBTRACT": to_dict(arguments.subtract),
    }
    if not any(changes.values()) and not arguments.unset:
        raise CommandFailed("no change given: use --set, --append, --subtract or --unset")
    return _alter(arguments, arguments.kind, changes, arguments.unset)


def alter_topic(
    arguments: argparse.Namespace, values: Mapping[str, str], unset: Iterable[str]
) -> int:
    """Return the exit code."""
    return _alter(arguments, TOPIC, {"SET": values}, unset)


def _alter(
    arguments: argparse.Namespace,
    resource_type: str,
    changes: Mapping[str, Mapping[str, str]],
    unset: Iterable[str],
) -> int:
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry

    resource = _config_resource(resource_type, arguments.name)
    for operation, texts in changes.items():
        for name, text in texts.items():
            operation_type = AlterConfigOpType[operation]
            resource.add_incremental_config(
                ConfigEntry(name, text, incremental_operation=operation_type)
            )
    for name in unset:
        operation_type = AlterConfigOpType.DELETE
        resource.add_incremental_config(
            ConfigEntry(name, None, incremental_operation=operation_type)
        )
    admin = client.create_admin_client(arguments)
    futures = admin.incremental_alter_configs([resource], request_timeout=arguments.timeout)
    futures_by_name = {f"{resource_type} {arguments.name}": future for future in futures.values()}
    return client.report_results(futures_by_name, done="altered")


def _config_resource(resource_type: str, name: str) -> ConfigResource:
    from confluent_kafka.admin import ConfigResource, ResourceType

    if resource_type == BROKER and name in ALL_BROKERS:
        raise CommandFailed(
            "librdkafka cannot address the cluster-wide default of brokers: alter each broker by "
            "its id, or use Kafka's kafka-configs --entity-type brokers --entity-default"
        )
    if not name or (resource_type == BROKER and not name.isdecimal()):
        text = f"{name!r} is not a topic name, a group id or a broker id"
        raise CommandFailed(text)
    return ConfigResource(ResourceType[resource_type.upper()], name)


def _source_name(entry: ConfigEntry) -> str:
    """Return ``topic``, ``broker``, ``default broker``, ``static broker`` (file) or ``default``."""
    from confluent_kafka.admin import ConfigSource

    name = ConfigSource(entry.source).name
    return name.removeprefix("DYNAMIC_").removesuffix("_CONFIG").replace("_", " ").lower()
