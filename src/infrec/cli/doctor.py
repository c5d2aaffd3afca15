"""`infrec doctor`: what is installed, what this machine has, which data is found."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from infrec import machine
from infrec.cli import console
from infrec.cli.options import Json
from infrec.report.numbers import size

TYPICAL_ITEMS = 5_000


def doctor(json: Json = False) -> None:
    """Check the installation: versions, devices, memory, data found, compile cache.

    [bold]Example[/]

      infrec doctor
    """
    document = examine()
    if json:
        console.emit(document)
    else:
        _show(document)


def examine() -> dict[str, Any]:
    """Everything `doctor` knows."""
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
    data = _data(problems)
    files, n_bytes = machine.folder_size(devices.compile_cache())
    return {
        "versions": versions,
        "devices": jax_devices,
        "cores": machine.cores(),
        "memory": _memory(),
        "data": data,
        "compile_cache": {"path": str(devices.compile_cache()), "files": files, "bytes": n_bytes},
        "problems": problems,
    }


def _data(problems: list[str]) -> dict[str, Any]:
    """The datasets that are here already, and where they were looked for."""
    from infrec.cli.datasets import describe
    from infrec.data.datasets import cache_folder

    folder = os.environ.get("INFREC_DATA")
    if folder and not Path(folder).is_dir():
        problems.append(
            f"INFREC_DATA is {folder!r}, which is not a folder; point it at one that holds datasets."
        )
    found = [entry for entry in describe() if entry["found"]]
    return {"INFREC_DATA": folder, "cache": str(cache_folder()), "found": found}


def _show(document: dict[str, Any]) -> None:
    from rich.table import Table

    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    versions = document["versions"]
    table.add_row("infrec", str(versions["infrec"]))
    table.add_row("python", str(versions["python"]))
    rest = {name: value for name, value in versions.items() if name not in ("infrec", "python")}
    table.add_row("packages", ", ".join(f"{name} {value or 'missing'}" for name, value in rest.items()))
    table.add_row("devices", ", ".join(document["devices"]) or "none")
    table.add_row("cores", str(document["cores"]))
    memory = document["memory"]
    table.add_row(
        "memory",
        f"{size(memory['available'])} available of {size(memory['total'])}: "
        f"an exact ∞-AE on up to about {memory['exact_users']:,} users × {TYPICAL_ITEMS:,} items, "
        "with few centres on any number of users",
    )
    data = document["data"]
    table.add_row("INFREC_DATA", data["INFREC_DATA"] or "not set")
    table.add_row("data found", ", ".join(entry["name"] for entry in data["found"]))
    cache = document["compile_cache"]
    table.add_row("compile cache", f"{cache['path']}: {cache['files']} files, {size(cache['bytes'])}")
    console.out().print(table)
    for problem in document["problems"]:
        console.out().print(f"[bold yellow]problem[/]  {console.plain(problem)}", soft_wrap=True)
    if not document["problems"]:
        console.out().print("[green]everything is in order[/]")


def _memory() -> dict[str, int]:
    """Bytes of memory in this machine and available now, and about how many users an exact ∞-AE takes."""
    from infrec import machine
    from infrec.kernels import devices as budget

    return {
        "total": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "available": machine.memory_available(),
        "exact_users": budget.users_that_fit(TYPICAL_ITEMS),
    }
