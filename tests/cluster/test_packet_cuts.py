"""Cuts below TCP: packets are dropped, and connections stay half open until somebody gives up.

What is to be true is what `test_cuts.py` says; brokers are in network namespaces here.
"""

import pytest

from tests.cluster.conftest import ON_ALL
from tests.cluster.test_cuts import (
    test_r2_a_follower_that_is_cut_off_is_out_of_sync_and_comes_back,
    test_r4_a_leader_that_is_cut_off_acknowledges_nothing_and_loses_its_tail,
    test_r5_what_a_replaced_controller_says_is_refused,
    test_r7_tails_that_two_leaders_left_are_cut,
    test_r10_a_broker_whose_session_expires_steps_down_and_registers_again,
)
from tests.cluster.test_random_faults import check_faults_that_overlap
from tests.support.crash_rounds import seeds
from tests.support.namespaced_cluster import NEEDS_NAMESPACES, cluster_in_namespaces

pytestmark = [pytest.mark.soak, NEEDS_NAMESPACES]

__all__ = [
    "test_r2_a_follower_that_is_cut_off_is_out_of_sync_and_comes_back",
    "test_r4_a_leader_that_is_cut_off_acknowledges_nothing_and_loses_its_tail",
    "test_r5_what_a_replaced_controller_says_is_refused",
    "test_r7_tails_that_two_leaders_left_are_cut",
    "test_r10_a_broker_whose_session_expires_steps_down_and_registers_again",
]
LOSS = 0.02


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with cluster_in_namespaces(tmp_path_factory.mktemp("cluster"), *ON_ALL) as running:
        yield running


@pytest.mark.parametrize("seed", seeds(1))
def test_r1_faults_that_overlap_where_packets_get_lost(shared, seed):
    network = shared.network
    network.random.seed(seed)
    network.loss = LOSS
    try:
        check_faults_that_overlap(shared, f"lossy-{seed}", seed)
        assert network.lost > 0
    finally:
        network.loss = 0.0
