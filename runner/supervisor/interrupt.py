"""How a run is asked to end: a file that a client writes, seen within a fraction of a second."""

from __future__ import annotations

import time
from pathlib import Path


class StopRequested(Exception):
    """Raised at a safe point after somebody asked for the run to stop."""


class StopSignal:
    """Watches `control/stop.json`. Once seen it stays."""

    def __init__(self, path: Path):
        self._path = path
        self._seen = False

    @property
    def requested(self) -> bool:
        """True as soon as the request is there."""
        if not self._seen:
            self._seen = self._path.exists()
        return self._seen

    def check(self) -> None:
        """Raise `StopRequested` when the run shall end."""
        if self.requested:
            raise StopRequested

    def sleep(self, seconds: float) -> None:
        """Sleep, but notice a stop at once."""
        deadline = time.monotonic() + seconds
        while True:
            self.check()
            left = deadline - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(0.1, left))
