"""`regard serve`"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli import options
from regard.cli.standard import say, show
from regard.errors import RegardError, counted, first_of
from regard.lazy import optional

if TYPE_CHECKING:
    from regard.serve.models import Served

TOKEN = "REGARD_TOKEN"
"""The variable of the environment that may have the token."""


def serve(
    context: typer.Context,
    models: Annotated[
        list[str], typer.Argument(metavar="MODEL…", help="Run folders, shipped models, or folders of run folders.")
    ],
    host: Annotated[str, typer.Option("--host", help="The address to listen at; 0.0.0.0: all of them.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0: a free one.")] = 8000,
    device: options.Device = "auto",
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file", metavar="FILE", help="A file with the token that clients must send; or set REGARD_TOKEN."
        ),
    ] = None,
    cors: Annotated[
        list[str] | None,
        typer.Option("--cors", metavar="ORIGIN", help="A web page elsewhere that may use the server; repeatable."),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-host", metavar="NAME", help="A name by which clients reach the server, as of a proxy; repeatable."
        ),
    ] = None,
    wait: Annotated[
        float, typer.Option("--wait", min=0, max=1000, help="Milliseconds to wait for requests to compute together.")
    ] = 5,
    batch: Annotated[int, typer.Option("--batch", min=1, help="The most inputs that are computed together.")] = 64,
    queue: Annotated[int, typer.Option("--queue", min=1, help="The most requests that wait for a model.")] = 256,
    longest_body: Annotated[
        float, typer.Option("--longest-body", metavar="MB", min=0.001, help="The largest request, in megabytes.")
    ] = 10,
    seconds: Annotated[float, typer.Option("--seconds", min=0.1, help="The time limit of a request.")] = 60,
    watch: Annotated[
        float | None,
        typer.Option("--watch", metavar="S", min=0.1, help="Look every S seconds for changed models, and load them."),
    ] = None,
    open_: Annotated[bool, typer.Option("--open", help="Open the page in a web browser.")] = False,
    normaliser: options.Normaliser = None,
) -> None:
    """Serve models by HTTP, with a page on which to look at them.

    The page is at http://127.0.0.1:8000/, the description of all addresses at /docs. POST /v1/predict has the inputs
    and gets what `regard predict --format jsonl` prints.

    SIGTERM and Ctrl-C end the server when it has answered what it has accepted; SIGHUP loads all models again. Of a
    folder of run folders each model is loaded when it is first asked for.
    """
    optional("fastapi", "regard serve needs", extra="serve")
    optional("prometheus_client", "regard serve needs", extra="serve")
    optional("uvicorn", "regard serve needs", extra="serve")
    from regard.serve import Limits, Models, application
    from regard.serve.limits import LOOPBACK
    from regard.serve.models import sources_of
    from regard.serve.running import listen, run

    token, settings = _token(token_file), options.settings(context)
    sources, named = sources_of(models)
    limits = Limits(wait / 1000, batch, queue, seconds, int(longest_body * 1_000_000))
    loaded = Models(
        sources, lambda name: options.load(name, device, settings, normaliser=normaliser), limits=limits, say=say
    )
    with listen(host, port) as listening:
        for name in named:
            show(_described(loaded.load(name)))
        if later := [name for name in sources if name not in named]:
            show(f"{counted(len(later), 'model|models is|are')} loaded when first asked for: {first_of(later, 5)}")
        is_local = host in (*LOOPBACK, "::1")
        if not is_local and token is None:
            say(f"warning: everyone who reaches {host} can use the models; --token-file FILE asks for a token.")
        hosts = {*LOOPBACK, *(allow_host or ())} if is_local or allow_host else None
        app = application(loaded, token=token, origins=cors or (), hosts=hosts)
        shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "::1": "[::1]"}.get(host, host)
        address = f"http://{shown}:{listening.getsockname()[1]}/"
        show(f"{address} (all addresses: {address}docs){_memory()}; Ctrl-C ends the server.")
        if open_:
            import webbrowser

            webbrowser.open(address)
        run(app, listening, watch=watch)


def _token(file: Path | None) -> str | None:
    """The token of a file, or of the environment."""
    text = os.environ.get(TOKEN)
    if file is not None:
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise RegardError(f"{file}: the token cannot be read: {getattr(error, 'strerror', error)}.") from None
    token = None if text is None else text.strip()
    if token is not None and (not token or not token.isascii() or len(token.split()) != 1):
        raise RegardError(f"{file or TOKEN}: expected a token of letters and digits on one line.")
    return token


def _described(served: Served) -> str:
    """A loaded model, in a line."""
    model = served.model
    size = sum(each.numel() * each.element_size() for each in model.module.state_dict().values())
    return f"{served.name}: {model.config.task}, {size / 1e6:,.1f} MB of weights, version {served.version}"


def _memory() -> str:
    """The memory of the process; empty where it is not known."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return ""
    return f"; {pages * os.sysconf('SC_PAGE_SIZE') / 1e6:,.0f} MB of memory"
