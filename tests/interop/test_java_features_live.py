"""kafka-features, of two releases, on a broker of ours."""

import re

import pytest

from tests.support.broker_process import broker
from tests.support.java_conversation import JavaTools, jars

__all__ = ["broker", "jars"]


@pytest.fixture(scope="module")
def tools(jars):
    with JavaTools(jars) as running:
        yield running


@pytest.fixture
def features(tools, broker):
    """Runs the tool on the broker; what it wrote, if it ended with the status."""

    def ran(*arguments, status=0):
        ended = tools.run("FeatureCommand", "--bootstrap-server", broker.address, *arguments)
        assert ended.status == status, ended
        return ended.out

    return ran


def level(features):
    """Of the one feature there is, whose levels go from 0 to 2."""
    (row,) = re.findall(r"Feature: .*", features("describe"))
    told = dict(re.findall(r"(\w+): (\S+)", row))
    assert told["Feature"] == "transaction.version"
    assert (told["SupportedMinVersion"], told["SupportedMaxVersion"]) == ("0", "2")
    return int(told["FinalizedVersionLevel"])


def test_features_are_described_disabled_and_upgraded(features):
    assert level(features) == 2
    disabled = features("disable", "--feature", "transaction.version")
    assert "transaction.version was disabled." in disabled
    assert level(features) == 0
    refused = features("upgrade", "--feature", "transaction.version=3", status=1)
    assert "Could not upgrade transaction.version to 3." in refused
    features("upgrade", "--feature", "transaction.version=2")
    assert level(features) == 2
