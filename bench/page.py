"""bench/RESULTS.md: the figures as a page."""

import dataclasses
import os
import pathlib
import re
from statistics import mean, median

import paired

# Of the project: linerate is to cost less than wrk although it knows more, and little beyond the
# minimum.
WRK_TARGET = 1.15
FLOOR_TARGET = 0.9
# What requests that differ, and answers that are judged, may cost.
BUILT_TARGET = 0.95
JUDGED_TARGET = 0.9
# Of a stream's throughput, iperf3's being 1.
STREAM_TARGET = 0.95
# New connections a second, and bytes that one takes of the engine's own memory.
OPENED_TARGET = 20_000
BYTES_TARGET = 2_048


@dataclasses.dataclass
class Results:
    """Everything on the page."""

    date: str
    commit: str
    machine: dict
    versions: dict
    busy: float
    pairs: int
    seconds: int
    wrk: list = dataclasses.field(default_factory=list)
    floor: list = dataclasses.field(default_factory=list)
    requests: list = dataclasses.field(default_factory=list)
    memory: list = dataclasses.field(default_factory=list)
    opened: list = dataclasses.field(default_factory=list)
    latency: list = dataclasses.field(default_factory=list)
    streams: list = dataclasses.field(default_factory=list)
    link: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Compared:
    """Two generators at one number of connections; the runs in pairs."""

    connections: int
    first: str
    second: str
    pairs: list

    @property
    def ratio(self):
        return paired.ratio([(a.per_cpu_s, b.per_cpu_s) for a, b in self.pairs])

    def us(self, which):
        """CPU time a request, median. Unit: microseconds."""
        return median(1e6 / pair[which].per_cpu_s for pair in self.pairs)

    def rate(self, which, seconds):
        """Requests a second, median."""
        return median(pair[which].requests / seconds for pair in self.pairs)

    @property
    def requests_ratio(self):
        """Of requests answered, whatever they cost."""
        return paired.ratio([(a.requests, b.requests) for a, b in self.pairs])

    @property
    def threads_ratio(self):
        """Of linerate's load threads alone, both being linerate."""
        return paired.ratio([(b.engine_cpu_us, a.engine_cpu_us) for a, b in self.pairs])

    @property
    def threads_us(self):
        """The same of linerate's load threads alone, in its measured window."""
        return median(pair[0].engine_cpu_us for pair in self.pairs)


@dataclasses.dataclass
class Streams:
    """One stream in one direction; the runs in pairs, linerate's first."""

    direction: str
    pairs: list

    @property
    def ratio(self):
        return paired.ratio([(a.gbit, b.gbit) for a, b in self.pairs])

    def middle(self, which, figure):
        return median(getattr(pair[which], figure) for pair in self.pairs)


@dataclasses.dataclass
class Memory:
    """Peaks of one generator: `(connections, bytes)`."""

    name: str
    peaks: list

    @property
    def slope(self):
        """Bytes a connection, by least squares."""
        xs, ys = zip(*self.peaks)
        x0, y0 = mean(xs), mean(ys)
        over = sum((x - x0) ** 2 for x in xs)
        return sum((x - x0) * (y - y0) for x, y in self.peaks) / over if over else float("nan")

    def __str__(self):
        peaks = ", ".join(f"{count:,}: {size / 2**20:.1f} MiB" for count, size in self.peaks)
        return f"{self.name} {self.slope:,.0f} B a connection ({peaks})"


@dataclasses.dataclass
class Opened:
    """Connections of one process: `(seconds that opening took, peak bytes, the accept loop's own account)` a run."""

    count: int
    sources: int
    runs: list

    @property
    def rates(self):
        """Connections a second, by linerate."""
        return [self.count / seconds for seconds, _, _ in self.runs]

    @property
    def accepted(self):
        """The same, by the accept loop."""
        return [told["accepted"] / told["seconds"] for _, _, told in self.runs]

    @property
    def peak(self):
        """Bytes, median."""
        return median(peak for _, peak, _ in self.runs)

    def __str__(self):
        return f"{self.count:,} connections: {median(self.rates):,.0f}/s, {self.peak / 2**20:.1f} MiB"


@dataclasses.dataclass
class Timing:
    """Open-loop runs against the delay server: `(linerate's load, the server's own account)`."""

    arrivals: str
    rate: int
    delay_us: int
    runs: list

    def error_us(self, figure, percentile):
        """What linerate says beyond the delay: median over the runs, lowest, highest."""
        beyond = [at(load[figure], percentile) - self.delay_us for load, _ in self.runs]
        return f"{median(beyond):+.0f} ({min(beyond):+.0f} to {max(beyond):+.0f})"

    def late_us(self, name):
        """How late the server itself says its answers were, median over the runs."""
        return median(told["late_ns"][name] / 1e3 for _, told in self.runs)


