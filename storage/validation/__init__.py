"""Validation of records before they are appended to a log.

Kafka: LogValidator, and UnifiedLog.analyzeAndValidateRecords.

append_rules.py       the rules of a topic, computed from its settings
errors.py             errors with details beyond the error code
log_validator.py      validates a record set and returns the batch to write
record_validation.py  validates the records inside a batch
validated_batch.py    a record set that was validated before the append
offset_assignment.py  assigns offsets and the leader epoch to the batch
"""
