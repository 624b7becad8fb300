"""All logs of a broker, in all its log directories.

Kafka: LogManager, with LogDirFailureChannel, OffsetCheckpointFile and the log recovery threads.

log_manager.py            LogManager: load, create, find, truncate, delete, move and close logs
log_creation.py           creates a log and chooses its directory
registry.py               the current and future logs, by partition and by directory
hosted_log.py             a log and its log directory: guarded access, and flush tasks
directories.py            all log directories
directory.py              one log directory: lock, meta.properties, online or offline
log_dir_loader.py         loads the logs of all directories at startup
log_recovery.py           the recovery of one log in a worker
lock.py                   the ``.lock`` file: one process per directory
log_dir_move.py           moves a log to another directory
log_shutdown.py           closes all logs for a clean shutdown
maintenance.py            flush, retention, compaction and producer expiration
compaction.py             one compaction, from the choice of the log to the segment swap
log_repair.py             recovers logs whose change failed for lack of file descriptors
pending_deletes.py        deleted logs that are not renamed yet
removal_queue.py          renamed files and directories that wait for their removal
disk_task.py              an operation that blocks on disk, in three parts
directory_checkpoints.py  the contents of the checkpoint files of one directory
checkpoint_writer.py      tasks that write the checkpoint files
observer.py               callbacks for warnings, recovery progress and failed directories
"""
