"""``odradek groups``: consumer groups of both protocols, and their committed offsets.

Kafka: kafka-consumer-groups.

command.py              the verbs; list and delete
description.py          describe: offsets and lag, members, state
reset.py                reset-offsets: plans, commits and prints new offsets
reset_target.py         the targets of a reset
reset_file.py           reads and writes the plan of a reset as CSV
delete_offsets.py       delete-offsets
lookup.py               fetches the groups of a cluster and their committed offsets
coordinator_retries.py  retries a request until the group coordinator is available
scope.py                parses and resolves TOPIC or TOPIC:0,1
times.py                parses a time, or a duration before now
"""
