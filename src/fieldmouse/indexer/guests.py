"""Loaded plug-ins of one worker process."""

from __future__ import annotations

from fieldmouse.indexer.admission import Admission
from fieldmouse.indexer.harvest import Harvest
from fieldmouse.indexer.readers import READERS, own_readers
from fieldmouse.plugins.call import Onlooker
from fieldmouse.plugins.names import PluginNames


class Guests:
    """The configured plug-ins; without any, nothing is loaded or called."""

    def __init__(self, names: PluginNames, onlooker: Onlooker | None = None):
        """`onlooker` is notified of each call. Raises `FieldmouseError` if a plug-in cannot be loaded."""
        onlooker = onlooker or Onlooker()
        self.harvest = Harvest(names, onlooker) if names.extract else None
        self.admission = Admission(names, onlooker) if names.admit else None
        self.readers = own_readers(names, onlooker) if names.readers else READERS
