"""What may be appended to a log, and how it is written.

rules.py              what a topic demands, worked out from its settings
errors.py             why a record set was refused
batch_validation.py   is a record set acceptable, and what is written of it
record_checks.py      the records inside a batch, one by one
checked_batch.py      a record set that was checked before it is appended
offset_assignment.py  offsets and leader epoch for what is appended
"""
