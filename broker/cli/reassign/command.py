"""The verbs of ``odradek reassign``: generate, execute, verify, cancel and list."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from random import Random

from odradek.broker.cli import client, tables
from odradek.broker.cli.examples import examples
from odradek.broker.cli.failed import AMISS, CommandFailed
from odradek.broker.cli.operated import OperatedCluster, Picture, Work, by_topic, verb
from odradek.broker.cli.partitions import Place
from odradek.broker.cli.reassign import directories, moves, plans, throttles, waiting
from odradek.broker.cli.reassign.moves import Standing
from odradek.broker.cli.reassign.plans import Plan, ReadPlan
from odradek.broker.cli.reassign.proposal import proposed

Commands = argparse._SubParsersAction  # the only name that argparse has for it

TOOL = "kafka-reassign-partitions"
LIST_COLUMNS = ("topic", "partition", "replicas", "adding", "removing")
VERIFY_COLUMNS = ("topic", "partition", "standing", "wanted")
FAILED = 1
THROTTLE_STAYS = (
    "The throttle stays until `odradek reassign verify` finds that nothing is under way any more"
)


def add_to(commands: Commands[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "reassign",
        help="move partitions to other brokers",
        description="Move partitions to other brokers: make a plan, have it done, look how far it "
        f"is.  Plans are those of {TOOL}.  Needs a listener without TLS and SASL.",
        **examples(
            "odradek reassign generate orders --brokers 1,2,3 > plan.json",
            "odradek reassign execute plan.json --throttle 10000000 --wait",
        ),
    )
    verbs = parser.add_subparsers(title="what to do", metavar="VERB", required=True)
    _add_generate(verbs)
    _add_execute(verbs)
    _add_verify(verbs)
    _add_cancel(verbs)
    _add_list(verbs)


def _add_generate(verbs: Commands[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "generate",
        help="make a plan that spreads topics over brokers",
        description="Print a plan that spreads the partitions of topics over some brokers, as if "
        "they were created there, or with --current where they are now, to go back to.",
        **examples(
            "odradek reassign generate orders payments --brokers 1,2,3 > plan.json",
            "odradek reassign generate orders --current > rollback.json",
        ),
    )
    parser.add_argument("topics", nargs="*", metavar="TOPIC")
    parser.add_argument(
        "--topics-file",
        "--topics-to-move-json-file",  # as Kafka's tool has it
        metavar="FILE",
        help='more of them: {"version": 1, "topics": [{"topic": "orders"}]}',
    )
    parser.add_argument(
        "--brokers",
        "--broker-list",
        metavar="ID,ID,...",
        type=_brokers,
        default=[],
        help="where the partitions shall be (all brokers)",
    )
    parser.add_argument(
        "--disable-rack-aware", action="store_true", help="look at no racks of brokers"
    )
    parser.add_argument("--current", action="store_true", help="print where they are now")
    _finish(parser, generate)


def _add_execute(verbs: Commands[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "execute",
        help="begin to move partitions",
        description="Begin to move partitions as a plan says, and print where they are until now "
        "as a plan to go back to.  With --wait, show how far it is until all is moved, and then "
        "remove the throttle; otherwise verify does so.  Exit status "
        f"{AMISS}: --wait-at-most was over before all was moved.",
        **examples(
            "odradek reassign execute plan.json",
            "odradek reassign execute plan.json --throttle 10000000 --wait",
        ),
    )
    _add_plan(parser)
    parser.add_argument(
        "--throttle",
        metavar="BYTES",
        type=_rate,
        help="how many bytes a second each broker may send, and fetch, for this",
    )
    parser.add_argument(
        "--additional", action="store_true", help="though others are under way already"
    )
    parser.add_argument(
        "--rollback-file",
        metavar="FILE",
        type=Path,
        help="write where partitions are until now to this file, and not to standard output",
    )
    waiting.add_options(parser)
    _finish(parser, execute)


def _add_verify(verbs: Commands[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "verify",
        help="tell whether a plan is done, and remove its throttle",
        description="Tell of each partition of a plan whether it has moved.  Once nothing at all "
        f"is under way, throttles are removed.  Exit status {AMISS}: not all is where it should "
        "be.",
        **examples(
            "odradek reassign verify plan.json",
            "odradek reassign verify plan.json --wait-at-most 600",
        ),
    )
    _add_plan(parser)
    waiting.add_options(parser)
    _add_preserve(parser)
    tables.add_options(parser)
    _finish(parser, verify)


def _add_cancel(verbs: Commands[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "cancel",
        help="stop moving partitions",
        description="Stop moving the partitions of a plan that are still under way: they stay "
        "where they were before.  Throttles are removed.",
        **examples(
            "odradek reassign cancel plan.json",
            "odradek reassign cancel plan.json --preserve-throttles",
        ),
    )
    _add_plan(parser)
    _add_preserve(parser)
    _finish(parser, cancel)


def _add_list(verbs: Commands[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "list",
        help="list what is under way",
        description="List the partitions that are moving, with the replicas that come and go.",
        **examples("odradek reassign list", "odradek reassign list --json"),
    )
    tables.add_options(parser)
    _finish(parser, list_moves)


def _add_plan(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("plan", metavar="FILE", help="a plan; - is standard input")


def _add_preserve(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--preserve-throttles", action="store_true", help="do not remove any")


def _finish(parser: argparse.ArgumentParser, work: Work) -> None:
    client.add_options(parser)
    parser.set_defaults(run=verb(work, tool=TOOL))


async def generate(arguments: argparse.Namespace, asked: OperatedCluster) -> int:
    topics = [*arguments.topics]
    if arguments.topics_file is not None:
        topics += plans.read_topics(arguments.topics_file)
    if not topics:
        raise CommandFailed("no topics: name some, or give --topics-file")
    picture = await asked.picture(topics)
    if arguments.current:
        print(plans.written(_assigned(picture)))
        return 0
    brokers = arguments.brokers or sorted(picture.brokers)
    with_racks = not arguments.disable_rack_aware
    print(plans.written(proposed(picture, brokers, with_racks=with_racks, random=Random())))
    return 0


async def execute(arguments: argparse.Namespace, asked: OperatedCluster) -> int:
    plan = plans.read_plan(arguments.plan)
    now = _assigned(await asked.picture(by_topic(plan.replicas)))
    _check_places(plan, now)
    moving = await moves.under_way(asked)
    if moving and not arguments.additional:
        place = next(iter(moving))
        raise CommandFailed(f"{place} is moving already: give --additional, or wait for its end")
    _print_rollback({place: now[place] for place in plan.replicas}, arguments.rollback_file)
    planned = throttles.moves_of(plan.replicas, now, moving)
    is_throttled = arguments.throttle is not None
    if is_throttled:
        throttled = await throttles.throttle(asked, planned, arguments.throttle)
        print(f"Brokers {_listed(throttled)} are throttled to {arguments.throttle} bytes a second")
    try:
        refused = await _begin(asked, plan)
    except CommandFailed:
        if is_throttled:  # perhaps it has begun all the same
            print(f"odradek: {THROTTLE_STAYS}", file=sys.stderr)
        raise
    begun = ReadPlan(
        {place: to for place, to in plan.replicas.items() if place not in refused},
        {at: to for at, to in plan.directories.items() if at.place not in refused},
    )
    print(f"{len(begun.replicas)} partitions are reassigned")
    waits = waiting.is_wanted(arguments) and begun.replicas
    if waits and not await waiting.wait(
        arguments, asked, begun, planned, is_throttled=is_throttled
    ):
        return AMISS
    if is_throttled and (waits or not begun.replicas) and not await moves.under_way(asked):
        await _remove_throttles(asked, plan)
    elif is_throttled:
        print(THROTTLE_STAYS)
    return FAILED if refused else 0


async def _begin(asked: OperatedCluster, plan: ReadPlan) -> set[Place]:
    """Those that are refused.  New replicas are made where they shall be: that is told first."""
    unplaced = await directories.choose(asked, plan.directories)
    _complain({f"{at.place} at broker {at.broker}": why for at, why in unplaced.items()})
    kept = {at.place for at in unplaced}
    targets = {place: to for place, to in plan.replicas.items() if place not in kept}
    refused = await moves.alter(asked, targets) if targets else {}
    _complain({str(place): why for place, why in refused.items()})
    return kept.union(refused)


async def verify(arguments: argparse.Namespace, asked: OperatedCluster) -> int:
    plan = plans.read_plan(arguments.plan)
    if waiting.is_wanted(arguments):
        left = await _moves_left(asked, plan)
        throttled = await throttles.throttled_topics(asked, by_topic(plan.replicas))
        await waiting.wait(arguments, asked, plan, left, is_throttled=bool(throttled))
    found = await moves.standings(asked, plan)
    rows = [
        (*place, found[place].value, list(replicas))
        for place, replicas in sorted(plan.replicas.items())
    ]
    tables.show(VERIFY_COLUMNS, rows, title="Reassignment", as_json=arguments.json)
    if not await moves.under_way(asked) and not arguments.preserve_throttles:
        topics = await _existing(asked, plan)
        throttled = await throttles.throttled_topics(asked, topics)
        await throttles.remove(asked, topics)
        if throttled:
            print(_unthrottled(throttled), file=sys.stderr if arguments.json else sys.stdout)
    return 0 if all(each is Standing.MOVED for each in found.values()) else AMISS


async def cancel(arguments: argparse.Namespace, asked: OperatedCluster) -> int:
    plan = plans.read_plan(arguments.plan)
    moving = await moves.under_way(asked)
    to_cancel = [place for place in plan.replicas if place in moving]
    refused = await moves.alter(asked, dict.fromkeys(to_cancel)) if to_cancel else {}
    _complain({str(place): why for place, why in refused.items()})
    print(f"{len(to_cancel) - len(refused)} reassignments are cancelled")
    if not arguments.preserve_throttles:
        await _remove_throttles(asked, plan)
    return FAILED if refused else 0


async def list_moves(arguments: argparse.Namespace, asked: OperatedCluster) -> int:
    rows = [
        (*place, list(each.replicas), list(each.adding), list(each.removing))
        for place, each in sorted((await moves.under_way(asked)).items())
    ]
    tables.show(LIST_COLUMNS, rows, title="Reassignments", as_json=arguments.json)
    return 0


def _assigned(picture: Picture) -> Plan:
    return {place: each.replicas for place, each in picture.partitions.items()}


async def _moves_left(asked: OperatedCluster, plan: ReadPlan) -> dict[Place, throttles.Move]:
    now = _assigned(await asked.picture(by_topic(plan.replicas)))
    _check_places(plan, now)
    return throttles.moves_of(plan.replicas, now, await moves.under_way(asked))


async def _existing(asked: OperatedCluster, plan: ReadPlan) -> set[str]:
    """Of its topics; one that was deleted meanwhile has no throttle."""
    there = {place.topic for place in (await asked.picture()).partitions}
    return there.intersection(by_topic(plan.replicas))


async def _remove_throttles(asked: OperatedCluster, plan: ReadPlan) -> None:
    topics = await _existing(asked, plan)
    await throttles.remove(asked, topics)
    print(_unthrottled(sorted(topics)))


def _unthrottled(topics: Iterable[str]) -> str:
    return f"No broker is throttled any more, nor {_listed(topics)}"


def _check_places(plan: ReadPlan, now: Plan) -> None:
    for place in plan.replicas:
        if place not in now:
            raise CommandFailed(f"{place}: there is no such partition")


def _print_rollback(now: Plan, path: Path | None) -> None:
    if path is None:
        print("Until now, to go back to:")
        print(plans.written(now))
        return
    try:
        path.write_text(plans.written(now) + "\n")
    except OSError as failure:
        raise CommandFailed(f"--rollback-file {path}: {failure.strerror}") from failure


def _complain(refused: Mapping[str, str]) -> None:
    for what, why in refused.items():
        print(f"odradek: {what}: {why}", file=sys.stderr)


def _listed(each: Iterable[object]) -> str:
    return ", ".join(map(str, each))


def _brokers(written: str) -> list[int]:
    """As the type of an argument."""
    ids = [each.strip() for each in written.split(",")]
    if not all(each.isdecimal() for each in ids) or len(set(ids)) < len(ids):
        raise argparse.ArgumentTypeError(f"{written!r} are no ids of brokers, each of them once")
    return [*map(int, ids)]


def _rate(written: str) -> int:
    """As the type of an argument."""
    if not written.isdecimal() or not int(written):
        raise argparse.ArgumentTypeError(f"{written!r} is no number of bytes in a second")
    return int(written)
