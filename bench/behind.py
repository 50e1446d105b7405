"""Paths under measurement: a shell behind each, programs on both sides, a network of our own around."""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from process import PATIENCE_S, Unfit

# Of the namespace that all of it runs in, and of the far side of each path: windows for 10 Gbit/s
# over 50 ms are 62 MB.
WINDOWS = "4096 131072 268435456"
SETTINGS = {
    "net.ipv4.tcp_rmem": WINDOWS,
    "net.ipv4.tcp_wmem": WINDOWS,
    "net.ipv4.tcp_no_metrics_save": "1",
}
PORT = 7007


def in_own_network():
    """Starts this program again in a network namespace of its own, once: the host's stays as it is."""
    if os.environ.get("LINERATE_BENCH_PID") == str(os.getpid()):
        for command in ["ip link set lo up", *(f"sysctl -qw {k}='{v}'" for k, v in SETTINGS.items())]:
            subprocess.run(["sh", "-c", command], check=True)
        return
    if os.geteuid() != 0:
        raise Unfit("paths between network namespaces are laid: run as root")
    # exec keeps the process id.
    os.environ["LINERATE_BENCH_PID"] = str(os.getpid())
    os.execvp("unshare", ["unshare", "--net", sys.executable, *sys.argv])


class Path:
    """`linerate path` with a shell behind it, for as long as the block."""

    def __init__(self, linerate, *flags):
        self.words = [str(linerate), "path", "-q", *map(str, flags)]
        for name, value in SETTINGS.items():
            self.words += ["--sysctl", f"{name}={value}"]
        self.account = None

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="linerate-bench.")
        self.json = pathlib.Path(self.folder.name, "account.json")
        self.errors = open(pathlib.Path(self.folder.name, "errors"), "w+")
        words = [*self.words, "--json", str(self.json), "--", "sh"]
        self.shell = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True
        )
        try:
            self.peer = self.run("echo $LINERATE_PATH_PEER").strip()
        except Unfit:
            self.shell.wait()
            self.folder.cleanup()
            raise
        return self

    def run(self, command):
        """What a command behind the path printed."""
        self.shell.stdin.write(f"{command} </dev/null; echo; echo ended-$?\n")
        self.shell.stdin.flush()
        lines = []
        for line in self.shell.stdout:
            if line.startswith("ended-"):
                status = int(line.removeprefix("ended-"))
                if status:
                    raise Unfit(f"`{command}` ended with {status}: {''.join(lines)}{self.said()}")
                return "".join(lines)
            lines.append(line)
        raise Unfit(f"`{' '.join(self.words)}` ended: {self.said()}")

    def said(self):
        self.errors.seek(0)
        return self.errors.read().strip()

    def __exit__(self, *_):
        self.shell.stdin.close()
        self.shell.wait(timeout=PATIENCE_S)
        if self.json.exists():
            text = self.json.read_text()
            self.account = json.loads(text) if text else None
        self.errors.close()
        self.folder.cleanup()

    def cpu_ns(self):
        """Of the thread that carries what comes from behind the path."""
        return self.account["out"].get("cpu_ns")


class Copy:
    """The bare copy loop (`crates/lab/examples/copy_line.rs`) in the place of a path."""

    def __init__(self, binary, offload):
        self.words = [str(binary), "", *(["offload"] if offload else [])]
        self.name = f"copy-{os.getpid()}"
        self.peer = "10.198.0.1"

    def __enter__(self):
        ip("netns", "add", self.name)
        self.words[1] = f"/run/netns/{self.name}"
        self.process = subprocess.Popen(
            self.words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        try:
            word, device = self.process.stdout.readline().split()
            inside = ["-n", self.name]
            for where, name, own, other in (
                ([], device, self.peer, "10.198.0.2"),
                (inside, "lr0", "10.198.0.2", self.peer),
            ):
                ip(*where, "link", "set", "lo", "up")
                ip(*where, "link", "set", name, "mtu", "1500", "txqueuelen", "100000", "up")
                ip(*where, "address", "add", own, "peer", other, "dev", name)
            for name, value in SETTINGS.items():
                ip("netns", "exec", self.name, "sysctl", "-qw", f"{name}={value}")
        except BaseException:
            self.__exit__()
            raise
        return self

    def run(self, command):
        ended = subprocess.run(
            ["ip", "netns", "exec", self.name, "sh", "-c", command],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE_S,
        )
        if ended.returncode:
            raise Unfit(f"`{command}` ended with {ended.returncode}: {ended.stderr}")
        return ended.stdout

    def __exit__(self, *_):
        told, _ = self.process.communicate(timeout=PATIENCE_S)
        self.told = json.loads(told.splitlines()[-1]) if told.strip() else {}
        ip("netns", "delete", self.name)

    def cpu_ns(self):
        return self.told.get("cpu_ns")


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True)


class Tools:
    """What measures paths, on the side that is not behind them."""

    def __init__(self, datagrams):
        self.datagrams = datagrams

    @contextlib.contextmanager
    def answering(self, *words):
        """A `datagrams sink` or `echo`; the sink's figures are in the list afterwards."""
        tool = subprocess.Popen(
            [self.datagrams, words[0], f"0.0.0.0:{PORT}", *map(str, words[1:])],
            stdout=subprocess.PIPE, text=True,
        )
        told = []
        try:
            if not tool.stdout.readline().startswith("ready"):
                raise Unfit(f"port {PORT} is in use")
            yield told
            if words[0] == "sink":
                rest, _ = tool.communicate(timeout=PATIENCE_S)
                told.append(json.loads(rest))
        finally:
            if tool.poll() is None:
                tool.terminate()
                tool.wait()

    def ping(self, path, count):
        """Round trips of 64-byte packets, one at a time."""
        with self.answering("echo"):
            return json.loads(path.run(f"{self.datagrams} ping {path.peer}:{PORT} {count} 1"))

    def send(self, path, count, size, pace=0, idle_ms=300, stamps=False):
        """Sends packets of so many bytes; returns what was sent and what came."""
        words = ["sink", idle_ms, *(["stamps"] if stamps else [])]
        payload = size - 28
        with self.answering(*words) as told:
            sent = path.run(f"{self.datagrams} send {path.peer}:{PORT} {count} {payload} {pace}")
        return json.loads(sent), told[0]

    def bulk(self, path, seconds, flows=1, skip=1):
        """Goodput of TCP from behind the path, the first seconds left out. Unit: bit/s."""
        server = subprocess.Popen(
            ["iperf3", "-s", "-1", "-p", str(PORT)], stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            time.sleep(0.2)
            words = f"iperf3 -c {path.peer} -p {PORT} -t {seconds} -O {skip} -P {flows} -J"
            told = json.loads(path.run(words))
        finally:
            server.terminate()
            server.wait()
        return told["end"]["sum_received"]["bits_per_second"]
