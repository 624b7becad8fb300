"""What do Kafka's message classes make of single fields?

Each field is set alone and written in every version: in those that lack it, to see whether Kafka
drops or refuses it; in the others as null.  Defaults are those of a newly made object.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from odradek.protocol.field import Array, Nested, Primitive
from odradek.protocol.schema import Message
from tests.support.all_messages import all_messages, versions_of
from tests.support.kafka_json import kafka_name, to_json
from tests.support.message_fields import (
    PlacedField,
    disagreements,
    message_with,
    other_than_default,
    placed_fields,
)
from tests.support.message_oracle import (
    FIELDS_OF_4_1_ALONE,
    REFUSAL,
    KafkaClass,
    MessageOracle,
    answers,
    defaults_question,
    parsed_json,
    write_question,
)
from tests.support.message_vectors import FieldVector

NON_DEFAULT_REFUSED = REFUSAL + "UnsupportedVersionException: Attempted to write a non-default"


def field_vectors(oracle: MessageOracle) -> tuple[list[FieldVector], list[str]]:
    """The vectors, and a line for each disagreement."""
    trials = [trial for message in all_messages() for trial in _trials(oracle, message)]
    replies = answers([(trial.place, trial.question) for trial in trials])
    outcomes: dict[tuple[str, str], list[tuple[Trial, str]]] = {}
    for trial, reply in zip(trials, replies, strict=True):
        key = trial.message.__name__, trial.placed.path
        outcomes.setdefault(key, []).append((trial, reply))
    defaults = KafkaDefaults(oracle)
    vectors, faults = [], defaults.undeclared_fields()
    for message in all_messages():
        for placed in placed_fields(message):
            tried = outcomes.get((message.__name__, placed.path), [])
            vector = _vector(message, placed, defaults.of(message, placed), tried)
            vectors.append(vector)
            faults += disagreements(placed, vector)
    return vectors, faults


@dataclass(frozen=True, slots=True)
class Trial:
    message: type[Message]
    placed: PlacedField
    version: int
    place: KafkaClass
    question: str


def _trials(oracle: MessageOracle, message: type[Message]) -> Iterator[Trial]:
    for placed in placed_fields(message):
        for version in filter(placed.is_reached_in, versions_of(message)):
            for place in oracle.places(message, version):
                question = _question(oracle, message, placed, version, place)
                if question is not None:
                    yield Trial(message, placed, version, place, question)


def _question(
    oracle: MessageOracle,
    message: type[Message],
    placed: PlacedField,
    version: int,
    place: KafkaClass,
) -> str | None:
    if version in placed.field.versions:
        if isinstance(placed.field.type, Primitive):
            return None
        return write_question(place, to_json(message_with(message, placed, None), version))
    changed = message_with(message, placed, other_than_default(placed.field))
    known = [each for each in versions_of(message) if _has(oracle, place, message, each)]
    having = [each for each in known if placed.travels_in(each)]
    if having:
        return write_question(place, to_json(changed, having[0]), parsed_as=having[0])
    if any(each in placed.field.versions for each in known):
        return write_question(place, _shown_with(changed, placed, version))
    return None


def _has(oracle: MessageOracle, place: KafkaClass, message: type[Message], version: int) -> bool:
    return KafkaClass(place.release, place.name, version) in oracle.places(message, version)


def _shown_with(message: Message, placed: PlacedField, version: int) -> dict[str, Any]:
    """As in this version, and the field which it lacks.

    For structs that two fields share, where no version has this field at this place.
    """
    whole = shown = to_json(message, version)
    value: Any = message
    for outer in placed.around:
        shown, value = shown[kafka_name(outer.name)], getattr(value, outer.name)
        if isinstance(outer.type, Array):
            (shown,), (value,) = shown, value
    shown[kafka_name(placed.field.name)] = getattr(value, placed.field.name)
    return whole


class KafkaDefaults:
    """The fields of new objects."""

    def __init__(self, oracle: MessageOracle) -> None:
        self._places = {
            (message.__name__, place.release, place.name): place
            for message in all_messages()
            for version in versions_of(message)
            for place in oracle.places(message, version)
        }
        replies = answers([(place, defaults_question(place)) for place in self._places.values()])
        self._trees = {
            key: parsed_json(place, reply)
            for (key, place), reply in zip(self._places.items(), replies, strict=True)
        }

    def of(self, message: type[Message], placed: PlacedField) -> list[Any]:
        """In every class that has the field."""
        found = []
        for (name, _, _), tree in self._trees.items():
            if name == message.__name__:
                found += self._defaults_in(tree, placed)
        return found

    def _defaults_in(self, tree: Any, placed: PlacedField) -> list[Any]:
        for outer in placed.around:
            if kafka_name(outer.name) not in tree:
                return []
            tree = tree[kafka_name(outer.name)][1]
        if kafka_name(placed.field.name) not in tree:
            return []
        default = tree[kafka_name(placed.field.name)]
        return [default[0] if isinstance(placed.field.type, (Array, Nested)) else default]

    def undeclared_fields(self) -> list[str]:
        declared = {
            (message.__name__, ".".join(map(kafka_name, placed.path.split("."))))
            for message in all_messages()
            for placed in placed_fields(message)
        }
        return [
            f"{name} {path}: Kafka {release} has it, we do not"
            for (name, release, _), tree in self._trees.items()
            for path in _paths(tree)
            if (name, path) not in declared and (name, path) not in FIELDS_OF_4_1_ALONE
        ]


def _paths(tree: dict[str, Any], outer: str = "") -> Iterator[str]:
    for name, default in tree.items():
        yield outer + name
        if isinstance(default, list) and default[1] is not None:
            yield from _paths(default[1], f"{outer}{name}.")


def _vector(
    message: type[Message],
    placed: PlacedField,
    defaults: list[Any],
    tried: list[tuple[Trial, str]],
) -> FieldVector:
    assert defaults, f"Kafka has no {message.__name__} {placed.path}"
    assert all(each == defaults[0] for each in defaults), (message, placed.path, defaults)
    nullable, dropped, refused = set(), set(), set()
    for trial, reply in tried:
        if trial.version in placed.field.versions:
            if not reply.startswith(REFUSAL):
                nullable.add(trial.version)
        elif reply.startswith(NON_DEFAULT_REFUSED):
            refused.add(trial.version)
        else:
            assert not reply.startswith(REFUSAL), (trial, reply)
            dropped.add(trial.version)
    return FieldVector(
        message=message.__name__,
        path=placed.path,
        default=defaults[0],
        nullable_in=sorted(nullable),
        dropped_in=sorted(dropped),
        refused_in=sorted(refused),
    )
