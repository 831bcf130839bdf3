"""The leases of a worker that speaks HTTP: keep those it names, and give back those it does not know of.

A worker does not know of a lease when the answer that brought it was lost.  Such a job costs no attempt.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from taskflow_streams import Ending, How, Lease, Partition, Renewed, Store, Token


@dataclass(frozen=True, slots=True)
class Renewal:
    """What became of the leases that a worker named."""

    lost: list[str]
    cancel: list[str]
    known: bool  # False: a partition has taken the worker for dead


async def renew(store: Store, worker_id: str, job_ids: Iterable[str], fields: dict[str, str | int | float]) -> Renewal:
    """Keep these leases, and tell every partition that the worker lives, and how it is."""
    named: dict[int, list[str]] = defaultdict(list)
    lost: list[str] = []
    cancel: list[str] = []
    for job_id in job_ids:
        home = store.partition(job_id)
        if home is None:
            lost.append(job_id)
        else:
            named[home.index].append(job_id)
    known = True
    for partition in store.partitions:
        ids = named[partition.index]
        words, here = await partition.leases.renew(worker_id, [(job_id, 0) for job_id in ids], fields)
        lost += [job_id for job_id, word in zip(ids, words, strict=True) if word is Renewed.LOST]
        cancel += [job_id for job_id, word in zip(ids, words, strict=True) if word is Renewed.CANCEL]
        known = known and here
    return Renewal(lost, cancel, known)


async def give_back_others(store: Store, worker_id: str, job_ids: Iterable[str], started_before_ms: int) -> int:
    """Give back what the worker holds and did not name, unless it was leased later: it may be in the post."""
    named, back = set(job_ids), 0
    for partition in store.partitions:
        others = [token for token in await partition.leases.held(worker_id) if token[0] not in named]
        if others:
            back += await _give_back(partition, worker_id, await _older(store, others, started_before_ms))
    return back


async def give_back(store: Store, worker_id: str, leases: Sequence[Lease]) -> None:
    """Give back what was leased for nobody."""
    for partition in store.partitions:
        tokens = [(each.job_id, each.fence) for each in leases if store.partition(each.job_id) is partition]
        await _give_back(partition, worker_id, tokens)


async def _older(store: Store, tokens: Sequence[Token], started_before_ms: int) -> list[Token]:
    records = await store.get([job_id for job_id, _ in tokens])
    return [
        token
        for token, record in zip(tokens, records, strict=True)
        if record is not None and (record.started_ms or 0) <= started_before_ms
    ]


async def _give_back(partition: Partition, worker_id: str, tokens: Sequence[Token]) -> int:
    if not tokens:
        return 0
    await partition.leases.report(worker_id, [Ending(*token, How.RELEASED) for token in tokens])
    return len(tokens)
