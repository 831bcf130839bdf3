"""The only place that knows Redis: keys, scripts with one typed method each, events, logs, leases."""

from taskflow_streams.errors import Full, StreamsError, Unavailable, Unfit
from taskflow_streams.firing import Firing, Settled
from taskflow_streams.graph import Message, Resolution
from taskflow_streams.history import Event, id_key
from taskflow_streams.jobs import SUBMIT_BATCH, Change, DependencyCycle, UnknownDependency
from taskflow_streams.leases import BATCH, LOG_BYTES, Order, Pool, Token
from taskflow_streams.logs import GIVEN_BACK, LogChunk
from taskflow_streams.queues import QueueRecord
from taskflow_streams.records import (
    Canceled,
    Deleted,
    Ending,
    Failure,
    How,
    JobRecord,
    Lease,
    NewJob,
    Renewed,
    Reported,
    RunPlace,
    Spec,
    Submitted,
    Updated,
    pack_retry,
    pack_spec,
    unpack_spec,
)
from taskflow_streams.schedules import MOST_SCHEDULES, Definition, Line, ScheduleRecord, Taken, Write, Written
from taskflow_streams.search import Page, Place, Query
from taskflow_streams.store import Claim, Partition, Store
from taskflow_streams.texts import Texts
from taskflow_streams.untold import up_to_date
from taskflow_streams.workers import WorkerRecord

__all__ = [
    "BATCH",
    "GIVEN_BACK",
    "LOG_BYTES",
    "MOST_SCHEDULES",
    "SUBMIT_BATCH",
    "Canceled",
    "Change",
    "Claim",
    "Definition",
    "Deleted",
    "DependencyCycle",
    "Ending",
    "Event",
    "Failure",
    "Firing",
    "Full",
    "How",
    "JobRecord",
    "Lease",
    "Line",
    "LogChunk",
    "Message",
    "NewJob",
    "Order",
    "Page",
    "Partition",
    "Place",
    "Pool",
    "Query",
    "QueueRecord",
    "Renewed",
    "Reported",
    "Resolution",
    "RunPlace",
    "ScheduleRecord",
    "Settled",
    "Spec",
    "Store",
    "StreamsError",
    "Submitted",
    "Taken",
    "Texts",
    "Token",
    "Unavailable",
    "Unfit",
    "UnknownDependency",
    "Updated",
    "WorkerRecord",
    "Write",
    "Written",
    "id_key",
    "pack_retry",
    "pack_spec",
    "unpack_spec",
    "up_to_date",
]
