"""A process that behaves like a service as far as a supervisor can tell; run by the supervisor's tests.

    fake_service.py NAME PORT JOURNAL [MODE]

It answers /readyz, and writes into the journal when it starts and when it stops.  A `stubborn` one ignores SIGTERM,
a `refusing` one ends with status 2, a `leaving` one leaves a child behind when it is killed, and a `recycling` one ends
by itself with status 0, soon after it was asked whether it is ready.
"""

import os
import signal
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import FrameType

NAME, PORT, JOURNAL = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
MODE = sys.argv[4] if len(sys.argv) > 4 else ""


class Ready(BaseHTTPRequestHandler):
    """Yes to everything."""

    def do_GET(self) -> None:
        """Answer 200."""
        self.send_response(200)
        self.end_headers()
        if MODE == "recycling":
            threading.Timer(0.2, os._exit, (0,)).start()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def note(event: str) -> None:
    """Append one line to the journal."""
    with JOURNAL.open("a") as file:
        file.write(f"{event} {NAME} {os.getpid()}\n")


def stop(_number: int, _frame: FrameType | None) -> None:
    """Note the stop and end, unless stubborn."""
    note("asked")
    if MODE != "stubborn":
        sys.exit(0)


if MODE == "refusing":
    sys.exit(2)
signal.signal(signal.SIGTERM, stop)
if MODE == "leaving":
    child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    with JOURNAL.open("a") as file:
        file.write(f"child {NAME} {child.pid}\n")
server = HTTPServer(("127.0.0.1", PORT), Ready)
note("started")
sys.stdout.write(f"hello from {NAME}\n")
sys.stdout.flush()
server.serve_forever()
