"""A broker that is treated badly, and must let nobody else feel it.

After every test it is alive, has logged no mistake of its own, has given back what memory it was
made to take, and a client that did no wrong was served all the time.
"""

import pytest

from tests.support.broker_process import BrokerProcess
from tests.support.healthy_client import HealthyClient
from tests.support.minimal_requests import prepared
from tests.support.resident_memory import KEPT_BYTES_MAX, MB, resident_bytes, wait_for

LOG_BYTES_MAX = MB

#: Else a crowd waits for the kernel, which tries again after a second.
LONG_BACKLOG = "socket.listen.backlog.size=2048"


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    data_dir = tmp_path_factory.mktemp("broker") / "logs"
    with BrokerProcess(data_dir, LONG_BACKLOG).start() as running:
        yield running


@pytest.fixture(scope="module")
def once(broker):
    """What a module has done once before memory is looked at; of most, nothing."""


@pytest.fixture(scope="module")
def settled(broker):
    made = prepared(broker.address, str(broker.data_dir))
    with HealthyClient(broker.address) as client:
        # What the first requests make, such as compiled schemas, is kept for good.
        wait_for(lambda: client.rounds >= 50, timeout_s=60)
    return made


@pytest.fixture(scope="module")
def scene(broker, settled, once):
    before = resident_bytes(broker.pid)
    yield settled
    wait_for(lambda: resident_bytes(broker.pid) - before < KEPT_BYTES_MAX)


@pytest.fixture(autouse=True)
def unharmed(broker, scene):
    before, log_bytes = resident_bytes(broker.pid), broker.log.stat().st_size
    with HealthyClient(broker.address):
        yield
    wait_for(lambda: resident_bytes(broker.pid) - before < KEPT_BYTES_MAX)
    assert "Traceback" not in broker.log_text, broker.log_tail()
    assert broker.log.stat().st_size - log_bytes < LOG_BYTES_MAX
