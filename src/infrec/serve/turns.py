"""An event loop whose turns are short.

asyncio hands out everything that its selector found before it goes on with tasks. With hundreds of sockets
ready, as under overload, an answer that needs four turns (read, started, scored, written) waits four times
for hundreds of others. Here a turn takes a few of the sockets, and the next turns take the rest.
"""

from __future__ import annotations

import asyncio
import selectors

_SOCKETS = 16  # in a turn


class _Few(selectors.DefaultSelector):
    """The system's selector, whose finds are handed out a few at a time."""

    def __init__(self) -> None:
        super().__init__()
        self._left: list[tuple[selectors.SelectorKey, int]] = []

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if not self._left:
            self._left = super().select(timeout)
            if len(self._left) <= _SOCKETS:
                found, self._left = self._left, []
                return found
        some, self._left = self._left[:_SOCKETS], self._left[_SOCKETS:]
        now = self.get_map()
        # What was closed or paused in the meantime is not ready any more.
        fresh = [(now.get(key.fileobj), events) for key, events in some]
        return [
            (key, events & key.events) for key, events in fresh if key is not None and events & key.events
        ]


def new_loop() -> asyncio.AbstractEventLoop:
    return asyncio.SelectorEventLoop(_Few())
