"""Each API in each version, of a broker with several listeners and three threads for each."""

from tests.broker.test_every_version import (
    scene,
    test_a_version_that_is_not_served_closes_the_connection,
    test_an_api_that_is_not_served_closes_the_connection,
    test_every_version_that_is_advertised_is_answered,
    test_versions_asked_for_in_an_unknown_version_are_told_as_in_the_first,
    test_what_is_advertised_is_what_there_are_routes_for,
)
from tests.support.many_listeners import broker

__all__ = [
    "broker",
    "scene",
    "test_a_version_that_is_not_served_closes_the_connection",
    "test_an_api_that_is_not_served_closes_the_connection",
    "test_every_version_that_is_advertised_is_answered",
    "test_versions_asked_for_in_an_unknown_version_are_told_as_in_the_first",
    "test_what_is_advertised_is_what_there_are_routes_for",
]
