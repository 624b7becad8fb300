"""``odradek serve`` where it is told of a file to be ready in, of a port, and of no hangup."""

import signal

from tests.broker.cli.test_serve import consumed, produce, wait_until
from tests.support.broker_process import BrokerProcess


def test_the_ready_file_goes_with_the_broker(tmp_path):
    ready_file = tmp_path / "ready"
    arguments = ("--ready-file", str(ready_file))
    with BrokerProcess(tmp_path / "logs", arguments=arguments) as broker:
        broker.launch()
        wait_until(ready_file.exists)
        broker.send(signal.SIGTERM)
        assert broker.wait() == 0
    assert not ready_file.exists()


def test_a_port_counts_for_what_is_advertised_too(tmp_path):
    file = tmp_path / "server.properties"
    file.write_text("listeners=PLAINTEXT://:9092\nadvertised.listeners=PLAINTEXT://there:9092\n")
    with BrokerProcess(tmp_path / "logs", config=file).start() as broker:
        produce(broker, b"a")
        assert consumed(broker) == [b"a"]


def test_a_hangup_that_its_starter_ignores_is_ignored(tmp_path):
    with BrokerProcess(tmp_path / "logs", hangup=signal.SIG_IGN).start() as broker:
        broker.send(signal.SIGHUP)
        produce(broker, b"still here")
        broker.send(signal.SIGTERM)
        assert broker.wait() == 0
    assert "SIGHUP" not in broker.log_text
