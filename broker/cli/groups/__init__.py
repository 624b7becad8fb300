"""``odradek groups``: consumer groups of either protocol, and the offsets that they committed.

command.py         its verbs; list and delete
description.py     describe: lag, members, state
reset.py           reset-offsets: which groups, whether it is written, what is shown
reset_target.py    where offsets are reset to
reset_file.py      a plan as lines of CSV, read and written
delete_offsets.py  delete-offsets
lookup.py          what the cluster says of groups
coordinator.py     its answers, once there is one
scope.py           which partitions: TOPIC or TOPIC:0,1
times.py           a time, or a duration before now
"""
