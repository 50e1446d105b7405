"""The link between two nodes against the wire and against the distribution, and streams of terms. Two nodes of
`bench/link/linerate_link_bench.erl` stay for all of it; what is compared alternates (A B B A).

Wire and link have the same congestion control, which is said. A part goes between its markers of bench/RESULTS.md.
"""

import datetime
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
from statistics import median

import paired
from process import Unfit

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCE = ROOT / "bench/link/linerate_link_bench.erl"
LINK = ROOT / "agent/_build/default/lib/linerate_link/ebin"

# Of the project, by bytes a message.
WIRE = {60_000: 0.8, 120_000: 0.8, 1_000_000: 0.95, 10_000_000: 0.95, 100_000_000: 0.95}
SMALL = {"pair": 6, 100: 6, 1_000: 4}
SMALL_RATE = 2_000_000
BESIDE = 3
TERMS = 20

# Steps of stream-terms, the best last: its knobs.
TERM_STEPS = {
    "1,000 terms as one list": ["batch=1000", "together=list", "active=100", "burst=100000"],
    "1,000 terms as machine words": ["batch=1000", "together=words", "active=100", "burst=100000"],
}

SENDERS, STALLED = 4, 1_000
# The kernel's default where nobody changed it; what both are set to.
CONGESTION = "cubic"
WRITE = 128 * 1024
PORT = 5987


