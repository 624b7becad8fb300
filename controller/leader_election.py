"""Who is to lead a partition?

Four occasions, each a pure function of what is assigned, in sync and alive:

    offline              the leader is gone; where the topic allows it, and only then, by a replica
                         that was not in sync, whose log may lack what others had
    preferred            the first of the assignment shall lead again
    reassignment         the leader is not among the new replicas
    controlled shutdown  the leader's broker is about to stop

Owner: none; pure.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum, auto

from odradek.controller.assignment import Assignment
from odradek.controller.leadership import Leadership


class Occasion(Enum):
    OFFLINE = auto()
    PREFERRED = auto()
    REASSIGNMENT = auto()
    CONTROLLED_SHUTDOWN = auto()


@dataclass(frozen=True, slots=True)
class Candidates:
    """The replicas of a partition, and what is known of them."""

    assignment: Assignment
    #: Replicas on brokers that are alive and in directories that work.
    online: Collection[int]
    #: Brokers about to stop: they are alive, but must lead nothing new.
    shutting_down: Collection[int] = ()
    allows_unclean: bool = False


def elected(current: Leadership, candidates: Candidates, occasion: Occasion) -> Leadership | None:
    """The next leadership, in a new epoch; None if nobody can lead."""
    match occasion:
        case Occasion.OFFLINE:
            return _after_loss(current, candidates)
        case Occasion.CONTROLLED_SHUTDOWN:
            return _before_shutdown(current, candidates)
        case Occasion.PREFERRED:
            replicas = candidates.assignment.replicas[:1]
        case Occasion.REASSIGNMENT:
            replicas = candidates.assignment.target
    leader = _first(replicas, candidates.online, current.isr)
    if leader is None:
        return None
    return current.led_by(leader, current.isr, is_recovering=current.is_recovering)


def why_nobody(candidates: Candidates, occasion: Occasion) -> str:
    """In words, where nobody was elected."""
    if not candidates.assignment.replicas:
        return "there is no such partition any more"
    match occasion:
        case Occasion.OFFLINE:
            return "no replica that is in sync is alive"
        case Occasion.PREFERRED:
            preferred = candidates.assignment.replicas[0]
            lacking = "in sync" if preferred in candidates.online else "alive"
            return f"the preferred leader, broker {preferred}, is not {lacking}"
        case Occasion.REASSIGNMENT:
            return "no new replica is both alive and in sync"
        case Occasion.CONTROLLED_SHUTDOWN:
            return "no other replica is both alive and in sync"


def _after_loss(current: Leadership, candidates: Candidates) -> Leadership | None:
    replicas = candidates.assignment.replicas
    leader = _first(replicas, candidates.online, current.isr)
    if leader is not None:
        isr = tuple(replica for replica in current.isr if replica in candidates.online)
        return current.led_by(leader, isr, is_recovering=current.is_recovering)
    leader = _first(replicas, candidates.online) if candidates.allows_unclean else None
    if leader is None:
        return None
    return current.led_by(leader, (leader,), is_recovering=True)


def _before_shutdown(current: Leadership, candidates: Candidates) -> Leadership | None:
    staying = tuple(replica for replica in current.isr if replica not in candidates.shutting_down)
    leader = _first(candidates.assignment.replicas, candidates.online, staying)
    if leader is None:
        return None
    return current.led_by(leader, staying, is_recovering=current.is_recovering)


def _first(replicas: Collection[int], *among: Collection[int]) -> int | None:
    """The first replica that is in all of the others."""
    return next((each for each in replicas if all(each in others for others in among)), None)
