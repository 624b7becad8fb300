"""The errors at start-up that are reported in one line, because a traceback adds nothing."""

from odradek.broker.metadata_store import ZooKeeperClientMissing
from odradek.broker.network.listener import ListenerError
from odradek.broker.server import ControllerNotReachable, NoLogDirectory
from odradek.broker.settings.sources import BadSettings
from odradek.controller.registration import BrokerIdTaken
from odradek.controller.store.base import CannotOpenSession, StoreError
from odradek.storage.manager.lock import DirectoryLocked
from odradek.storage.manager.log_dir_loader import DuplicateLog
from odradek.storage.meta_properties import InvalidLogDirectory

STARTUP_ERRORS = (
    BadSettings,
    BrokerIdTaken,
    CannotOpenSession,
    DirectoryLocked,
    InvalidLogDirectory,
    DuplicateLog,
    ListenerError,
    ZooKeeperClientMissing,
    NoLogDirectory,
    ControllerNotReachable,
    StoreError,
)
