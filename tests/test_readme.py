"""What the README says of the broker is what the broker says of itself."""

import re
from pathlib import Path

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.registry import api
from tests.support.broker_process import broker
from tests.support.raw_answer import answer_to

__all__ = ["broker"]

README = (Path(__file__).parent.parent / "README.md").read_text()


def test_the_apis_in_the_readme_are_those_that_are_served(broker):
    section = README.partition("## What works")[2].partition("\n\n* ")[0]
    named = set(re.findall(r"([A-Z]\w+) (\d+(?:-\d+)?)(?=,| \|)", section))
    answer = answer_to(broker.port, ApiKey.API_VERSIONS, 0, {})
    assert named == {served(**each) for each in answer["apiKeys"]}


def served(apiKey, minVersion, maxVersion):
    versions = str(maxVersion) if minVersion == maxVersion else f"{minVersion}-{maxVersion}"
    return api(ApiKey(apiKey)).name, versions
