"""``odradek serve``: ready file, port, ignored SIGHUP and connection limits."""

import signal

from odradek.protocol.api_keys import ApiKey
from tests.broker.cli.test_serve import consumed, produce, wait_until
from tests.support.broker_process import BrokerProcess
from tests.support.free_ports import free_port
from tests.support.wire_client import call

BROKER = 4
SET, DELETE = 0, 1


def test_ready_file_is_removed_on_shutdown(tmp_path):
    ready_file = tmp_path / "ready"
    arguments = ("--ready-file", str(ready_file))
    with BrokerProcess(tmp_path / "logs", arguments=arguments) as broker:
        broker.launch()
        wait_until(ready_file.exists)
        broker.send(signal.SIGTERM)
        assert broker.wait() == 0
    assert not ready_file.exists()


def test_port_option_also_sets_the_advertised_port(tmp_path):
    file = tmp_path / "server.properties"
    file.write_text("listeners=PLAINTEXT://:9092\nadvertised.listeners=PLAINTEXT://there:9092\n")
    with BrokerProcess(tmp_path / "logs", config=file).start() as broker:
        produce(broker, b"a")
        assert consumed(broker) == [b"a"]


def test_ignored_sighup_stays_ignored(tmp_path):
    with BrokerProcess(tmp_path / "logs", hangup=signal.SIG_IGN).start() as broker:
        broker.send(signal.SIGHUP)
        produce(broker, b"still here")
        broker.send(signal.SIGTERM)
        assert broker.wait() == 0
    assert "SIGHUP" not in broker.log_text


def configure(address, name, value, *, operation=SET):
    change = {"name": name, "config_operation": operation, "value": value}
    resource = {"resource_type": BROKER, "resource_name": "", "configs": [change]}
    response = call(address, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource])
    assert [result.error_code for result in response.responses] == [0]


def test_zero_max_connections_does_not_prevent_startup_and_can_be_removed(tmp_path):
    data_dir, rescue = tmp_path / "logs", free_port()
    with BrokerProcess(data_dir).start() as broker:
        configure(broker.address, "max.connections", "0")
    with broker.start():
        assert "max.connections=0: no connection is accepted" in broker.log_text
    with_another_listener = BrokerProcess(
        data_dir,
        f"listeners=PLAINTEXT://127.0.0.1:0,RESCUE://127.0.0.1:{rescue}",
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,RESCUE:PLAINTEXT",
        "inter.broker.listener.name=RESCUE",
    )
    with with_another_listener.start():
        configure(f"127.0.0.1:{rescue}", "max.connections", None, operation=DELETE)
    with broker.start():
        produce(broker, b"a")


def test_zero_connections_per_address_does_not_prevent_startup(tmp_path):
    with BrokerProcess(tmp_path / "logs").start() as broker:
        configure(broker.address, "max.connections.per.ip.overrides", "127.0.0.1:0")
    with broker.start():
        assert "too many connections" not in broker.log_text
