"""Weights in memory once, whatever the number of processes: their bytes lie in a file that all of them map.

A model is taken apart by pickle's protocol 5, which hands out the buffers of arrays (numpy's and Arrow's)
instead of copying them. The buffers go into the file, the small rest through a pipe to our own workers; each
puts the model together again around the mapped bytes. Nothing of it outlives the server.
"""

from __future__ import annotations

import mmap
import pickle
from dataclasses import dataclass
from pathlib import Path

from infrec.serve.served import Served

_ALIGN = 64


@dataclass(frozen=True)
class Shared:
    """A model apart from its arrays, and where these lie."""

    name: str
    frame: bytes
    file: Path
    spans: tuple[tuple[int, int], ...]


def publish(served: Served, file: Path) -> Shared:
    """Write the arrays to a new file; the rest is returned."""
    buffers: list[pickle.PickleBuffer] = []
    frame = pickle.dumps(served, protocol=5, buffer_callback=buffers.append)
    spans, at = [], 0
    with file.open("wb") as out:
        for buffer in buffers:
            raw = buffer.raw()
            out.write(bytes(-at % _ALIGN))
            at += -at % _ALIGN
            spans.append((at, raw.nbytes))
            out.write(raw)
            at += raw.nbytes
    return Shared(served.name, frame, file, tuple(spans))


def attach(shared: Shared) -> Served:
    """The model around the mapped arrays, which cannot be written to."""
    views: list[memoryview] = []
    if any(size for _, size in shared.spans):
        with shared.file.open("rb") as handle:
            whole = memoryview(mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ))
        views = [whole[start : start + size] for start, size in shared.spans]
    else:
        views = [memoryview(b"") for _ in shared.spans]
    served = pickle.loads(shared.frame, buffers=views)
    assert isinstance(served, Served)
    return served
