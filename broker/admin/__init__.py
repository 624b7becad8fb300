"""What administrators ask of a broker.

resources.py            what a configuration can be of
config_descriptions.py  what is set, and where it was written
config_admin.py         what shall be set
logger_levels.py        how much is logged
"""
