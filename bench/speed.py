"""Our line against a bare copy loop between the same devices, and netem where the kernel has it."""

import functools
import json
import subprocess
import sys
import tempfile
from statistics import median

import paired
from behind import Copy, Path
from process import Unfit

# Of the project.
BULK_GBIT = 10
PACKETS = 250_000
LATE_US = 200
ECHO = 0.95

# Chosen: an even pace that no thread is busy with, and one at which it is a fifth so.
PACES = (1_000, 20_000)
SIZES = (64, 1_026)
MTU, MSS = 1500, 1448


class Speed:
    def __init__(self, linerate, copy, tools, pairs, seconds, quick=False):
        self.linerate, self.copy, self.tools = linerate, copy, tools
        self.pairs, self.seconds = pairs, seconds
        self.flood = 100_000 if quick else 400_000

    def line(self, rtt_ms=0, offload=True, backend="line"):
        flags = ["--rtt", f"{rtt_ms}ms", "--backend", backend]
        return Path(self.linerate, *flags, *([] if offload else ["--no-offload"]))

    def bare(self, offload=True):
        return Copy(self.copy, offload)

    @functools.cached_property
    def netem(self):
        """Whether the kernel has it."""
        try:
            with self.line(1, backend="netem"):
                return True
        except Unfit as unfit:
            why = str(unfit).split("error: ")[-1]
            say(f"  no netem: {why}")
            return False

    def alternate(self, measures, turns=None):
        """Each of the named measures alternately, forth and back: A B B A for two. Figures by name."""
        figures = {name: [] for name in measures}
        for turn in range(turns or self.pairs):
            for name in list(measures) if turn % 2 == 0 else reversed(list(measures)):
                figures[name].append(measures[name]())
        return figures

    def bulk(self):
        """Gbit/s of one TCP flow, and CPU time a gigabyte of whoever carries it."""

        def measure(place):
            def once():
                with place() as path:
                    goodput = self.tools.bulk(path, self.seconds + 1)
                return goodput / 1e9, path.cpu_ns()

            return once

        places = {
            "bare copy, offload": lambda: self.bare(),
            "line, offload": lambda: self.line(),
            "line, offload, 10 ms": lambda: self.line(10),
            "bare copy": lambda: self.bare(offload=False),
            "line": lambda: self.line(offload=False),
            "line, 10 ms": lambda: self.line(10, offload=False),
        }
        if self.netem:
            places["netem"] = lambda: self.line(0, backend="netem")
            places["netem, 10 ms"] = lambda: self.line(10, backend="netem")
        # Chosen: six places; seven turns would take three minutes.
        turns = min(5, self.pairs)
        figures = self.alternate({name: measure(place) for name, place in places.items()}, turns)
        rates = {name: [rate for rate, _ in values] for name, values in figures.items()}
        text = [f"**One bulk TCP flow**, goodput, Gbit/s: median of {turns} runs of {self.seconds + 1} s (lowest "
                "to highest).", ""]
        text += ["| | Gbit/s | by the bare copy |", "|---|---:|---:|"]
        for name, values in rates.items():
            bare = "bare copy, offload" if "offload" in name or "netem" in name else "bare copy"
            ratio = paired.ratio(list(zip(values, rates[bare]))) if name != bare else ""
            text.append(f"| {name} | {spread(values)} | {ratio} |")
        best = median(rates["line, offload, 10 ms"])
        text += ["", target(f"at least {BULK_GBIT} Gbit/s at 10 ms with offload", best >= BULK_GBIT,
                            f"{best:.1f}"), ""]
        return "\n".join(text)

    def packets(self):
        """Packets a second that come through when more are sent, and CPU time of each."""

        def measure(place, size):
            def once():
                with place() as path:
                    _, came = self.tools.send(path, self.flood, size, idle_ms=300)
                span = (came["last_ns"] - came["first_ns"]) / 1e9
                cpu = path.cpu_ns()
                return came["received"] / span, (cpu or 0) / 1e3 / max(1, came["received"])

            return once

        text = ["**Packets a second**, in one direction, datagrams sent as fast as a process can and received "
                f"by another: median of {self.pairs} runs of {self.flood:,} (lowest to highest); CPU time of "
                "the carrying thread (bare: process) a packet. The bare copy has no offload.", ""]
        text += ["| IP bytes | | packets/s | by the bare copy | us CPU a packet |",
                 "|---:|---|---:|---:|---:|"]
        worst = None
        for size in SIZES:
            places = {
                "bare copy": lambda: self.bare(offload=False),
                "line, offload": lambda: self.line(),
                "line, offload, 10 ms": lambda: self.line(10),
            }
            if self.netem:
                places["netem"] = lambda: self.line(0, backend="netem")
            measures = {name: measure(place, size) for name, place in places.items()}
            figures = self.alternate(measures)
            rates = {name: [rate for rate, _ in values] for name, values in figures.items()}
            for name, values in figures.items():
                cpu = median(cpu for _, cpu in values)
                ratio = paired.ratio(list(zip(rates[name], rates["bare copy"])))
                ratio = ratio if name != "bare copy" else ""
                cost = f"{cpu:.2f}" if cpu else ""
                text.append(f"| {size:,} | {name} | {spread(rates[name], 0)} | {ratio} | {cost} |")
            least = median(rates["line, offload"])
            worst = least if worst is None else min(worst, least)
        text += ["", target(f"at least {PACKETS:,} packets/s", worst >= PACKETS, f"{worst:,.0f}"), ""]
        return "\n".join(text)

    def lateness(self):
        """What a packet's way takes beyond the delay asked for."""

        def measure(place, pace, delay_us):
            def once():
                with place() as path:
                    count = int(pace * self.seconds)
                    _, came = self.tools.send(path, count, SIZES[0], pace, stamps=True)
                delays = came["delay_ns"]
                return [delays[at] / 1e3 - delay_us for at in ("p50", "p99")]

            return once

        text = ["**Delay beyond what was asked**, in one direction, microseconds, 64-byte packets at an even "
                f"pace, as the kernel stamps them when they come off the device: median over {self.pairs} runs "
                f"of {self.seconds} s (lowest to highest). The bare copy has no delay to miss: its row is what two wake-ups "
                "and the stamps themselves take here.", ""]
        text += ["| packets/s | | p50 | p99 |", "|---:|---|---:|---:|"]
        tails = {}
        for pace in PACES:
            places = {
                "bare copy": (self.bare, 0),
                "line, rtt 0": (self.line, 0),
                "line, rtt 10 ms": (lambda: self.line(10), 5_000),
            }
            if self.netem:
                places["netem, rtt 10 ms"] = (lambda: self.line(10, backend="netem"), 5_000)
            figures = self.alternate(
                {name: measure(place, pace, delay) for name, (place, delay) in places.items()}
            )
            for name, values in figures.items():
                half, tail = zip(*values)
                text.append(f"| {pace:,} | {name} | {spread(half, 0)} | {spread(tail, 0)} |")
            tails[pace] = median(tail for _, tail in figures["line, rtt 10 ms"])
        text.append("")
        for pace, tail in tails.items():
            what = f"p99 under {LATE_US} us at {pace:,} packets/s"
            text += [target(what, tail < LATE_US, f"{tail:.0f} us"), ""]
        return "\n".join(text)

    def echo(self):
        """The study's expectation: with connections enough, distance costs no throughput."""

        def measure(rtt):
            def once():
                with tempfile.NamedTemporaryFile(suffix=".json") as file:
                    words = [str(self.linerate), "run", "--beam", "echo", "--request", "1024"]
                    words += ["-c", "1000", "-d", f"{self.seconds + 2}s", "-q", "--rtt", rtt]
                    words += ["-o", file.name]
                    ended = subprocess.run(words, capture_output=True, text=True)
                    if ended.returncode:
                        raise Unfit(f"`{' '.join(words)}`: {ended.stderr.strip()}")
                    told = json.load(open(file.name))
                return told["load"]["throughput_per_s"]

            return once

        figures = self.alternate({"10 ms": measure("10ms"), "0.25 ms": measure("250us")})
        ratio = paired.ratio(list(zip(figures["10 ms"], figures["0.25 ms"])))
        text = ["**Echo throughput** (`linerate run --beam echo --request 1024 -c 1000`, two bytes of "
                f"length in front): exchanges/s, median of {self.pairs} runs of {self.seconds + 2} s (lowest to "
                "highest).", ""]
        text += ["| rtt | exchanges/s |", "|---:|---:|"]
        text += [f"| {rtt} | {spread(values, 0)} |" for rtt, values in figures.items()]
        text += ["", f"10 ms by 0.25 ms: **{ratio}**. "
                 f"**Target: at least {ECHO}. {ratio.against(ECHO).capitalize()}.**", ""]
        return "\n".join(text)


PARTS = ("bulk", "packets", "lateness", "echo")


def spread(values, digits=1):
    return f"{median(values):,.{digits}f} ({min(values):,.{digits}f} to {max(values):,.{digits}f})"


def target(what, met, figure):
    return f"**Target: {what}. {'Met' if met else 'Not met'}: {figure}.**"


def say(text):
    print(text, file=sys.stderr, flush=True)
