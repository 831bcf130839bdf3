"""`taskflow version` and `taskflow --version`."""

import typer


def register(app: typer.Typer) -> None:
    """Add the command `version`."""

    @app.command()
    def version() -> None:
        """Show the version."""
        show(True)


def show(wanted: bool) -> None:
    """Print the version and end, if that was asked for."""
    if wanted:
        from importlib.metadata import version as installed_version

        typer.echo(f"taskflow {installed_version('taskflow')}")
        raise typer.Exit
