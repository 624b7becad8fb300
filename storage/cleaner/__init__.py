"""Compaction: for every key the last record stays.

compaction.py    two passes over sealed segments
schedule.py      which log is next, and up to where
states.py        may a log be compacted now
task.py          what compaction is given and what it returns
offset_map.py    the last offset of every key
groups.py        which segments become one
records.py       records as places and keys
retention.py     which batches and records stay
transactions.py  aborted transactions and outlived markers
output.py        the segment that is written
swap.py          putting it in the place of the old ones
pace.py          how fast, and whether to go on
settings.py      the server's settings for it
"""
