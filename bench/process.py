"""Processes under measurement: what they cost, and the servers they are run against."""

import contextlib
import json
import os
import pathlib
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from typing import NamedTuple

# Chosen: what a run may take beyond its own time (start, connecting, drain, report).
PATIENCE_S = 60


class Unfit(Exception):
    """A measurement that can't be made or must not be used; its text says why."""


class Outcome(NamedTuple):
    """A process that ended."""

    status: int
    output: str
    cpu_s: float
    peak_bytes: int


def run(command, core, seconds):
    """Runs a command on one core. CPU time is of all its threads, start and end included."""
    return _run(command, core, seconds, lambda child: os.wait4(child.pid, 0)[1:] + (0,))


def run_for_memory(command, core, seconds):
    """The same, looking at its memory a hundred times a second."""
    return _run(command, core, seconds, _watch_memory)


def _run(command, core, seconds, wait):
    with tempfile.TemporaryFile() as output:
        child = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            preexec_fn=lambda: os.sched_setaffinity(0, {core}),
        )
        hung = threading.Timer(seconds + PATIENCE_S, child.kill)
        hung.start()
        try:
            status, usage, peak = wait(child)
        except BaseException:
            child.kill()
            child.wait()
            raise
        finally:
            hung.cancel()
        child.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read().decode(errors="replace")
    return Outcome(child.returncode, text, usage.ru_utime + usage.ru_stime, peak)


def _watch_memory(child):
    seen = 0
    while True:
        pid, status, usage = os.wait4(child.pid, os.WNOHANG)
        if pid:
            break
        with contextlib.suppress(OSError):
            for line in pathlib.Path(f"/proc/{child.pid}/status").read_text().splitlines():
                if line.startswith("VmHWM:"):
                    seen = int(line.split()[1])
        time.sleep(0.01)
    # Over an exec the kernel carries the peak of the memory before it into ru_maxrss (exec_mmap,
    # fs/exec.c): it is exact above this interpreter's own peak, and says nothing below.
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    exact = usage.ru_maxrss if usage.ru_maxrss > own else 0
    return status, usage, max(seen, exact) * 1024


@contextlib.contextmanager
def nginx(core, connections):
    """An nginx of one process on a free port; gives its address."""
    binary = shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin")
    if not binary:
        raise Unfit("nginx is not installed: make setup")
    template = pathlib.Path(__file__).with_name("nginx.conf").read_text()
    with tempfile.TemporaryDirectory(prefix="linerate-bench.") as prefix:
        port = free_port()
        put_in = {"PORT": port, "PREFIX": prefix, "CONNECTIONS": connections}
        for name, value in put_in.items():
            template = template.replace(f"@{name}@", str(value))
        conf = pathlib.Path(prefix, "nginx.conf")
        conf.write_text(template)
        with serving([binary, "-p", prefix, "-c", conf, "-e", "stderr"], core) as server:
            wait_for("127.0.0.1", port, server)
            yield f"127.0.0.1:{port}"


@contextlib.contextmanager
def example(binary, core, *words):
    """A server among the engine's examples; gives its address and, afterwards, its own account."""
    with serving([binary, *words], core, stdout=subprocess.PIPE) as server:
        word, address = server.stdout.readline().decode().split()
        if word != "ready":
            raise Unfit(f"{binary.name} said {word!r}")
        told = {}
        yield address, told
        rest, _ = server.communicate(timeout=PATIENCE_S)
        told.update(json.loads(rest))


@contextlib.contextmanager
def serving(command, core, stdout=subprocess.DEVNULL):
    """A server for as long as the block."""
    server = subprocess.Popen(
        [str(word) for word in command],
        stdin=subprocess.PIPE,
        stdout=stdout,
        preexec_fn=lambda: os.sched_setaffinity(0, {core}),
    )
    try:
        yield server
    finally:
        if server.poll() is None:
            server.send_signal(signal.SIGTERM)
            try:
                server.wait(timeout=5)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def wait_for(host, port, server):
    """Until it accepts."""
    deadline = time.monotonic() + 5
    while True:
        if server.poll() is not None:
            raise Unfit(f"the server ended with status {server.returncode} before it listened")
        try:
            socket.create_connection((host, port), timeout=1).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise Unfit(f"nothing listens on {host}:{port} after 5 s") from None
            time.sleep(0.02)


def free_port():
    """One that was free just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def busy_share(seconds=1.0):
    """How busy the machine is with other things, as a share of all its CPUs."""

    def ticks():
        # Source: proc_stat(5): user nice system idle iowait irq softirq steal ...
        fields = pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
        numbers = [int(field) for field in fields]
        return sum(numbers), numbers[3] + numbers[4]

    all_before, idle_before = ticks()
    time.sleep(seconds)
    all_after, idle_after = ticks()
    return 1 - (idle_after - idle_before) / max(1, all_after - all_before)