def at(distribution, percentile):
    """One percentile of a distribution of linerate's JSON."""
    return dict(map(tuple, distribution["percentiles"]))[float(percentile)]


def write(results):
    """The page."""
    return "\n".join([head(results), *sections(results), REPEAT])


def measured(results, how):
    """When and how a part was that was measured by itself."""
    return (
        f"This part: {results.date}, commit {results.commit}, {results.machine['CPU']}, {results.pairs} pairs of "
        f"{results.seconds} s (`{how}`), while other things used {max(0, results.busy):.0%} of the machine just before."
    )


# Parts that are written by hand, or by programs that are run by themselves: `bench/many`, `bench/tsung`.
CARRIED = ("profiles", "users")
BEGINNINGS = [f"<!-- {name} -->" for name in CARRIED]


def replaced(page, parts, about):
    """The page with these parts in the place of those of the same title, or before its end.

    >>> replaced("# A\\n\\n## B\\nold\\n\\n## How to repeat\\n", ["## B\\nnew\\n", "## C\\n1\\n"], "x")
    '# A\\n\\n## B\\nnew\\n\\nx\\n\\n## C\\n1\\n\\nx\\n\\n## How to repeat\\n'
    """
    for part in parts:
        title, new = part.split("\n", 1)[0], f"{part.rstrip()}\n\n{about}\n\n"
        at = page.find(title + "\n")
        if at < 0:
            at = end = min(found for found in map(page.find, (*BEGINNINGS, "## How to repeat")) if found >= 0)
        else:
            ends = (page.find(mark, at + 1) for mark in ("\n## ", *(f"\n{one}" for one in BEGINNINGS)))
            end = min(found + 1 for found in ends if found >= 0)
        page = page[:at] + new + page[end:]
    return page


def sections(results):
    """Its parts, as far as they were measured."""
    parts = []
    if results.wrk:
        parts.append(
            section(
                "Against wrk",
                "Requests by CPU-second of the whole generator process (user and system, start and "
                "end included), the same nginx, alternating. linerate without the experiment after the load "
                "(`--no-check`), which is load that wrk does not make.",
                results.wrk,
                WRK_TARGET,
                results.seconds,
            )
        )
    if results.floor:
        parts.append(
            section(
                "Against the floor",
                "The floor is a bare epoll loop of `send` and `recv` on one thread: it parses "
                "nothing, stamps nothing and records nothing (`crates/engine/examples/floor.rs`).",
                results.floor,
                FLOOR_TARGET,
                results.seconds,
            )
        )
    if results.requests:
        parts.append(requests(results.requests))
    if results.memory:
        parts.append(memory(results.memory))
    if results.opened:
        parts.append(opened(results.opened))
    if results.latency:
        parts.append(latency(results.latency))
    if results.streams:
        parts.append(streams(results.streams))
    if results.link:
        parts.append(between(results.link))
    return parts


def head(results):
    machine = "; ".join(f"{name} {value}" for name, value in results.machine.items())
    programs = ", ".join(results.versions.values())
    return f"""\
# What the engine costs

Written by `make bench`; do not edit.

- {results.date}, commit {results.commit}
- {machine}
- {programs}; nginx has one core, the generator another
- {results.pairs} pairs a comparison, {results.seconds} s a run; other things used \
{max(0, results.busy):.1%} of the machine just before
"""


def section(title, how, compared, target, seconds):
    first, second = compared[0].first, compared[0].second
    verdicts = {one.connections: one.ratio.against(target) for one in compared}
    if len(set(verdicts.values())) == 1:
        verdict = f"{next(iter(verdicts.values()))} at every number of connections"
    else:
        verdict = "; ".join(f"{said} at {count}" for count, said in verdicts.items())
    throughput = [one.requests_ratio for one in compared]
    least = "; ".join(f"{one.against(1)} at {of.connections}" for one, of in zip(throughput, compared))
    least = f" **No less throughput: {least}.**" if second == "wrk" else ""
    middles = [one.ratio.middle for one in compared]
    threads = ", ".join(f"{one.threads_us:.2f} us at {one.connections}" for one in compared)
    return f"""\
## {title}

{how}

{table(compared, seconds)}
**Target: at least {target} times {second}. {verdict[0].upper()}{verdict[1:]}.**{least}

{first} makes {min(middles):.2f} to {max(middles):.2f} times the requests that {second} makes with \
the same CPU time.
Of linerate's own cost, its load threads take {threads}, warm-up left out; the rest is starting, \
asking the kernel for evidence and diagnosing.
"""


