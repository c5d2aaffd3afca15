"""`infrec doctor`: what is installed, what this machine has, which data is found."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

from infrec import machine
from infrec.cli import console
from infrec.cli.options import Answer
from infrec.report.numbers import size

TYPICAL_ITEMS = 5_000


def doctor() -> Answer:
    """Check the installation: versions, devices, memory, data found, compile cache.

    [bold]Example[/]

      infrec doctor
    """
    from infrec.cli.datasets import describe
    from infrec.data.datasets import cache_folder
    from infrec.kernels import devices

    problems: list[str] = []
    versions = machine.versions()
    try:
        jax_devices = machine.devices()
    except Exception as error:  # whatever stops JAX is exactly what doctor is asked about
        jax_devices = []
        problems.append(f"JAX does not start ({type(error).__name__}: {error}); try: pip install -U jax")
    if versions["matplotlib"] is None:
        problems.append("matplotlib is not installed, so reports have no plots: pip install 'infrec[plot]'")
    folder = os.environ.get("INFREC_DATA")
    if folder and not Path(folder).is_dir():
        problems.append(
            f"INFREC_DATA is {folder!r}, which is not a folder; point it at one that holds datasets."
        )
    datasets = [entry for entry in describe() if entry["found"]]
    files, n_bytes = machine.folder_size(devices.compile_cache())
    document = {
        "versions": versions,
        "devices": jax_devices,
        "cores": machine.cores(),
        "memory": {
            "total": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            "available": machine.memory_available(),
            "exact_users": devices.users_that_fit(TYPICAL_ITEMS),
        },
        "data": {"INFREC_DATA": folder, "cache": str(cache_folder()), "found": datasets},
        "compile_cache": {"path": str(devices.compile_cache()), "files": files, "bytes": n_bytes},
        "problems": problems,
    }
    return document, partial(_show, document)


def _show(document: dict[str, Any]) -> None:
    packages = dict(document["versions"])
    own, python = packages.pop("infrec"), packages.pop("python")
    memory, data, cache = document["memory"], document["data"], document["compile_cache"]
    rows = {
        "infrec": own,
        "python": python,
        "packages": ", ".join(f"{name} {value or 'missing'}" for name, value in packages.items()),
        "devices": ", ".join(document["devices"]) or "none",
        "cores": document["cores"],
        "memory": f"{size(memory['available'])} available of {size(memory['total'])}: "
        f"an exact ∞-AE on up to about {memory['exact_users']:,} users × {TYPICAL_ITEMS:,} items, "
        "with few centres on any number of users",
        "INFREC_DATA": data["INFREC_DATA"] or "not set",
        "data found": ", ".join(entry["name"] for entry in data["found"]),
        "compile cache": f"{cache['path']}: {cache['files']} files, {size(cache['bytes'])}",
    }
    console.table(rows.items())
    for problem in document["problems"]:
        console.say(f"[bold yellow]problem[/]  {console.plain(problem)}")
    if not document["problems"]:
        console.say("[green]everything is in order[/]")
