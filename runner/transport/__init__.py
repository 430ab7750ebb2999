"""How a host is reached: one protocol, over SSH or on this machine."""

from runner.transport.base import Chunk, Completed, Connection, FileStat, Source, Stream
from runner.transport.open import connect

__all__ = ["Chunk", "Completed", "Connection", "FileStat", "Source", "Stream", "connect"]
