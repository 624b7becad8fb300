"""Settings from file, environment and command line, and the messages for invalid ones."""

import logging

import pytest

from odradek.broker.settings.server_settings import SETTINGS_BY_NAME
from odradek.broker.settings.sources import BadSettings, load, setting_name_of


def load_file(tmp_path, text="", *, environment=None, overrides=(), **options):
    file = tmp_path / "server.properties"
    file.write_text(text)
    return load(file=file, environment=environment or {}, overrides=overrides, **options)


def error_message(tmp_path, *arguments, **keywords):
    with pytest.raises(BadSettings) as error:
        load_file(tmp_path, *arguments, **keywords)
    message = str(error.value)
    assert "\n" not in message
    return message.replace(f"{tmp_path}/", "")


def test_settings_without_file_are_the_defaults():
    assert load(file=None, environment={}, overrides=()).broker.num_partitions == 1


def test_each_source_overrides_those_before_it(tmp_path):
    text = "num.partitions=2\nbroker.rack=file\nbroker.id=1\n"
    environment = {"ODRADEK_NUM_PARTITIONS": "3", "ODRADEK_BROKER_RACK": "environment"}
    settings = load_file(
        tmp_path, text, environment=environment, overrides=["num.partitions = 4", "broker.rack="]
    )
    assert (settings.broker.num_partitions, settings.broker.rack, settings.broker.id) == (4, "", 1)


# Environment variables


@pytest.mark.parametrize(
    ("variable", "name"),
    [
        ("ODRADEK_LOG_SEGMENT_BYTES", "log.segment.bytes"),
        ("ODRADEK_ZOOKEEPER_CLIENTCNXNSOCKET", "zookeeper.clientCnxnSocket"),
        ("ODRADEK_SSL_KEYSTORE_LOCATION", "ssl.keystore.location"),
        ("ODRADEK_LISTENER_NAME_MY__A___B_MAX_CONNECTIONS", "listener.name.my_a-b.max.connections"),
        ("ODRADEK_FUZZ_SEED", None),
        ("LOG_SEGMENT_BYTES", None),
        ("ODRADEK_", None),
    ],
)
def test_variable_is_mapped_to_a_setting_or_ignored(variable, name):
    assert setting_name_of(variable) == name


@pytest.mark.parametrize("name", SETTINGS_BY_NAME)
def test_every_setting_has_a_variable(name):
    assert setting_name_of("ODRADEK_" + name.upper().replace(".", "_")) == name


def test_other_variables_are_ignored(tmp_path, caplog):
    load_file(tmp_path, environment={"ODRADEK_FUZZ_SEED": "7", "PATH": "/bin"})
    assert caplog.records == []


class TestPort:
    FILE = "listeners=PLAINTEXT://0.0.0.0:9092\nadvertised.listeners=PLAINTEXT://there:9092\n"

    def network(self, tmp_path, text="", **sources):
        return load_file(tmp_path, text, **sources).network

    def test_port_overrides_the_listeners_of_the_file(self, tmp_path):
        network = self.network(tmp_path, self.FILE, port=0)
        assert network.listeners == network.advertised_listeners == "PLAINTEXT://127.0.0.1:0"

    def test_port_overrides_the_environment(self, tmp_path):
        environment = {"ODRADEK_ADVERTISED_LISTENERS": "PLAINTEXT://there:1"}
        network = self.network(tmp_path, port=7, environment=environment)
        assert network.advertised_listeners == "PLAINTEXT://127.0.0.1:7"

    def test_port_sets_no_advertised_listeners_if_there_are_none(self, tmp_path):
        assert self.network(tmp_path, port=7).advertised_listeners is None

    def test_override_wins_over_the_port(self, tmp_path):
        overrides = ["advertised.listeners=PLAINTEXT://tunnel:7"]
        network = self.network(tmp_path, self.FILE, port=7, overrides=overrides)
        assert network.listeners == "PLAINTEXT://127.0.0.1:7"
        assert network.advertised_listeners == "PLAINTEXT://tunnel:7"

    def test_invalid_port_is_rejected(self, tmp_path):
        message = error_message(tmp_path, port=70000)
        assert message.startswith("--port: listeners=PLAINTEXT://127.0.0.1:70000: must have ports")


def test_defaults_apply_without_a_file_and_are_overridden_by_all_else(tmp_path):
    defaults = {"listeners": "PLAINTEXT://127.0.0.1:1"}
    assert load(file=None, environment={}, overrides=(), defaults=defaults).network.listeners == (
        "PLAINTEXT://127.0.0.1:1"
    )
    environment = {"ODRADEK_LISTENERS": "PLAINTEXT://127.0.0.1:2"}
    settings = load(file=None, environment=environment, overrides=(), defaults=defaults)
    assert settings.network.listeners == "PLAINTEXT://127.0.0.1:2"
    assert (
        load_file(tmp_path, "broker.id=1\n", defaults=defaults).network.listeners
        == "PLAINTEXT://:9092"
    )


# Error messages of one line


