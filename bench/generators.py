"""The load generators that are compared: how each is called and what it says it did."""

import json
import pathlib
import re
import tempfile
from typing import NamedTuple

from process import Unfit, run, run_for_memory


class Run(NamedTuple):
    """What one run did and cost."""

    requests: int
    cpu_s: float
    peak_bytes: int
    """Zero where memory was not watched."""
    engine_cpu_us: float | None
    """Of its load threads alone, by request; none where it does not say."""
    load: dict
    """What else it said (linerate)."""

    @property
    def per_cpu_s(self):
        return self.requests / self.cpu_s


class Linerate:
    """linerate, on one thread."""

    # The experiment after the load is more load, which no other generator makes.
    def __init__(self, binary, name="linerate", flags=("--no-check",)):
        self.name = name
        self.binary = binary
        self.flags = flags

    def load(self, address, connections, seconds, core, more=(), measure=run):
        with tempfile.TemporaryDirectory(prefix="linerate-bench.") as folder:
            out = pathlib.Path(folder, "run.json")
            command = [self.binary, "run", f"http://{address}/", "-c", connections, "-t", 1]
            command += ["-d", f"{seconds}s", "-q", "-o", out, *self.flags, *more]
            outcome = measure(command, core, seconds)
            # 4: void for its purpose (the engine was the limit, say); it still has its cost.
            if outcome.status not in (0, 4) or not out.exists():
                raise Unfit(f"{self.name} ended with status {outcome.status}:\n{outcome.output}")
            load = json.loads(out.read_text())["load"]
        failed = dict(load["errors"], timed_out=load["timed_out"])
        if any(failed.values()):
            raise Unfit(f"{self.name} at {connections} connections had failures: {failed}")
        us = load["engine_cpu_us_per_exchange"]
        return Run(load["answered"], outcome.cpu_s, outcome.peak_bytes, us, load)


def opened(binary, address, connections, sources, core):
    """linerate's users who connect from so many addresses and say nothing, held for a second: seconds that opening took,
    peak memory."""
    command = [binary, "capacity", f"tcp://{address}", "-c", connections, "--hold=1s", "--levels", 1, "--settle", "500ms"]
    # Less than the time that memory is looked at: no answer comes of such a connection.
    outcome = run_for_memory([*command, "--processes", 1, "-k", f"engine.sources=127.0.0.1-127.0.0.{sources}", "--json"], core, 10)
    # Beside the document stands what it says meanwhile.
    found = re.search(r"^\{.*^\}", outcome.output, re.DOTALL | re.MULTILINE)
    held = json.loads(found[0])["held"] if found else {}
    if outcome.status != 0 or held.get("fewest_in_hold") != connections:
        raise Unfit(f"linerate did not hold {connections} connections:\n{outcome.output[-2000:]}")
    return held["levels"][0]["came_s"], outcome.peak_bytes


class Wrk:
    """wrk, on one thread."""

    name = "wrk"

    def load(self, address, connections, seconds, core, measure=run):
        command = ["wrk", "-t", 1, "-c", connections, "-d", f"{seconds}s", f"http://{address}/"]
        outcome = measure(command, core, seconds)
        requests = re.search(r"^ *(\d+) requests in", outcome.output, re.MULTILINE)
        if outcome.status != 0 or not requests:
            raise Unfit(f"wrk ended with status {outcome.status}:\n{outcome.output}")
        if "Non-2xx" in outcome.output or "Socket errors" in outcome.output:
            raise Unfit(f"wrk at {connections} connections had failures:\n{outcome.output}")
        return Run(int(requests[1]), outcome.cpu_s, outcome.peak_bytes, None, {})


class Floor:
    """A bare epoll loop: `crates/engine/examples/floor.rs`."""

    name = "the floor"

    def __init__(self, binary):
        self.binary = binary

    def load(self, address, connections, seconds, core):
        outcome = run([self.binary, address, connections, seconds], core, seconds)
        if outcome.status != 0:
            raise Unfit(f"the floor ended with status {outcome.status}:\n{outcome.output}")
        return Run(json.loads(outcome.output)["requests"], outcome.cpu_s, 0, None, {})


def alternate(first, second, pairs, load):
    """Pairs of runs in the order A B B A A B ...; `load` makes one."""
    made = []
    for pair in range(pairs):
        if pair % 2 == 0:
            a = load(first)
            b = load(second)
        else:
            b = load(second)
            a = load(first)
        made.append((a, b))
    return made


def peak(generator, address, connections, seconds, core):
    """Peak resident memory of one run."""
    made = generator.load(address, connections, seconds, core, measure=run_for_memory)
    opened = made.load.get("connections_opened", connections)
    if opened < connections:
        raise Unfit(f"{generator.name} opened {opened} of {connections} connections")
    return made.peak_bytes
