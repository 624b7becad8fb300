"""Why a broker could not start, where one line says it all and a traceback would say no more."""

from odradek.broker.network.listener import ListenerError
from odradek.broker.server import NoLogDirectory, NotReached
from odradek.broker.store import MissingClient
from odradek.controller.registration import BrokerIdTaken
from odradek.controller.store.base import CannotOpen, StoreError
from odradek.storage.manager.loading import DuplicateLog
from odradek.storage.manager.lock import DirectoryLocked
from odradek.storage.meta_properties import DirectoryRefused

CANNOT_START = (
    BrokerIdTaken,
    CannotOpen,
    DirectoryLocked,
    DirectoryRefused,
    DuplicateLog,
    ListenerError,
    MissingClient,
    NoLogDirectory,
    NotReached,
    StoreError,
)
