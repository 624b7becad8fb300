"""The record code of other clients, in pure Python: peers to agree with, and to be measured by."""

import warnings

from aiokafka.record.default_records import (
    _DefaultRecordBatchBuilderPy as AiokafkaBuilder,
)
from aiokafka.record.default_records import (
    _DefaultRecordBatchPy as AiokafkaBatch,
)

with warnings.catch_warnings():
    # kafka-python reads its schemas by a function that Python 3.11 calls deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record.default_records import (
        DefaultRecordBatch as KafkaPythonBatch,
    )
    from kafka.record.default_records import (
        DefaultRecordBatchBuilder as KafkaPythonBuilder,
    )

__all__ = ["AiokafkaBatch", "AiokafkaBuilder", "KafkaPythonBatch", "KafkaPythonBuilder"]
