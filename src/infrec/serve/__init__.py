"""HTTP service and its web page: answers from fitted models, with numpy alone; it never trains and never
imports JAX."""

from __future__ import annotations

import importlib
from typing import Any

_HOME = {
    "Settings": "infrec.serve.settings",
    "bind": "infrec.serve.server",
    "leave_soon": "infrec.serve.server",
    "run": "infrec.serve.server",
}
__all__ = ["Settings", "bind", "leave_soon", "run"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'infrec.serve' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)