def table(compared, seconds=None):
    """Costs and ratios."""
    first, second = compared[0].first, compared[0].second
    sure = compared[0].ratio.sure
    rows = [
        f"| connections | {first}, us CPU a request | {second}, us CPU a request "
        f"| ratio | {sure:.1%} interval |" + (" requests/s | ratio |" if seconds else ""),
        "|---:|---:|---:|---:|:---:|" + (":---:|:---:|" if seconds else ""),
    ]
    for one in compared:
        ratio = one.ratio
        row = f"| {one.connections} | {one.us(0):.2f} | {one.us(1):.2f} "
        row += f"| **{ratio.middle:.3f}** | {ratio.low:.3f} to {ratio.high:.3f} |"
        if seconds:
            row += f" {one.rate(0, seconds):,.0f} and {one.rate(1, seconds):,.0f} | {one.requests_ratio} |"
        rows.append(row)
    return "\n".join(rows) + "\n"


def requests(compared):
    sure = compared[0].threads_ratio.sure
    rows = [
        f"| | us CPU a request | the same request each time | ratio | {sure:.1%} interval | at least | |",
        "|---|---:|---:|---:|:---:|---:|---|",
    ]
    for one in compared:
        ratio = one.threads_ratio
        target = JUDGED_TARGET if "expected" in one.first else BUILT_TARGET
        plain = median(pair[1].engine_cpu_us for pair in one.pairs)
        row = f"| {one.first} | {one.threads_us:.2f} | {plain:.2f} | **{ratio.middle:.3f}** "
        row += f"| {ratio.low:.3f} to {ratio.high:.3f} | {target} | {ratio.against(target)} |"
        rows.append(row)
    return f"""\
## Requests that differ

Requests by CPU-second of linerate's load threads against one that is sent as it stands, of the same size, \
{compared[0].connections} connections, the same nginx, alternating. Templates: a header of a counter and 16 random \
digits; bodies: a thousand POSTs of a file in turn; expected: status 200 and a text of the body in every answer.

{chr(10).join(rows)}
"""


def memory(generators):
    counts = [count for count, _ in generators[0].peaks]
    rows = [
        "| | " + " | ".join(f"{count:,} connections" for count in counts) + " | a connection |",
        "|---|" + "---:|" * (len(counts) + 1),
    ]
    for one in generators:
        peaks = " | ".join(f"{size / 2**20:.1f} MiB" for _, size in one.peaks)
        rows.append(f"| {one.name} | {peaks} | **{one.slope:,.0f} B** |")
    first, second = generators
    return f"""\
## Memory

Peak resident memory of the generator; the kernel's socket buffers are not in it.

{chr(10).join(rows)}

Another connection costs {first.name} {first.slope / 1024:.1f} KiB, {second.name} \
{second.slope / 1024:.1f} KiB.
"""


def opened(all):
    rows = [
        "| connections | source addresses | opened a second | by the accept loop | its CPU, us a connection | peak memory |",
        "|---:|---:|---:|---:|---:|---:|",
    ]
    for one in all:
        cpu = median(1e6 * told["cpu_s"] / told["accepted"] for _, _, told in one.runs)
        row = f"| {one.count:,} | {one.sources} | {spread(one.rates)} | {spread(one.accepted)} "
        rows.append(row + f"| {cpu:.1f} | {one.peak / 2**20:.1f} MiB |")
    most = all[-1]
    slope = Memory("linerate", [(one.count, one.peak) for one in all]).slope
    rate = median(most.rates)
    return f"""\
## Connections of one process

`linerate capacity tcp://... --hold=1s --levels 1 --processes 1 -k engine.sources=...` against a bare accept loop on another core \
(`crates/engine/examples/accept_server.rs`), 32 connects under way at a time; all are held for a second. Median of \
{len(most.runs)} runs (lowest to highest).

{chr(10).join(rows)}

**Target: {most.count:,} connections of a process. Met.** **Target: at least {OPENED_TARGET:,} new connections a second. \
{"Met" if min(most.rates) >= OPENED_TARGET else "Not met" if max(most.rates) < OPENED_TARGET else "Not met in every run"}: {rate:,.0f}, \
{most.count:,} of them from {most.sources} addresses.** Past half of the ports of one address the kernel looks through \
thousands for each connect. **Target: at most {BYTES_TARGET:,} bytes of the engine's own memory a connection. \
{"Met" if slope <= BYTES_TARGET else "Not met"}: {slope:,.0f} by slope.**
"""


def spread(values):
    return f"{median(values):,.0f} ({min(values):,.0f} to {max(values):,.0f})"


