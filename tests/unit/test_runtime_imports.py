"""What is loaded when: every service pays for its imports while somebody waits for `taskflow up`."""

import subprocess
import sys

import pytest


def loaded(statement: str) -> set[str]:
    """The top-level packages that a fresh interpreter has after a statement."""
    code = f"{statement}\nimport sys; print(*sorted(name for name in sys.modules if sys.modules[name]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return {name.partition(".")[0] for name in done.stdout.split()}


@pytest.mark.parametrize(
    ("statement", "spared"),
    [
        ("import taskflow_runtime", {"pydantic", "structlog", "redis", "uvicorn"}),
        ("from taskflow_runtime import Settings, read; read(Settings)", {"redis", "uvicorn", "structlog", "yaml"}),
        ("import taskflow_runtime.logs", {"redis", "uvicorn", "pydantic", "rich"}),
        ("from taskflow_runtime import Service, run; Service, run", {"rich", "prometheus_client", "yaml"}),
    ],
)
def test_nothing_is_loaded_before_it_is_needed(statement: str, spared: set[str]) -> None:
    """The heavy packages come with the names that use them."""
    assert not loaded(statement) & spared


def test_rich_can_be_loaded_after_us() -> None:
    """structlog does without it; others need not."""
    assert "rich" in loaded("import taskflow_runtime.logs; import rich.console")


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    """Loading on demand does not hide a typing error."""
    import taskflow_runtime

    with pytest.raises(AttributeError, match="has no attribute 'Servcie'"):
        taskflow_runtime.Servcie  # type: ignore[attr-defined]  # noqa: B018
