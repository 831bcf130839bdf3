"""Percentiles and the table the harness prints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


def percentile(values: Sequence[float], percent: float) -> float:
    """The value below which `percent` of them lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))] if ordered else float("nan")


@dataclass(frozen=True, slots=True)
class Spread:
    """How values are spread."""

    count: int
    p50: float
    p95: float
    p99: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Of these."""
        p50, p95, p99 = (percentile(values, percent) for percent in (50, 95, 99))
        return cls(len(values), p50, p95, p99, max(values, default=float("nan")))

    def __str__(self) -> str:
        """As milliseconds: p50 / p95 / p99 / max."""
        return " / ".join(f"{value:,.1f}" for value in (self.p50, self.p95, self.p99, self.most)) + " ms"


def table(rows: Sequence[tuple[str, str, str]]) -> str:
    """Rows of (what, figure, beside what) as a Markdown table."""
    head = [("", "figure", "beside")]
    lines = [f"| {what} | {figure} | {beside} |" for what, figure, beside in [*head, *rows]]
    return "\n".join([lines[0], "| --- | --- | --- |", *lines[1:]])
