"""Exports of records as Parquet, and their way back through a producer: all of it below Spark.

    places.py         directories to be written to, here or wherever pyarrow writes
    manifest.py       what makes an export a whole one
    export_plan.py    what is to be exported, in pieces that can be written by themselves
    export_files.py   a piece as files of Parquet, by date
    export_rows.py    the records of an export, in the order of their offsets
    restore_plan.py   which files are to be restored to which partition
    target.py         the topics that an export is to be restored to: there, large enough, empty
    restoring.py      the records of one partition, through a producer

Needs numpy and pyarrow (extra ``arrow``); for restoring confluent-kafka, too (extra ``cli``).
"""
