"""Fetching: what a client wants, what there is, and when it is worth an answer.

wanted.py              a partition that is wanted, and what was told of it
stirred_partitions.py  which of them are looked at, and who is woken by them
fetch_session.py       one client's incremental fetches: what it wants, what it was told
fetch_sessions.py      the sessions of all clients, as many as there are slots for
fetch_plan.py          how many bytes of which partition, and when is that enough
fetch_wait.py          one that waits until it is
partition_reading.py   what is found in one partition
closest_replica.py     whether a consumer should rather read from a follower
down_conversion.py     records for clients that do not know their format
offset_lookup.py       which offset there is for a timestamp, and who may see it
"""
