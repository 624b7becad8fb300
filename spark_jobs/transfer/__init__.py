"""Export records as Parquet and restore them through a producer: the parts that do not need Spark.

    export_directory.py   write access to directories, local or on any file system of pyarrow
    manifest.py           the manifest, which marks an export as complete
    export_plan.py        the offset ranges to export, in tasks that can be written independently
    export_writer.py      writes a task as Parquet files, by date
    export_reader.py      reads the records of an export, in offset order
    restore_plan.py       the files to restore to each partition
    target_cluster.py     the topics to restore to: they must exist, be large enough and be empty
    partition_restore.py  sends the records of one partition through a producer

The package needs numpy and pyarrow (extra ``arrow``); restoring also needs confluent-kafka (extra
``cli``).
"""
