"""The command line. One small file a command; each is imported when it is called, so that `trilith serve` starts fast.

Rule: a `SetupError`, or an option that there is not, is one sentence for a person and exit code 2; a traceback means a
Bug.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError

from trilith import __version__
from trilith.errors import TrilithError


def make_app() -> App:
    """The command-line application."""
    app = App(
        name="trilith",
        help="Serve models: run them, turn Python into an API, run many of them, measure where time goes.",
        version=__version__,
        result_action="return_value",
    )
    app.command("trilith.cli.serve:serve", help="Serve a folder of models, or a service written in Python.")
    app.command("trilith.cli.call:call", help="Call a method of a service, running or not.")
    app.command("trilith.cli.client:client", help="Write a typed stub file of what a service offers.")
    app.command("trilith.cli.status:status", help="Show the servers that run on this machine.")
    app.command("trilith.cli.init:init", help="Make a small project to begin with.")
    app.command("trilith.cli.bench:bench", help="Measure an endpoint under load.")
    app.command("trilith.cli.compare:compare", help="Compare endpoints under the same load.")
    app.command("trilith.cli.tune:tune", help="Find the settings by which a target serves best.")
    app.command("trilith.cli.plan:plan", help="Say how many replicas and machines a rate takes.")
    app.command("trilith.cli.diagnose:diagnose", help="Find the bottleneck of an endpoint, and what would help.")
    app.command("trilith.cli.proto:proto", help="Write the .proto by which a service is reached over gRPC.")
    models = App(name="models", help="Look at a model repository and its configurations without serving them.")
    models.command("trilith.cli.models:check", help="Say what configurations mean, and what is wrong with them.")
    models.command("trilith.cli.models:list_", name="list", help="List the models of a repository.")
    models.command("trilith.cli.models:convert", help="Turn a config.pbtxt into a model.yaml, or the reverse.")
    app.command(models)
    keys = App(name="keys", help="Make API keys for `trilith serve --api-keys`.")
    keys.command("trilith.cli.keys:new", help="Make an API key, and its entry for the file of keys.")
    keys.command("trilith.cli.keys:list_", name="list", help="List the keys of a file.")
    app.command(keys)
    app.register_install_completion_command()
    return app


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the `trilith` command."""
    try:
        result = make_app()(arguments, print_error=False, exit_on_error=False)
    except CycloptsError as error:
        from trilith.cli.mistakes import sentence

        sys.stderr.write(f"trilith: {sentence(error)}\n")
        raise SystemExit(2) from None
    except TrilithError as error:
        sys.stderr.write(f"trilith: {error.message}\n")
        raise SystemExit(2) from None
    raise SystemExit(result if isinstance(result, int) else 0)
