"""One partition's log on disk, and the log manager over all of them.

Synchronous, one writer per log; knows no event loop, no clock, no metric, no replica.
Nothing is here yet: the storage engine is the next layer to be built.
"""
