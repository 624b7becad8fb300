"""Go's clients on a broker of ours: franz-go and sarama do what the clients in Python do."""

import pytest

from tests.interop.client_behaviour import BEHAVIOUR
from tests.support.broker_process import broker
from tests.support.foreign_client import ForeignAdmin, ForeignDriver
from tests.support.foreign_modules import ClientUnavailable, go_program
from tests.support.foreign_program import ForeignProgram

__all__ = ["broker"]

globals().update(BEHAVIOUR)


@pytest.fixture(scope="module")
def go_clients():
    try:
        return go_program()
    except ClientUnavailable as reason:
        pytest.skip(f"clients in Go: {reason}")


@pytest.fixture(scope="module", params=["franz-go", "sarama"])
def driver(request, go_clients):
    with ForeignProgram([str(go_clients), request.param]) as program:
        yield ForeignDriver(request.param, program)


@pytest.fixture
def admin(driver, broker):
    with ForeignAdmin(driver.name, driver.program, broker.address) as made:
        yield made
