"""Asked against delivered, over a grid of paths.

Not the whole product, which would take an hour and say the same many times. A delay and a rate are
crossed in full, as each could spoil the other. A rate's own precision is crossed with the delays at
which a sender can fill it. Loss is crossed with no delay and a long one, with and without a rate: it
is drawn per packet, whatever the packet waits for. A queue stands before the rate and never sees the
delay; it is crossed with rates, and `limit`, which counts what is in delay, with a long delay.
"""

import sys

import binomial
from behind import Path

RTTS_MS = (0.2, 2, 10, 50, 200)
RATES = {"1Mbit": 1e6, "10Mbit": 1e7, "100Mbit": 1e8, "1Gbit": 1e9, "5Gbit": 5e9}
LOSSES = (0, 0.1, 1, 2)
QUEUES = (10, 100, 1_000, 10_000)

# What is to be held.
RTT_MS = 0.2
RATE = 0.02

# Bytes of IP packets: the smallest that are stamped, and Ethernet's largest.
SMALL, LARGE = 64, 1500
# Source: 20 of IP, 32 of TCP with its stamps: what of 1500 bytes is not goodput.
GOODPUT = 1448 / 1500


class Grid:
    def __init__(self, linerate, tools, quick):
        self.linerate, self.tools, self.quick = linerate, tools, quick
        self.rows = {}
        self.seed = 0

    def path(self, *flags):
        # Each path draws anew: the same draw sixteen times would be one.
        self.seed += 1
        return Path(self.linerate, "--seed", self.seed, *flags)

    def add(self, part, asked, delivered, held, note=""):
        self.rows.setdefault(part, []).append((asked, delivered, held, note))
        verdict = "" if held else "  OUTSIDE"
        print(f"  {part}: {asked}: {delivered} {note}{verdict}", file=sys.stderr, flush=True)

    def again(self, part, measure):
        """A neighbour's burst spoils one try, seldom three: the best of up to three is shown, and how
        many tries it took."""
        for tries in (1, 2, 3):
            asked, delivered, held, note = measure()
            if held:
                break
        self.add(part, asked, delivered, held, note + (f"; try {tries}" if tries > 1 else ""))

    def delays(self):
        rates = [None, *RATES]
        for rtt in RTTS_MS[:: 2 if self.quick else 1]:
            for rate in rates[:: 3 if self.quick else 1]:
                self.again("rtt", lambda rtt=rtt, rate=rate: self.delay(rtt, rate))

    def delay(self, rtt, rate):
        flags = ["--rtt", f"{rtt}ms", *(["--rate", rate] if rate else [])]
        # A packet that meets nobody is as long on a link as its bits take.
        expected = rtt + (2e3 * SMALL * 8 / RATES[rate] if rate else 0)
        with self.path(*flags) as path:
            told = self.tools.ping(path, 21 if rtt < 50 else 9)
        median, low = told["rtt_ns"]["p50"] / 1e6, told["rtt_ns"]["min"] / 1e6
        asked = f"{rtt:g} ms, {rate or 'no rate'}"
        held = told["answered"] > 0 and abs(median - expected) <= RTT_MS
        serial = f" (with {expected - rtt:.2f} ms of sending)" if expected - rtt >= 0.005 else ""
        return asked, f"{median:.3f} ms", held, f"shortest {low:.3f}{serial}"

    def rates(self):
        for name, rate in RATES.items():
            for rtt in RTTS_MS[:4] if not self.quick else (10,):
                # One TCP flow of 5 Gbit/s over 50 ms needs minutes to open its window.
                if rate * rtt <= 5e10:
                    self.again("rate", lambda n=name, r=rate, d=rtt: self.rate(n, r, d))

    def rate(self, name, rate, rtt):
        flags = ["--rtt", f"{rtt}ms", "--rate", name]
        asked = f"{name}, {rtt:g} ms"
        if rate <= 1e8:
            seconds = 2 if rate > 1e6 else 3
            with self.path(*flags) as path:
                count = int(1.1 * seconds * rate / (LARGE * 8))
                _, came = self.tools.send(path, count, LARGE, pace=1.1 * rate / (LARGE * 8))
            span = max(1, came["last_ns"] - came["first_ns"]) / 1e9
            delivered = (came["received"] - 1) * LARGE * 8 / span
            by = "datagrams"
        else:
            with self.path(*flags) as path:
                delivered = self.tools.bulk(path, 4, skip=2) / GOODPUT
            by = "one TCP flow"
        held = abs(delivered / rate - 1) <= RATE
        return asked, f"{delivered / 1e6:.5g} Mbit/s ({delivered / rate - 1:+.2%})", held, by

    def losses(self):
        for loss in LOSSES:
            for rtt in (0.2, 50):
                for rate in (None, "100Mbit"):
                    self.again("loss", lambda a=loss, b=rtt, c=rate: self.loss(a, b, c))

    def loss(self, loss, rtt, rate):
        count = 10_000 if self.quick else 50_000
        flags = ["--rtt", f"{rtt}ms", "--loss", f"{loss}%", *(["--rate", rate] if rate else [])]
        with self.path(*flags) as path:
            _, came = self.tools.send(path, count, SMALL, pace=40_000)
        lost = count - (came["received"] - came["twice"])
        low, high = binomial.interval(count, loss / 100)
        asked = f"{loss:g} %, {rtt:g} ms, {rate or 'no rate'}"
        told = path.account["out"].get("dropped_loss")
        note = f"of {count:,}; {low} to {high} were plausible; the path says {told}"
        return asked, f"{lost} lost ({lost / count:.3%})", low <= lost <= high, note

    def queues(self):
        # Rates at which a burst of so many is sent in less time than a few of them take.
        for queue, rates in ((10, (1, 10)), (100, (1, 10)), (1_000, (10, 100)), (10_000, (100,))):
            for rate in rates:
                for rtt in (0.2, 50):
                    self.again("queue", lambda a=queue, b=rate, c=rtt: self.queue(a, b, c))
        for limit in QUEUES:
            self.again("limit", lambda limit=limit: self.limit(limit))

    def queue(self, queue, rate, rtt):
        count = queue + max(100, queue // 2)
        flags = ["--rtt", f"{rtt}ms", "--rate", f"{rate}Mbit", "--queue", queue]
        with self.path(*flags) as path:
            _, came = self.tools.send(path, count, LARGE, idle_ms=500)
        out = path.account["out"]
        received = came["received"]
        # What was let in before the first that was dropped: the queue, the one being sent, and those
        # that left while the burst came.
        left = came["first_missing"] - queue
        accounts = received + out["dropped_queue"] == count
        held = out["queue_most"] == queue and accounts and left >= 0
        asked = f"{queue:,} packets, {rate} Mbit, {rtt:g} ms"
        note = f"burst of {count:,}: {received:,} came, {out['dropped_queue']:,} dropped; "
        note += f"the first drop is packet {came['first_missing'] + 1:,}"
        return asked, f"{out['queue_most']:,} packets", held, note

    def limit(self, limit):
        count = limit + max(100, limit // 5)
        with self.path("--rtt", "400ms", "--limit", limit) as path:
            sent, came = self.tools.send(path, count, SMALL, idle_ms=600)
        out = path.account["out"]
        took = (sent["last_ns"] - sent["first_ns"]) / 1e6
        held = came["received"] == limit and out["dropped_limit"] == count - limit
        note = f"burst of {count:,} in {took:.0f} ms, 200 ms in each direction"
        return f"{limit:,} packets", f"{came['received']:,} packets", held, note

    def page(self):
        """Tables of what was measured since the last."""
        titles = {
            "rtt": f"Round-trip time: median within {RTT_MS} ms, sending time of {SMALL} bytes at the rate added",
            "rate": f"Rate: within {RATE:.0%}, IP bytes",
            "loss": "Loss: within the binomial interval of 99.9 %",
            "queue": "Queue: the longest, exactly; drops accounted for",
            "limit": "Limit of what the path holds, delay included: exactly",
        }
        text = []
        for part, rows in self.rows.items():
            held = sum(1 for row in rows if row[2])
            text += [f"**{titles[part]}. {held} of {len(rows)} inside.**", ""]
            text += ["| asked | delivered | | |", "|---|---:|---|---|"]
            text += [f"| {a} | {d} | {'inside' if h else '**outside**'} | {n} |" for a, d, h, n in rows]
            text.append("")
        self.rows = {}
        return "\n".join(text)
