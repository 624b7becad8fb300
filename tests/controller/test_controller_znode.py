"""Tests of controller/election.py, on every store."""

from odradek.controller.election import NO_CONTROLLER, Elected, Election
from odradek.controller.store import paths
from odradek.controller.store.base import MultiFailed, NodeExists
from odradek.controller.store.payloads.controller import ControllerEpoch
from tests.support.stores import Seen


def candidate(store, broker=1):
    return Election(store, broker, now_ms=lambda: 1)


async def test_the_first_to_stand_is_elected_in_epoch_one(stores):
    store = await stores.open()
    election = candidate(store)
    assert await election.controller() == NO_CONTROLLER
    assert await election.stand() == Elected(epoch=1, epoch_version=1)
    assert await election.controller() == 1
    assert (await store.get(paths.CONTROLLER)).stat.ephemeral_owner == store.session_id


async def test_another_waits_until_the_controller_is_gone(stores):
    store = await stores.open()
    first, second = candidate(store), candidate(await stores.open(), 2)
    elected = await first.stand()
    assert await second.stand() is None
    seen = Seen()
    assert await second.controller(seen) == 1
    await first.resign(elected)
    assert await second.stand() == Elected(epoch=2, epoch_version=2)
    assert len(seen.events) == 1


async def test_an_epoch_that_was_found_goes_on(stores):
    store = await stores.open()
    await store.create(paths.CONTROLLER_EPOCH, ControllerEpoch(41).encode())
    assert await candidate(store).stand() == Elected(epoch=42, epoch_version=1)


async def test_who_was_replaced_cannot_resign_for_the_next(stores):
    store = await stores.open()
    first, second = candidate(store), candidate(store, 2)
    elected = await first.stand()
    await store.delete(paths.CONTROLLER)
    await second.stand()
    await first.resign(elected)
    assert await first.controller() == 2


async def test_a_node_that_stays_after_its_epoch_is_taken_away(stores):
    store = await stores.open()
    election = candidate(store)
    await election.stand()
    await store.set(paths.CONTROLLER_EPOCH, ControllerEpoch(9).encode())
    await election.withdraw()
    assert await election.controller() == NO_CONTROLLER
    assert await election.stand() == Elected(epoch=10, epoch_version=3)


async def test_the_node_of_another_is_not_taken_away(stores):
    store, other = await stores.open(), await stores.open()
    await candidate(other, 2).stand()
    await candidate(store).withdraw()
    assert await candidate(store).controller() == 2


async def test_who_did_not_hear_of_its_election_is_elected(stores):
    store = await stores.open()
    multi = store.multi

    async def unheard(operations):
        await multi(operations)
        raise MultiFailed(0, NodeExists(paths.CONTROLLER))

    store.multi = unheard
    assert await candidate(store).stand() == Elected(epoch=1, epoch_version=1)
