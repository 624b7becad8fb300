"""kafkajs on a broker of ours: it does what the clients in Python do.

Its consumer must have a group, so what reads here are the parts that this is made of (consumer.js).
"""

import pytest

from tests.interop.client_behaviour import BEHAVIOUR
from tests.support.broker_process import broker
from tests.support.foreign_client import ForeignAdmin, ForeignDriver
from tests.support.foreign_modules import JS_SOURCES, ClientUnavailable, npm_packages
from tests.support.foreign_program import ForeignProgram

__all__ = ["broker"]

globals().update(BEHAVIOUR)

LACKS = ("alter_some", "log_dirs", "elect")


@pytest.fixture(scope="module")
def driver():
    try:
        packages = npm_packages()
    except ClientUnavailable as reason:
        pytest.skip(f"kafkajs: {reason}")
    command = ["node", str(JS_SOURCES / "client.js")]
    with ForeignProgram(command, environment={"NODE_PATH": str(packages)}) as program:
        yield ForeignDriver("kafkajs", program)


@pytest.fixture
def admin(driver, broker):
    with ForeignAdmin(driver.name, driver.program, broker.address, lacks=LACKS) as made:
        yield made