class Nodes:
    """Both nodes: asked by a term, answered by a dictionary."""

    def __enter__(self):
        if not (LINK / "linerate_link.beam").exists():
            raise Unfit("linerate_link is not built: make bench builds it")
        self.folder = tempfile.TemporaryDirectory(prefix="linerate-bench.")
        subprocess.run(["erlc", "-o", self.folder.name, SOURCE], check=True)
        paths = [self.folder.name, str(LINK)]
        words = ["erl", "-noshell", "-start_epmd", "false", "-epmd_module", "linerate_link_bench"]
        # As the studies': threads that spin take the CPUs from the other node.
        words += ["+sbwt", "none", "-kernel", "inet_dist_use_interface", "{127,0,0,1}"]
        words += ["-pa", *paths, "-run", "linerate_link_bench", "main", *paths]
        self.process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=self.folder.name,
            env={**os.environ, "ERL_CRASH_DUMP_BYTES": "0"},
        )
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.folder.cleanup()

    def ask(self, what, over, *more, options=""):
        words = ", ".join(str(one) for one in (what, over, *more))
        self.process.stdin.write(f"{{{words}, #{{{options}}}}}.\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise Unfit(f"the nodes ended when asked for {words}")
        try:
            return json.loads(line)
        except json.JSONDecodeError:
            raise Unfit(f"the nodes were asked for {words} and said: {line.strip()}")


class Link:
    def __init__(self, linerate, pairs, seconds, quick=False):
        self.linerate, self.pairs, self.seconds, self.quick = linerate, pairs, seconds, quick
        self.ms = int(seconds * 1_000)

    def alternate(self, first, second):
        made = []
        for turn in range(self.pairs):
            if turn % 2 == 0:
                one = first()
                made.append((one, second()))
            else:
                other = second()
                made.append((first(), other))
        return made

    def bulk(self):
        """Messages of one process over one bulk lane against one stream of iperf3."""
        rows = ["| bytes a message | link, Gbit/s | iperf3, Gbit/s | ratio | interval | at least | |",
                "|---:|---:|---:|---:|:---:|---:|---|"]
        with Nodes() as nodes:
            for size, least in WIRE.items():
                made = self.alternate(
                    lambda: nodes.ask("one_way", "link", size, 1, self.ms, options=f'congestion => "{CONGESTION}"')[
                        "gbit_per_s"],
                    lambda: iperf3(self.seconds),
                )
                ratio = paired.ratio(made)
                say(f"  {size:,} bytes: {ratio} of the wire")
                rows.append(f"| {size:,} | {spread(one for one, _ in made)} | {spread(one for _, one in made)} "
                            f"| **{ratio.middle:.2f}** | {ratio.low:.2f} to {ratio.high:.2f} | {least} "
                            f"| {ratio.against(least)} |")
        return (f"One process sends to another on the second node, over one bulk lane; counted is what the other took "
                f"out of its mailbox, in {self.seconds:g} s. iperf3 has one stream and writes of 128 KiB; both have "
                f"{CONGESTION}. Median (lowest to highest).\n\n" + "\n".join(rows))

    def small(self):
        """Small terms and latencies against the distribution."""
        rows = ["| term | link, messages/s | distribution, messages/s | ratio | interval | at least | | CPU a message |",
                "|---|---:|---:|---:|:---:|---:|---|---:|"]
        with Nodes() as nodes:
            slowest = None
            for size, least in SMALL.items():
                made = self.alternate(*(
                    (lambda over: lambda: nodes.ask("one_way", over, size, SENDERS, self.ms))(over)
                    for over in ("link", "stock")
                ))
                rates = [(one["messages_per_s"], other["messages_per_s"]) for one, other in made]
                ratio = paired.ratio(rates)
                what = "{N, N}, 19 B" if size == "pair" else f"binary, {size:,} B"
                say(f"  {what}: {ratio} of the distribution")
                cpu = [median(pair[at]["cpu_us"] for pair in made) for at in (0, 1)]
                rows.append(f"| {what} | {spread((one for one, _ in rates), 0)} | {spread((one for _, one in rates), 0)} "
                            f"| **{ratio.middle:.1f}** | {ratio.low:.1f} to {ratio.high:.1f} | {least} "
                            f"| {ratio.against(least)} | {cpu[0]:.2f} and {cpu[1]:.2f} us |")
                if size != 1_000:
                    middle = median(one for one, _ in rates)
                    slowest = min(middle, slowest or middle)
            rows += ["", target(f"at least {SMALL_RATE:,} messages/s of 20 to 100 bytes", slowest >= SMALL_RATE,
                                f"{slowest:,.0f}"), ""]
            rows += self.latency(nodes)
        return (f"{SENDERS} processes each send to one of their own on the second node, in one direction, for {self.seconds:g} s; "
                "CPU time is of both nodes, which have `+sbwt none`. Median (lowest to highest).\n\n" + "\n".join(rows))

    def latency(self, nodes):
        rows = self.ping(nodes)
        rows += ["| 100 bytes beside | | idle p50, us | idle, asleep, us | p50, us | p99, us | p50 by idle | by idle, asleep | bulk, Gbit/s |",
                 "|---|---|---:|---:|---:|---:|---:|---:|---:|"]
        said = []
        for bulk in (1_000_000, 100_000_000):
            made = self.alternate(lambda: self.beside(nodes, bulk), lambda: nodes.ask("beside", "stock", 100, bulk, self.ms))
            for at, over in enumerate(("link", "distribution")):
                told = [pair[at] for pair in made]
                times = median(one["p50_us"] / one["idle_p50_us"] for one in told)
                asleep = [one["asleep_p50_us"] for one in told] if over == "link" else []
                by_asleep = median(one["p50_us"] / one["asleep_p50_us"] for one in told) if asleep else None
                rows.append(f"| {bulk:,}-byte messages | {over} | {spread(one['idle_p50_us'] for one in told)} "
                            f"| {spread(asleep) if asleep else ''} | {spread(one['p50_us'] for one in told)} "
                            f"| {spread((one['p99_us'] for one in told), 0)} | {times:.1f} "
                            f"| {f'{by_asleep:.1f}' if asleep else ''} | {spread(one['gbit_per_s'] for one in told)} |")
                if over == "link":
                    says = f"within {BESIDE} times of idle beside {bulk:,}-byte messages"
                    said.append(target(f"{says}, of a reader that sleeps idle as it does beside them", by_asleep <= BESIDE,
                                       f"{by_asleep:.1f}"))
                    said.append(target(f"{says}, of one that is awake idle", times <= BESIDE, f"{times:.1f}"))
                    say(f"  {said[-2]} {said[-1]}")
        rows += ["", " ".join(said), ""]
        held = nodes.ask("stalled", "link", 100, STALLED, 2_000)
        bound = (2 * 1_048_576 + STALLED * 65_536) / 1_048_576
        kept = held["near_mib"] + held["far_mib"]
        rows.append(f"{STALLED:,} processes send 100 bytes each to one that reads nothing: both nodes hold {kept:.0f} MiB "
                    f"more after 2 s ({held['mailbox']:,} messages are in the mailbox), and {held['later_mib']:+.1f} MiB of "
                    f"that in the 2 s after. What a sender may have in the link is 64 KiB, with 128 bytes a message for what "
                    f"it takes beside its bytes, and a destination's window 1 MiB a lane: {bound:.0f} MiB. "
                    + target(f"within {bound:.0f} MiB, and no growth", kept <= bound and held["later_mib"] < 1, f"{kept:.0f}"))
        return rows

    def beside(self, nodes, bulk):
        """A tiny message beside large ones over the link; and the same without them, and with a reader that sleeps then too."""
        told = nodes.ask("beside", "link", 100, bulk, self.ms, options=f'congestion => "{CONGESTION}"')
        asleep = nodes.ask("ping_pong", "link", 100, self.ms, options=f'congestion => "{CONGESTION}", spin => 0')
        return told | {"asleep_p50_us": asleep["p50_us"]}

    def ping(self, nodes):
        """A lone message there and back: with the link as it comes, with a reader that always sleeps, over the distribution."""
        def usual():
            return nodes.ask("ping_pong", "link", 100, self.ms)

        def asleep():
            return nodes.ask("ping_pong", "link", 100, self.ms, options="spin => 0")

        def stock():
            return nodes.ask("ping_pong", "stock", 100, self.ms)

        rows = ["Half a round trip of 100 bytes, one process and nothing else, alternating with the distribution; CPU is of both "
                "nodes.", "",
                "| | link: p50, us | p99, us | CPU a message, us | distribution: p50, us | p99, us | CPU a message, us "
                "| distribution by link | interval |",
                "|---|---:|---:|---:|---:|---:|---:|---:|:---:|"]
        said = []
        for name, link in (("link", usual), ("link, `spin => 0`", asleep)):
            made = self.alternate(link, stock)
            ratio = paired.ratio([(other["p50_us"], one["p50_us"]) for one, other in made])
            cells = [spread(pair[at][key] for pair in made) for at in (0, 1) for key in ("p50_us", "p99_us", "cpu_us")]
            rows.append(f"| {name} | {' | '.join(cells)} | **{ratio.middle:.2f}** | {ratio.low:.2f} to {ratio.high:.2f} |")
            if link is usual:
                said.append(f"**Target: at least 1. {ratio.against(1).capitalize()}.**")
            say(f"  {name}: distribution by link {ratio}")
        return [*rows, "", " ".join(said), ""]

    def terms(self):
        """The best steps of stream-terms against its first, in terms a CPU-second."""
        rows = ["| a call of `gen_tcp:send/2` | us of CPU a term | a term a call, beside it | at equal CPU | interval |",
                "|---|---:|---:|---:|:---:|"]
        for says, best in TERM_STEPS.items():
            made = self.alternate(lambda: self.stream_terms(best), lambda: self.stream_terms(["burst=10000"]))
            ratio = paired.ratio([(1 / one, 1 / other) for one, other in made])
            say(f"  {says}: {ratio} times the terms of a CPU second")
            rows.append(f"| {says}: `{' '.join('-k ' + one for one in best)}` | {spread((one for one, _ in made), 3)} "
                        f"| {spread((one for _, one in made), 3)} | **{ratio.middle:.1f}** | {ratio.low:.1f} to {ratio.high:.1f} |")
        return (f"`stream-terms`, the 19-byte pair, 4 connections, {max(1, round(self.seconds))} s a run: CPU time of both nodes "
                "a term, every term in the receiver as an Erlang term.\n\n" + "\n".join(rows)
                + f"\n\n**Target: at least {TERMS} times at equal CPU, by the last. {ratio.against(TERMS).capitalize()}.**")

    def stream_terms(self, knobs):
        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            words = [str(self.linerate), "run", "--beam", "stream-terms", "-c", "4", "--no-check", "-q"]
            words += ["-d", f"{max(1, round(self.seconds))}s", "-o", file.name]
            for knob in ["target.vm_flags=+sbwt none", *knobs]:
                words += ["-k", knob]
            ended = subprocess.run(words, capture_output=True, text=True)
            if ended.returncode:
                raise Unfit(f"`{' '.join(words)}`: {ended.stderr.strip()}")
            told = json.load(open(file.name))
        return told["load"]["carried"]["cpu_us_per_message"]

    PARTS = {"link": "small", "link-bulk": "bulk", "terms": "terms"}

    def measure(self, part):
        head = f"{datetime.date.today().isoformat()}, {self.pairs} pairs of {self.seconds:g} s, {machine()}."
        return f"{head}\n\n{getattr(self, self.PARTS[part])()}"


def iperf3(seconds):
    """One stream over loopback. Gbit/s that arrived."""
    if not shutil.which("iperf3"):
        raise Unfit("iperf3 is not installed: make setup")
    words = ["iperf3", "-s", "-1", "-p", str(PORT), "-B", "127.0.0.2"]
    server = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        listening(PORT)
        words = ["iperf3", "-c", "127.0.0.2", "-p", str(PORT), "-t", f"{max(1, round(seconds))}", "-O", "0", "-J"]
        words += ["-l", str(WRITE), "-C", CONGESTION]
        told = json.loads(subprocess.run(words, capture_output=True, text=True).stdout)
        if "error" in told:
            raise Unfit(f"iperf3: {told['error']}")
        return told["end"]["sum_received"]["bits_per_second"] / 1e9
    finally:
        server.terminate()
        server.wait()


def listening(port):
    """Until the kernel has it; a connection would be iperf3's one test."""
    wanted = f"0200007F:{port:04X} 00000000:0000 0A"
    for _ in range(100):
        if wanted in pathlib.Path("/proc/net/tcp").read_text():
            return
        time.sleep(0.02)
    raise Unfit("iperf3 does not listen")


def put(page, part, text):
    """Between its markers in the page."""
    begin, end = f"<!-- {part} -->", f"<!-- /{part} -->"
    if begin not in page:
        raise Unfit(f"no {begin} in the page")
    return re.sub(f"{re.escape(begin)}.*?{re.escape(end)}", lambda _: f"{begin}\n{text}\n{end}", page, flags=re.DOTALL)


def machine():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            cpu = line.split(":", 1)[1].strip()
            return f"{os.cpu_count()} cores of {cpu}, Linux {os.uname().release.split('-')[0]}"
    return f"{os.cpu_count()} cores, Linux {os.uname().release.split('-')[0]}"


def spread(values, digits=1):
    values = list(values)
    return f"{median(values):,.{digits}f} ({min(values):,.{digits}f} to {max(values):,.{digits}f})"


def target(what, met, figure):
    return f"**Target: {what}. {'Met' if met else 'Not met'}: {figure}.**"


def say(text):
    print(text, file=sys.stderr, flush=True)
