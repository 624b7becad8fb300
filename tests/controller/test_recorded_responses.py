"""Kafka's recorded error responses can be decoded with our message schemas."""

from collections.abc import Iterator
from typing import Any

import pytest

from odradek.protocol.api_keys import ApiKey
from odradek.protocol.error_codes import ErrorCode
from odradek.protocol.registry import api
from tests.support.controller_answers import HUNG_UP, ControllerAnswer, saved_groups
from tests.support.kafka_json import from_json, to_json
from tests.support.raw_answer import MESSAGE

CASES = [case for group in saved_groups() for case in group.cases]
KNOWN_CODES = {error.value[0] for error in ErrorCode}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_recorded_response_matches_the_schema_of_its_api(case: ControllerAnswer):
    if case.answer == HUNG_UP:
        return
    response = api(ApiKey[case.api]).response
    readable = without_placeholders(case.answer)
    assert to_json(from_json(response, case.version, readable), case.version) == readable


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_recorded_response_has_known_error_codes_and_masked_messages(case: ControllerAnswer):
    assert set(values_of_key(case.answer, "errorCode")) <= KNOWN_CODES
    assert set(values_of_key(case.answer, "errorMessage")) <= {MESSAGE, "", None}


def test_case_names_are_unique_in_a_group():
    for group in saved_groups():
        names = [case.name for case in group.cases]
        assert len(names) == len(set(names))


def values_of_key(response: Any, key: str) -> Iterator[Any]:
    match response:
        case dict():
            for name, value in response.items():
                yield from [value] if name == key else values_of_key(value, key)
        case list():
            for element in response:
                yield from values_of_key(element, key)


def without_placeholders(response: Any) -> Any:
    match response:
        case dict():
            return {name: without_placeholders(value) for name, value in response.items()}
        case list():
            return [without_placeholders(element) for element in response]
        case str() if response.startswith("<id "):
            return "AAAAAAAAAAAAAAAAAAAAAA"
    return response
