"""All logs of a broker, in all its log directories.

log_manager.py            opened, made, found, deleted, moved, closed
making.py                 making one, and where
registry.py               which logs are there, and where
hosted_log.py             a log and the log directory it is in
directories.py            all log directories
directory.py              one of them: whose it is, whether it works
loading.py                opening every log of every directory
recovering.py             one of them, as a worker recovers it
lock.py                   .lock: one process at a time
moving.py                 moving a log to another directory
closing.py                closing all, so that nothing need be recovered
upkeep.py                 syncing, retention, compaction, forgetting
compacting.py             one compaction, from the choice to the swap
mending.py                logs that want of descriptors left half changed
doomed_logs.py            logs out of use that still have their names
removal_queue.py          what waits to be removed
disk_work.py              work that sleeps in the kernel, in three parts
directory_checkpoints.py  the checkpoints of one: what they say and should say
checkpoint_work.py        writing them
observer.py               what the logs report unasked
"""
