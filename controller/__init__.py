"""Who leads what: the metadata store and the cluster controller.

Nothing is here yet: it follows the storage engine.
"""
