"""Where the processes of jobs come from: a small process of one thread, started before any user's code is loaded."""

from taskflow_worker.processes.client import Child, Nursery, NurseryGone
from taskflow_worker.processes.messages import Order

__all__ = ["Child", "Nursery", "NurseryGone", "Order"]
