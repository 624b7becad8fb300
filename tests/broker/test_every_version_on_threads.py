"""Each API in each version, on a broker with several listeners and three threads for each."""

from tests.broker.test_every_version import (
    scene,
    test_advertised_versions_are_those_of_the_routes,
    test_api_versions_in_unknown_version_is_answered_in_version_0,
    test_every_advertised_version_is_answered,
    test_unsupported_api_closes_the_connection,
    test_unsupported_version_closes_the_connection,
)
from tests.support.many_listeners import broker

__all__ = [
    "broker",
    "scene",
    "test_advertised_versions_are_those_of_the_routes",
    "test_api_versions_in_unknown_version_is_answered_in_version_0",
    "test_every_advertised_version_is_answered",
    "test_unsupported_api_closes_the_connection",
    "test_unsupported_version_closes_the_connection",
]
