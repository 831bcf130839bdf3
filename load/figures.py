"""Percentiles and the table the harness prints."""

from __future__ import annotations

from collections.abc import Sequence


def percentile(values: Sequence[float], percent: float) -> float:
    """The value below which `percent` of them lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))] if ordered else float("nan")


def table(rows: Sequence[tuple[str, str, str]]) -> str:
    """Rows of (what, figure, beside what) as a Markdown table."""
    head = [("", "figure", "beside")]
    lines = [f"| {what} | {figure} | {beside} |" for what, figure, beside in [*head, *rows]]
    return "\n".join([lines[0], "| --- | --- | --- |", *lines[1:]])
