"""The partitions of this broker.

replica_manager.py   all of them: found, led or followed, stopped
partition.py         one: its role, its log, who waits for it
portion.py           what is found when it is read
leader.py            what its leader knows: who is in sync, and how far
in_sync.py           the controller asked to agree on who is in sync
alone.py             nobody to ask, where there is no other broker
fetchers.py          which connection fetches what this broker follows
fetcher.py           one of them: fetch, append, cut
following.py         all that it fetches, and what of that to look at now
followed.py          a partition that it fetches, and whether it may now
follower_session.py  what its leader is told of what it wants
throttles.py         how fast replicas are copied, at most
cutting.py           a follower's log cut while nobody else works on it
truncation.py        where a log is cut that has parted from its leader's
log_copies.py        what a copy of a log has in common with it
waiter.py            who waits at a partition until something stirs
watermark.py         a number that grows, and those who wait for it
controller_fence.py  which controller is obeyed
delete_records.py    the start of a partition's log moved
log_dir_move.py      replicas moved to other log directories
log_dirs.py          what lies in the log directories
"""
