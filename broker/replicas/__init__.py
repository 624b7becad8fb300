"""The partitions of this broker.

replica_manager.py   all of them: found, led or followed, stopped
partition.py         one: its role, its log, who waits for it
leader.py            what its leader knows: who is in sync, and how far
watermark.py         a number that grows, and those who wait for it
controller_fence.py  which controller is obeyed
delete_records.py    the start of a partition's log moved
log_dir_move.py      replicas moved to other log directories
log_dirs.py          what lies in the log directories
"""
