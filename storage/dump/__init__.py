"""Looking at the files of logs from outside: what is in them, and are they sound?

__main__.py     runs it
command.py      prints what is in them, and finds damage
segments.py     batches and records
internal.py     records that brokers write for themselves
indexes.py      indexes, and whether they can be true
entries.py      their entries
verify.py       do they say the truth about the .log file
checkpoints.py  snapshots, checkpoints, who it belongs to
reading.py      reading what nothing is certain of
facts.py        what a dump consists of
text.py         a dump as lines to read
"""
