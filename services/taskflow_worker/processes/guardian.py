"""The nursery's parent, which does nothing but outlive it: whatever ends the nursery, what it had started ends too.

`python -m taskflow_worker.processes.guardian SOCKET FOLDER`: the descriptor that the nursery is spoken to through, and
the folder of the jobs' files, which is removed when all of them have ended.
"""

import os
import shutil
import signal
import socket
import sys
from typing import NoReturn

import setproctitle

from taskflow_worker.processes import orphans


def main() -> NoReturn:
    """Fork: the child is the nursery."""
    line, folder = socket.socket(fileno=int(sys.argv[1])), sys.argv[2]
    line.set_inheritable(False)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the worker decides when it is over
    orphans.adopt()
    nursery = os.fork()
    if nursery == 0:
        from taskflow_worker.processes.server import serve  # what it needs, the guardian can do without

        serve(line)
    line.close()
    setproctitle.setproctitle("taskflow guardian")
    while os.waitpid(-1, 0)[0] != nursery:
        pass
    orphans.end_all()
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


if __name__ == "__main__":
    main()
