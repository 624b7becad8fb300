"""Which of Kafka's classes is a message, and what does that class say?

Kafka 3.9 has every message at every version it ever had; 4.1 lacks the oldest and has later ones.
Questions are put to ``Oracle.java`` many at a time, with the jars of one release.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from odradek.protocol.schema import Message
from tests.support.all_messages import all_messages, versions_of
from tests.support.java_program import run_java
from tests.support.kafka_jars import KAFKA_3_9, KAFKA_4_1, kafka_jars

RELEASES = (KAFKA_3_9, KAFKA_4_1)
SOURCE = Path(__file__).resolve().parents[1] / "interop" / "java" / "Oracle.java"
REFUSAL = "! "

#: What 4.1 calls by another name.
CLASSES_RENAMED_IN_4_1 = {
    "ListClientMetricsResourcesRequestData": "ListConfigResourcesRequestData",
    "ListClientMetricsResourcesResponseData": "ListConfigResourcesResponseData",
}
FIELDS_RENAMED_IN_4_1 = {"clientMetricsResources": "configResources", "name": "resourceName"}
#: A key whose versions 4.1 has made classes of their own.
OFFSET_COMMIT_KEY_0_IN_4_1 = "LegacyOffsetCommitKey"

#: Versions that a release has in another form than ours.
OTHER_FORMS = {
    ("TransactionLogValue", 1): KAFKA_3_9,  # its tagged fields came with 4.0
    ("ConsumerGroupMetadataValue", 0): KAFKA_3_9,  # and this one's with 4.1
    # Unstable in 3.9, and changed by 4.1 in place.
    ("ReadShareGroupStateSummaryResponse", 0): KAFKA_4_1,
    ("ShareGroupMetadataValue", 0): KAFKA_4_1,
}

#: Tagged fields that 4.1 has added to a version of 3.9, and that we keep as unknown tags.
FIELDS_OF_4_1_ALONE = {
    ("OffsetCommitValue", "topicId"),
}


@dataclass(frozen=True, slots=True)
class KafkaClass:
    """Where Kafka has one version of a message."""

    release: str
    name: str
    version: int


class MessageOracle:
    """Kafka's message classes, in both releases."""

    def __init__(self) -> None:
        self._versions = {release: _versions(release) for release in RELEASES}

    def places(self, message: type[Message], version: int) -> list[KafkaClass]:
        """Where Kafka has this version: in one release or in both."""
        found = []
        for release in RELEASES:
            if OTHER_FORMS.get((message.__name__, version)) == release:
                continue
            name = _class_name(message, version, release)
            low, high, key = self._versions[release].get(name, (1, 0, -1))
            if message.__name__.endswith("Key") and key >= 0:
                # 4.1 numbers a key's class from 0, and writes its number in the int16 before it.
                if version == key:
                    found.append(KafkaClass(release, name, 0))
            elif low <= version <= high:
                found.append(KafkaClass(release, name, version))
        return found

    def key_of(self, place: KafkaClass) -> int:
        return self._versions[place.release][place.name][2]


def write_question(
    place: KafkaClass, shown: Mapping[str, Any], parsed_as: int | None = None
) -> str:
    """``shown`` may be the JSON of another version than the one to be written."""
    text = json.dumps(shown)
    if place.name in CLASSES_RENAMED_IN_4_1.values():
        text = _replaced(text, FIELDS_RENAMED_IN_4_1)
    origin = place.version if parsed_as is None else parsed_as
    return f"write\t{place.name}\t{place.version}\t{text}\t{origin}"


def read_question(place: KafkaClass, encoded: bytes) -> str:
    return f"read\t{place.name}\t{place.version}\t{encoded.hex()}"


def defaults_question(place: KafkaClass) -> str:
    return f"defaults\t{place.name}"


def headers_question(message: type[Message], version: int) -> str:
    return f"headers\t{message.__schema__.key}\t{version}"


def parsed_json(place: KafkaClass, answer: str) -> Any:
    """The message that was read, or the refusal as it stands."""
    if answer.startswith(REFUSAL):
        return answer
    if place.name in CLASSES_RENAMED_IN_4_1.values():
        answer = _replaced(answer, {new: old for old, new in FIELDS_RENAMED_IN_4_1.items()})
    return json.loads(answer)


def answers(questions: Sequence[tuple[KafkaClass, str]]) -> list[str]:
    """An answer to each question, in their order, from the release that it is put to."""
    found: list[str] = [""] * len(questions)
    for release in RELEASES:
        slots = [slot for slot, (place, _) in enumerate(questions) if place.release == release]
        replies = _ask(release, [questions[slot][1] for slot in slots])
        for slot, reply in zip(slots, replies, strict=True):
            found[slot] = reply
    return found


def _ask(release: str, questions: Iterable[str]) -> list[str]:
    return run_java(kafka_jars(release), SOURCE, lines=questions)


def _versions(release: str) -> dict[str, tuple[int, int, int]]:
    """Lowest version, highest version and key of every class that this release has."""
    names = sorted({
        _class_name(message, version, release)
        for message in all_messages()
        for version in versions_of(message)
    })  # fmt: skip
    replies = _ask(release, (f"versions\t{name}" for name in names))
    return {
        name: (int(low), int(high), int(key))
        for name, reply in zip(names, replies, strict=True)
        if not reply.startswith(REFUSAL)
        for low, high, key in [reply.split("\t")]
    }


def _class_name(message: type[Message], version: int, release: str) -> str:
    name = message.__name__
    if name.endswith(("Request", "Response", "Header")):
        name += "Data"
    if release == KAFKA_4_1:
        if (name, version) == ("OffsetCommitKey", 0):
            return OFFSET_COMMIT_KEY_0_IN_4_1
        return CLASSES_RENAMED_IN_4_1.get(name, name)
    return name


def _replaced(text: str, names: Mapping[str, str]) -> str:
    for old, new in names.items():
        text = text.replace(f'"{old}"', f'"{new}"')
    return text