def streams(compared):
    sure = compared[0].ratio.sure
    rows = [
        f"| | linerate, Gbit/s | iperf3, Gbit/s | ratio | {sure:.1%} interval | CPU of the client, s a run |",
        "|---|---:|---:|---:|:---:|:---:|",
    ]
    for one in compared:
        ratio = one.ratio
        row = f"| {one.direction} | {one.middle(0, 'gbit'):.1f} | {one.middle(1, 'gbit'):.1f} "
        row += f"| **{ratio.middle:.3f}** | {ratio.low:.3f} to {ratio.high:.3f} "
        rows.append(row + f"| {one.middle(0, 'cpu_s'):.2f} and {one.middle(1, 'cpu_s'):.2f} |")
    verdicts = ", ".join(f"{one.direction} {one.ratio.against(STREAM_TARGET)}" for one in compared)
    return f"""\
## Streams against iperf3

One stream over loopback, writes of 128 KiB, cubic at both ends, the far end on one core and the client on another; \
throughput by the receiver's count over the whole run, the samples that linerate takes included; in alternation. \
`up` is to the far end, `down` from it (`iperf3 -R`).

{chr(10).join(rows)}

**Target: at least {STREAM_TARGET} of iperf3's throughput. {verdicts[0].upper()}{verdicts[1:]}.**
"""


def latency(timings):
    one = timings[0]
    rows = [
        "| arrivals | service p50 | service p99 | latency p50 | latency p99 "
        "| server late p50, p99 |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for timing in timings:
        errors = [
            timing.error_us(figure, percentile)
            for figure in ("service_us", "latency_us")
            for percentile in (50, 99)
        ]
        late = f"{timing.late_us('p50'):.1f}, {timing.late_us('p99'):.1f}"
        rows.append(f"| {timing.arrivals} | {' | '.join(errors)} | {late} |")
    return f"""\
## Keeping time

Open loop, {one.rate:,} requests/s over 64 connections, against a server that answers each request \
{one.delay_us / 1e3:g} ms after it read it (`crates/engine/examples/delay_server.rs`). What \
linerate reports beyond that, in microseconds: median over {len(one.runs)} runs (lowest to highest).

{chr(10).join(rows)}

Service runs from a request's first byte written to its answer read, latency from when the request \
was due. Beyond the delay, service holds the way there and back and both processes' wake-ups; latency \
holds how late the request was written as well. The last column is the server's own lateness.
"""


TITLES = {
    "link": "A link between two nodes",
    "link-bulk": "A link between two nodes: bulk against the wire",
    "terms": "Many small terms through gen_tcp",
}


def between(parts):
    """Parts of `link.py`, between the markers by which one of them is written again."""
    return "\n".join(f"## {TITLES[part]}\n\n<!-- {part} -->\n{told}\n<!-- /{part} -->\n" for part, told in parts.items())


def carried(page, before):
    """The page, with the parts of the one before that no run of this program writes.

    >>> carried("a\\n## How to repeat\\n", "b\\n<!-- users -->\\nc\\n<!-- /users -->\\n## How to repeat\\n")
    'a\\n<!-- users -->\\nc\\n<!-- /users -->\\n## How to repeat\\n'
    >>> carried("a\\n", "b\\n")
    'a\\n'
    """
    found = (re.search(f"<!-- {name} -->.*?<!-- /{name} -->\\n", before, re.DOTALL) for name in CARRIED)
    parts = "".join(part[0] for part in found if part)
    end = page.find("## How to repeat")
    return page[:end] + parts + page[end:] if end >= 0 else page


def machine(server_core, core):
    """CPU, cores, kernel."""
    model = "unknown CPU"
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    topology = pathlib.Path(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list")
    told = {"CPU": model, "cores": os.cpu_count(), "Linux": os.uname().release.split("-")[0]}
    if topology.exists() and server_core in members(topology.read_text()):
        told["note:"] = "the two cores are threads of one"
    return told


def members(ranges):
    """The numbers of a list of ranges as the kernel writes it.

    >>> members("0-1,4")
    {0, 1, 4}
    """
    found = set()
    for part in ranges.strip().split(","):
        low, _, high = part.partition("-")
        found.update(range(int(low), int(high or low) + 1))
    return found


REPEAT = """\
## How to repeat

    make bench                       # all of it, on a quiet machine: about ten minutes
    bench/run --only wrk --pairs 15  # one part, more pairs: it takes the place of what stands here
    bench/run --only link --only link-bulk --only terms  # the link: these stay in this page when run alone
    bench/many, bench/tsung          # users; their figures are written here by hand, and stay
    bench/run --only connections     # how many a process opens, how fast, and what one takes
    bench/run --quick                # does it work? 3 pairs of 1 s; the figures are worth nothing
    bench/run --against OLD/linerate # two builds in alternation

The interval is of the median of the pairs' ratios, by order statistics (`bench/paired.py`). A
target counts as met when the whole interval meets it.
"""
