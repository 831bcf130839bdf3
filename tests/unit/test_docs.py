"""What the documents say about the code is true."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer

from taskflow.cli import app
from taskflow_streams.keys import NAMES

ROOT = Path(__file__).parents[2]
DOCUMENTS = [
    path for path in ROOT.glob("**/*.md") if not any(part.startswith(".") for part in path.relative_to(ROOT).parts)
]


def test_the_table_of_keys_is_that_of_the_code() -> None:
    """libs/taskflow_streams/README.md lists every key, its type and what it holds."""
    text = (ROOT / "libs/taskflow_streams/README.md").read_text("utf-8")

    for spelling, kind, holds in NAMES.values():
        suffix = "<…>" if spelling.endswith(":") else ""
        assert f"| `P {spelling}{suffix}` | {kind} | {holds} |" in text


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_in_the_documents_lead_somewhere(document: Path) -> None:
    """Every relative link of every document names a file that is there."""
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", document.read_text("utf-8")):
        if not target.startswith(("http://", "https://")):
            assert (document.parent / target).exists(), f"{document.relative_to(ROOT)} links to {target}"


def test_the_conformance_table_names_what_exists() -> None:
    """Every file it points to is there, and every test it names is defined."""
    text = (ROOT / "docs/conformance.md").read_text("utf-8")
    defined = set(
        re.findall(r"def (test_\w+)", "\n".join(path.read_text("utf-8") for path in ROOT.glob("tests/**/*.py")))
    )
    named = re.findall(r"`([^`\s]+)`", text)

    missing = [name for name in named if "/" in name and not (ROOT / name).exists()]
    missing += [name for name in named if name.startswith("test_") and name not in defined]
    assert missing == []


def test_the_guide_to_the_command_line_names_every_command() -> None:
    """And every one that it names is there."""
    text = (ROOT / "docs/cli.md").read_text("utf-8")
    commands: dict[str, object] = getattr(typer.main.get_command(app), "commands")  # noqa: B009
    paths = [
        f"{name} {inner}".strip() for name, command in commands.items() for inner in getattr(command, "commands", [""])
    ]
    assert "jobs ls" in paths

    assert [path for path in paths if not re.search(rf"\b{path}\b", text)] == []
    called = re.findall(r"^\$ taskflow ((?:jobs|schedules|queues|workers) \w+|\w+)", text, re.MULTILINE)
    assert [call for call in called if call not in paths] == []
