"""One stream: linerate against iperf3, each with a far end of its own on another core."""

import json
import pathlib
import subprocess
import tempfile
from typing import NamedTuple

from generators import alternate
from process import Unfit, free_port, run, serving, wait_for

BLOCK = "128K"
CONGESTION = "cubic"
DIRECTIONS = ("up", "down")


class Streamed(NamedTuple):
    """What one run moved, by its receiver's count, and cost."""

    gbit: float
    cpu_s: float
    retransmissions: int


class Linerate:
    """`linerate run stream://` against `linerate serve`."""

    name = "linerate"

    def __init__(self, binary):
        self.binary = binary

    def far_end(self, port):
        return [self.binary, "serve", "--quiet", "--bind", "127.0.0.1", "--port", port]

    def stream(self, port, direction, seconds, core):
        with tempfile.TemporaryDirectory(prefix="linerate-bench.") as folder:
            out = pathlib.Path(folder, "run.json")
            command = [self.binary, "run", f"stream://127.0.0.1:{port}", "--stream", direction, "--block", "128KiB"]
            command += ["-C", CONGESTION, "-d", f"{seconds}s", "--no-check", "-q", "-o", out]
            outcome = run(command, core, seconds)
            if outcome.status != 0 or not out.exists():
                raise Unfit(f"linerate ended with status {outcome.status}:\n{outcome.output}")
            moved = json.loads(out.read_text())["load"]["streamed"]
        arrived = moved["far_read_bytes"] if direction == "up" else moved["read_bytes"]
        return Streamed(arrived * 8 / seconds / 1e9, outcome.cpu_s, int(moved.get("resent", 0)))


class Iperf3:
    """`iperf3 -c` against `iperf3 -s`."""

    name = "iperf3"

    def far_end(self, port):
        return ["iperf3", "-s", "-B", "127.0.0.1", "-p", port]

    def stream(self, port, direction, seconds, core):
        command = ["iperf3", "-c", "127.0.0.1", "-p", port, "-t", seconds, "-l", BLOCK, "-C", CONGESTION, "-J"]
        command += ["-R"] if direction == "down" else []
        outcome = run(command, core, seconds)
        told = json.loads(outcome.output)
        if outcome.status != 0 or "error" in told:
            raise Unfit(f"iperf3 ended with status {outcome.status}: {told.get('error')}")
        end = told["end"]
        sent_again = end["sum_sent"].get("retransmits", 0)
        return Streamed(end["sum_received"]["bits_per_second"] / 1e9, outcome.cpu_s, sent_again)


def compare(binary, direction, pairs, seconds, far_core, core):
    """Pairs of runs in alternation; both far ends stand all the time, and only one is asked."""
    ports = {}
    linerate, iperf3 = Linerate(binary), Iperf3()
    with serving_of(linerate, ports, far_core), serving_of(iperf3, ports, far_core):
        load = lambda one: one.stream(ports[one.name], direction, seconds, core)
        return alternate(linerate, iperf3, pairs, load)


def serving_of(generator, ports, core):
    ports[generator.name] = port = free_port()
    return _listening(generator.far_end(port), port, core)


class _listening:
    """A far end that accepts, for as long as the block."""

    def __init__(self, command, port, core):
        self.command, self.port, self.core = command, port, core

    def __enter__(self):
        self.serving = serving(self.command, self.core, stdout=subprocess.DEVNULL)
        server = self.serving.__enter__()
        wait_for("127.0.0.1", self.port, server)

    def __exit__(self, *why):
        return self.serving.__exit__(*why)