def test_error_in_the_file_names_its_line(tmp_path):
    assert error_message(tmp_path, "# numbers\nnum.partitions=0\n") == (
        "server.properties:2: num.partitions=0: must be at least 1"
    )


def test_invalid_zookeeper_address_names_its_line(tmp_path):
    message = error_message(tmp_path, "broker.id=1\nzookeeper.connect=localhost:abc\n")
    assert message.startswith("server.properties:2: zookeeper.connect=localhost:abc: must be host:")


def test_listener_on_all_addresses_names_its_line(tmp_path):
    message = error_message(tmp_path, "broker.id=1\nlisteners=PLAINTEXT://0.0.0.0:0\n")
    assert message.startswith("server.properties:2: listeners=PLAINTEXT://0.0.0.0:0: needs adver")


def test_error_in_a_duplicate_setting_names_the_line_that_counts(tmp_path):
    message = error_message(tmp_path, "num.partitions=1\n\nnum.partitions=many\n")
    assert message.startswith("server.properties:3: num.partitions=many: must be a whole number")


def test_error_in_the_environment_names_its_variable(tmp_path):
    message = error_message(tmp_path, environment={"ODRADEK_LOG_CLEANUP_POLICY": "shred"})
    assert message == (
        "ODRADEK_LOG_CLEANUP_POLICY: log.cleanup.policy=shred: must be one of compact, delete"
    )


def test_error_on_the_command_line_names_the_option(tmp_path):
    message = error_message(tmp_path, overrides=["broker.id=-7"])
    assert message.startswith("--override: broker.id=-7: must be between -1 and")


def test_override_must_have_a_name_and_a_value(tmp_path):
    assert (
        error_message(tmp_path, overrides=["broker.id"])
        == "--override broker.id: must be name=value"
    )
    assert error_message(tmp_path, overrides=["=3"]) == "--override =3: must be name=value"


def test_error_in_a_derived_value_names_the_file(tmp_path):
    message = error_message(tmp_path, "log.retention.hours=0\n")
    assert message.startswith("server.properties: log.retention.ms=0: must be at least 1")


def test_error_in_a_default_names_no_source():
    with pytest.raises(BadSettings, match=r"^broker\.id=-1: must be at least 0"):
        load(file=None, environment={}, overrides=["broker.id.generation.enable=false"])


def test_secret_is_not_in_the_message(tmp_path):
    message = error_message(
        tmp_path, "zookeeper.set.acl=true\nzookeeper.ssl.keystore.password=hush\n"
    )
    assert "hush" not in message


def test_missing_file_is_an_error(tmp_path):
    with pytest.raises(BadSettings, match=r"nowhere.properties: No such file or directory"):
        load(file=tmp_path / "nowhere.properties", environment={}, overrides=())


def test_syntax_error_in_the_file_names_its_line(tmp_path):
    assert error_message(tmp_path, "a=b\nc=\\u12\n").startswith("server.properties:2: \\u must be")


# Plugins

PLUGINS = [
    "authorizer.class.name",
    "principal.builder.class",
    "create.topic.policy.class.name",
    "alter.config.policy.class.name",
    "client.quota.callback.class",
]


@pytest.mark.parametrize("name", [*PLUGINS, "listener.name.internal.principal.builder.class"])
def test_unsupported_plugin_prevents_the_start(tmp_path, name):
    assert error_message(tmp_path, f"broker.id=1\n{name}=com.example.Plugin\n") == (
        f"server.properties:2: {name}=com.example.Plugin: is not supported "
        "and would not be enforced; remove the setting"
    )


def test_unsupported_plugin_in_environment_or_override_prevents_the_start(tmp_path):
    environment = {"ODRADEK_AUTHORIZER_CLASS_NAME": "com.example.Plugin"}
    assert error_message(tmp_path, environment=environment).startswith(
        "ODRADEK_AUTHORIZER_CLASS_NAME: "
    )
    overrides = ["create.topic.policy.class.name=com.example.Plugin"]
    assert error_message(tmp_path, overrides=overrides).startswith("--override: ")


def test_values_without_plugin_are_accepted(tmp_path):
    default_builder = "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"
    load_file(tmp_path, "".join(f"{name}=\n" for name in PLUGINS))
    load_file(tmp_path, f"principal.builder.class={default_builder}\n")


# Warnings


def test_unsupported_settings_are_logged_in_one_line(tmp_path, caplog):
    text = "ssl.provider=x\nprocess.roles=broker\nnum.partitons=3\n"
    with caplog.at_level(logging.WARNING):
        load_file(tmp_path, text + "listener.name.internal.ssl.keystore.location=y\n")
    assert [record.message for record in caplog.records] == [
        "Ignoring unsupported settings; Kafka settings: "
        "listener.name.internal.ssl.keystore.location, process.roles, ssl.provider; "
        "unknown: num.partitons"
    ]


def test_duplicate_setting_is_logged_with_its_lines(tmp_path, caplog):
    load_file(tmp_path, "broker.id=1\nbroker.id=2\n")
    (record,) = caplog.records
    assert record.message.endswith("broker.id is set on lines 1, 2; the last value is used")
