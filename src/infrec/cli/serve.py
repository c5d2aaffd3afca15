"""`infrec serve`: models behind an HTTP endpoint and a page, on this machine unless told otherwise."""

from __future__ import annotations

import importlib.util
import os
import secrets
import sys
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from infrec.cli import console, options
from infrec.cli.options import argument, option

if TYPE_CHECKING:
    from infrec.serve.served_model import Served
    from infrec.serve.settings import Settings

TOKEN = "INFREC_TOKEN"
_SAFETY, _LOAD = "Who may ask", "Under load"


ModelsArgument = Annotated[
    list[str],
    argument(
        "MODEL_OR_SUMMARY...",
        "Directories that infrec fit, distill or sample wrote, or NAME=DIRECTORY; the first is the default.",
    ),
]
HostOption = Annotated[
    str, option("--host ADDRESS", "Where to listen; any but this machine's own needs a token.")
]
PortOption = Annotated[int, option("--port PORT", "Which port; 0 takes a free one.", min=0, max=65535)]
TokenOption = Annotated[
    str | None,
    option(
        "--token TEXT",
        f"What clients must send; better in ${TOKEN}, which other users of the machine cannot see.",
        _SAFETY,
    ),
]
AllowHostOption = Annotated[
    list[str] | None,
    option(
        "--allow-host NAME[:PORT]",
        "Another Host header to answer to, behind a proxy for example; repeatable.",
        _SAFETY,
    ),
]
CorsOption = Annotated[
    list[str] | None,
    option(
        "--cors ORIGIN", "A page elsewhere that may call, such as https://example.org; repeatable.", _SAFETY
    ),
]
WorkersOption = Annotated[
    int, option("--workers N", "Processes; the weights are in memory once.", _LOAD, min=1, max=256)
]
QueueOption = Annotated[
    int, option("--queue N", "Requests that may wait for a model; more get 503.", _LOAD, min=1)
]
WindowOption = Annotated[
    float,
    option(
        "--window MS",
        "Milliseconds in which requests gather to be scored together.",
        _LOAD,
        min=0.0,
        max=1000.0,
    ),
]
TimeoutOption = Annotated[
    float, option("--timeout SECONDS", "How long a request may take to arrive.", _LOAD, min=0.1)
]
ConnectionsOption = Annotated[
    int, option("--connections N", "Open connections at a time, in each process.", _LOAD, min=1)
]
QuietOption = Annotated[bool, option("--quiet", "No line for each request.")]
OpenOption = Annotated[bool, option("--open", "Open the page in a browser.")]


def serve(
    models: ModelsArgument,
    host: HostOption = "127.0.0.1",
    port: PortOption = 8000,
    token: TokenOption = None,
    allow_host: AllowHostOption = None,
    cors: CorsOption = None,
    workers: WorkersOption = 1,
    queue: QueueOption = 48,
    window: WindowOption = 1.0,
    timeout: TimeoutOption = 10.0,
    connections: ConnectionsOption = 1000,
    quiet: QuietOption = False,
    open_: OpenOption = False,
    json: options.Json = False,
) -> None:
    """Serve models over HTTP, with a page to try them: recommendations with reasons, no training.

    A summary or a sample is fitted when it is loaded, in about a second. SIGHUP, or a replaced directory,
    loads a model again; SIGTERM and Ctrl-C stop when the requests in flight are answered.

    [bold]Examples[/]

      infrec serve model
      infrec serve full=model small=summary --port 8080
      infrec serve summary --host 0.0.0.0 --allow-host recs.example.org --workers 2
    """
    need_extra()
    # One BLAS thread: batches are small, and a second one would fight with the event loop for the cores.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("MKL_NUM_THREADS", "1")
    from infrec.serve import Settings, leave_soon, run
    from infrec.serve.loading import sources
    from infrec.serve.settings import is_loopback

    token = token or os.environ.get(TOKEN) or None
    new_token = token is None and not is_loopback(host)
    settings = Settings(
        host=host,
        port=port,
        token=secrets.token_urlsafe(24) if new_token else token,
        hosts=tuple(allow_host or ()),
        origins=tuple(cors or ()),
        workers=workers,
        queue=queue,
        window=window / 1000,
        timeout=timeout,
        connections=connections,
        log_requests=not quiet,
    )

    def started(at: Settings, served: list[Served]) -> None:
        _tell(at, served, made=new_token, json=json)
        # A browser in the terminal would take it over; and there may be nobody to see a window.
        seen = sys.platform == "darwin" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
        if open_ and seen:
            import webbrowser

            webbrowser.open(_page(at))

    run(sources(models), settings, started)
    leave_soon()


def need_extra() -> None:
    """Say so where the extra `serve` is not installed."""
    missing = [name for name in ("fastapi", "uvicorn", "httptools") if importlib.util.find_spec(name) is None]
    if missing:
        raise typer.BadParameter(
            f"serving needs {', '.join(missing)}, not installed here; run: pip install 'infrec[serve]'."
        )


def _page(settings: Settings) -> str:
    """The page's address; the token stands behind the #, which browsers send to nobody."""
    return settings.url + (f"#token={quote(settings.token, safe='')}" if settings.token else "")


def _tell(settings: Settings, served: list[Served], *, made: bool, json: bool) -> None:
    entries: list[dict[str, Any]] = [
        {**one.label, "type": one.model.name, "users": one.log.n_users, "items": one.log.n_items}
        for one in served
    ]
    if json:
        shown = {"token": settings.token} if made else {}
        console.emit({"url": settings.url, "pid": os.getpid(), "models": entries, **shown})
        return
    for entry in entries:
        console.say(
            f"[bold]{console.plain(entry['name'])}[/]  {entry['type']}, {entry['users']:,} users × "
            f"{entry['items']:,} items  [dim]{entry['hash']}[/]"
        )
    # An IPv6 address has brackets, as markup has.
    console.say(f"Serving at [bold]{console.plain(settings.url)}[/]  (Ctrl-C stops)")
    if made:
        console.say(f"The token, shown once: [bold]{settings.token}[/]")
        console.say(f"The page: {console.plain(_page(settings))}")
