"""A case of fixtures/foreign: its services started, its client run, and all of it ended again.

Words in @...@ are replaced: @src@ (the folder of sources), @bin@ (what was built of them), @tmp@ (the try's own
folder), @python@, @NAME@ (the port of the process NAME; @port@ is the server's), and each of [param].
"""

import contextlib
import ctypes
import glob
import hashlib
import json
import os
import pathlib
import pwd
import re
import selectors
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import tomllib
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
# What `use` overrides.
FOREIGN = ROOT / "fixtures/foreign"
BINARIES = ROOT / "out/foreign"
BUILT = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"), "release")

# Chosen: a JVM or a database on a busy machine.
STARTS_WITHIN_S = 60
# Chosen: beyond its own duration, what a run may take to lay a path, check it, and report.
PATIENCE_S = 90
# Source: linux/prctl.h.
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
# Chosen: RabbitMQ takes some seconds, and its folder is removed after that.
ENDS_WITHIN_S = 20
LIBC = ctypes.CDLL(None)
# Source: the kernel's default period. Unit: us.
PERIOD_US = 100_000
TICKS = os.sysconf("SC_CLK_TCK")


class NoRun(Exception):
    """A try that could not be made; its text says why."""


class Case(NamedTuple):
    """A file of fixtures/foreign, or of another folder."""

    name: str
    table: dict

    @property
    def accepted(self):
        return self.table["truth"]["accepted"]

    @property
    def is_healthy(self):
        return not self.accepted

    @property
    def clients(self):
        """One; of a healthy service any number."""
        client = self.table["client"]
        return client if isinstance(client, list) else [client]


class Ran(NamedTuple):
    """One run of linerate, and what else was measured meanwhile."""

    document: dict
    others: float
    load_per_s: float | None
    status: int


def use(folder):
    """Takes the cases, and their sources, from another folder than fixtures/foreign."""
    global FOREIGN, BINARIES
    FOREIGN = folder.resolve()
    BINARIES = ROOT / "out" / FOREIGN.name


def cases():
    """All of the folder, by name."""
    return [_read(path) for path in sorted(FOREIGN.glob("*.toml"))]


def _read(path):
    table = tomllib.loads(path.read_text())
    for part in (table, *table.get("process", [])):
        for key in ("build", "setup", "then"):
            if isinstance(part.get(key, []), str):
                raise SystemExit(f'truth: {path.name}: {key} is one text; write a list of commands, {key} = ["..."]')
    return Case(path.stem, table)


def adopt_orphans():
    """Whoever loses its parent becomes a child of ours: it is counted, and it is ended."""
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    folders = ["/usr/sbin", "/sbin", *sorted(glob.glob("/usr/lib/postgresql/*/bin"))]
    os.environ["PATH"] = ":".join([os.environ["PATH"], *folders])


def build(case):
    """Compiles what the case needs and is older than its source."""
    for command in case.table.get("build", []):
        words = [_replaced(word, {"src": FOREIGN / "src", "bin": BINARIES, "root": ROOT}) for word in shlex.split(command)]
        sources = [pathlib.Path(word) for word in words if word.startswith(str(FOREIGN))]
        BINARIES.mkdir(parents=True, exist_ok=True)
        stamp = BINARIES / hashlib.sha256(command.encode()).hexdigest()[:16]
        if stamp.exists() and all(stamp.stat().st_mtime > source.stat().st_mtime for source in sources):
            continue
        subprocess.run(words, check=True, stdin=subprocess.DEVNULL)
        stamp.touch()


def run(case, client, overrides=None):
    """Starts the case, with parameters overridden, runs a client against it, and ends all."""
    table = case.table
    with contextlib.ExitStack() as at_end:
        at_end.callback(end_orphans)
        # As who is no user of ours may have to come in.
        tmp = pathlib.Path(tempfile.mkdtemp(prefix="linerate-truth."))
        at_end.callback(shutil.rmtree, tmp, ignore_errors=True)
        tmp.chmod(0o755)
        words = {"src": FOREIGN / "src", "bin": BINARIES, "tmp": tmp, "python": "/usr/bin/python3", "root": ROOT}
        words["linerate"] = BUILT / "linerate"
        words["case"] = f"{case.name}-twin" if overrides else case.name
        processes = table.get("process", [])
        words |= {"port" if one["name"] == "server" else one["name"]: free_port() for one in processes}
        words |= {name: free_port() for name in table.get("ports", [])}
        params = table.get("param", {}) | (overrides or {})
        words |= {name: _replaced(str(value), words) for name, value in params.items()}
        for name, text in table.get("file", {}).items():
            (tmp / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp / name).write_text(_replaced(text, words))
        for one in processes:
            if _replaced(one.get("unless", ""), words) not in ("", "no"):
                continue
            at_end.enter_context(_process(one, words, tmp))
        load = table.get("load")
        with contextlib.ExitStack() as loaded:
            child = output = None
            if load:
                output = loaded.enter_context(tempfile.TemporaryFile())
                child = loaded.enter_context(_started(load, words, output, output))
                time.sleep(load.get("settles", 2))
                if child.poll() is not None:
                    raise NoRun(f"the load ended at once:\n{_text(output)}")
            before = _moment()
            status, document = _linerate(client, words, tmp)
            others = _others(before, _moment())
            per_s = None
            if child is not None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(timeout=load.get("ends_within", 30))
                said = _text(output)
                found = re.search(load["rate"], said, re.MULTILINE) if "rate" in load else None
                per_s = float(found[1]) if found else None
    return Ran(document, others, per_s, status)


def run_words(words):
    """Runs linerate with these words (a planted plan)."""
    with contextlib.ExitStack() as at_end:
        at_end.callback(end_orphans)
        tmp = pathlib.Path(tempfile.mkdtemp(prefix="linerate-truth."))
        at_end.callback(shutil.rmtree, tmp, ignore_errors=True)
        before = _moment()
        plan = pathlib.Path(words[1]).stem
        case = {"case": f"{plan}-lifted" if "-k" in words else plan}
        status, document = _linerate({"linerate": shlex.join(words)}, case, tmp)
        return Ran(document, _others(before, _moment()), None, status)


def free_port():
    """Nobody listens on it now. Below the ports that clients get."""
    while True:
        port = 10_000 + int.from_bytes(os.urandom(2)) % 20_000
        with socket.socket() as one, contextlib.suppress(OSError):
            one.bind(("127.0.0.1", port))
            return port


def end_orphans():
    """Ends what processes of ours left behind. EPMD stays while a node is registered: it may be anybody's by now."""
    deadline = time.monotonic() + 5
    while True:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        ours = {pid: stat for pid, stat in _stats().items() if stat.parent == os.getpid()}
        left = [pid for pid, stat in ours.items() if stat.name != "epmd" or not _is_asked(pid)]
        if not left or time.monotonic() > deadline:
            return
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def _is_asked(pid):
    """Whether it has a connection open: EPMD has one to each node that is registered."""
    held = set()
    for descriptor in pathlib.Path(f"/proc/{pid}/fd").glob("*"):
        with contextlib.suppress(OSError):
            held.add(os.readlink(descriptor))
    rows = (row.split() for row in _sockets())
    # Source: proc_net_tcp(5): the state, of which 01 is ESTABLISHED, and the inode.
    return any(row[3] == "01" and f"socket:[{row[9]}]" in held for row in rows)


def _linerate(client, words, tmp):
    # Before the words after which all are a command's.
    command = [str(BUILT / "linerate"), *shlex.split(_replaced(client["linerate"], words))]
    command[2:2] = ["--json", "-q", "-o", str(tmp / "run.jsonl")]
    wanted = dict(client) | {"command": shlex.join(command)}
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        with _started(wanted, words, output, errors) as child:
            try:
                status = child.wait(timeout=PATIENCE_S)
            except subprocess.TimeoutExpired:
                raise NoRun(f"not done after {PATIENCE_S} s") from None
        if (kept := os.environ.get("TRUTH_EVIDENCE")) and (tmp / "run.jsonl").exists():
            number = len(list(pathlib.Path(kept).glob(f"{words['case']}.*jsonl")))
            shutil.copy(tmp / "run.jsonl", pathlib.Path(kept) / f"{words['case']}.{number}.jsonl")
        try:
            return status, json.loads(_text(output))
        except ValueError:
            raise NoRun(f"no report (status {status}): {_text(errors).strip()}") from None


@contextlib.contextmanager
def _process(one, words, tmp):
    """A process of the case, once it is ready."""
    if "user" in one:
        os.chown(tmp, *_user(one["user"]))
    for command in one.get("setup", []):
        ended = subprocess.run(
            shlex.split(_replaced(command, words)),
            cwd=tmp,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            **_as(one),
        )
        if ended.returncode:
            raise NoRun(f"{command}: {ended.stdout}{ended.stderr}")
    says = one.get("says") == "json"
    with tempfile.TemporaryFile() as log:
        with _started(one, words, subprocess.PIPE if says else log, log) as child:
            try:
                if says:
                    _heard(child, words)
                elif one.get("ready", "port") == "port":
                    port = words["port" if one["name"] == "server" else one["name"]]
                    _accepts(child, port)
            except NoRun as error:
                raise NoRun(f"{one['name']}: {error}\n{_text(log)[-2000:]}") from None
            for command in one.get("then", []):
                ended = subprocess.run(
                    shlex.split(_replaced(command, words)),
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                )
                if ended.returncode:
                    raise NoRun(f"{command}: {ended.stdout}{ended.stderr}")
            yield


def _heard(child, words):
    """What the process says on its first line, as words to be replaced."""
    ready = selectors.DefaultSelector()
    ready.register(child.stdout, selectors.EVENT_READ)
    if not ready.select(STARTS_WITHIN_S):
        raise NoRun("said nothing")
    try:
        said = json.loads(child.stdout.readline())
    except ValueError:
        raise NoRun("said no line of JSON") from None
    words.update(said.pop("ports", {}) | {key: value for key, value in said.items() if not isinstance(value, list)})


def _accepts(child, port):
    deadline = time.monotonic() + STARTS_WITHIN_S
    while True:
        if child.poll() is not None:
            raise NoRun(f"ended with status {child.returncode} before it listened")
        # By the kernel's table and not by a connection, which a service of one at a time would serve first.
        if any(int(line.split()[1].rsplit(":")[-1], 16) == port and line.split()[3] == "0A" for line in _sockets()):
            return
        if time.monotonic() > deadline:
            raise NoRun(f"does not listen on {port}")
        time.sleep(0.02)


def _sockets():
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError):
            yield from pathlib.Path(path).read_text().splitlines()[1:]


@contextlib.contextmanager
def _started(one, words, output, errors):
    """A process in a session of its own, with its user, CPUs, quota and niceness, for as long as the block."""
    quota = float(_replaced(str(one.get("quota", 0)), words))
    group = _group(quota) if quota else None
    cpus = _replaced(str(one.get("cpus", "")), words)
    environment = {key: _replaced(value, words) for key, value in one.get("env", {}).items()}

    def in_child():
        # Should we be killed, it ends too.
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if group:
            (group / "cgroup.procs").write_text("0")
        if cpus:
            os.sched_setaffinity(0, {int(cpu) for cpu in cpus.split("+")})
        if "nice" in one:
            os.nice(int(_replaced(str(one["nice"]), words)))
            # Where sessions are groups to the scheduler (sched(7)), the group's niceness is what counts outside it.
            with contextlib.suppress(OSError):
                pathlib.Path("/proc/self/autogroup").write_text(_replaced(str(one["nice"]), words))

    command = shlex.split(_replaced(one["command"], words))
    child = None
    try:
        child = subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.PIPE if output == subprocess.PIPE else subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            start_new_session=True,
            env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"} | environment,
            preexec_fn=in_child,
            **_as(one),
        )
        yield child
    except FileNotFoundError as error:
        raise NoRun(f"{error} (.ci/setup truth)") from None
    finally:
        if child:
            _end(child, getattr(signal, "SIG" + one.get("stop", "TERM").removeprefix("SIG")))
        if group:
            end_group(group)


def _as(one):
    if "user" not in one or os.geteuid() != 0:
        return {}
    user, group = _user(one["user"])
    return {"user": user, "group": group, "extra_groups": []}


def _user(name):
    entry = pwd.getpwnam(name)
    return entry.pw_uid, entry.pw_gid


def _end(child, how):
    """The process and its session. What left its session is an orphan, and ended with those."""
    if child.stdin:
        child.stdin.close()
    for signum, patience in ((how, ENDS_WITHIN_S), (signal.SIGKILL, 5)):
        if child.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signum)
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(timeout=patience)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    if child.stdout:
        child.stdout.close()


def _group(cpus):
    """A control group with a quota, of whichever version has the `cpu` controller here."""
    name = f"linerate-truth-{os.getpid()}-{time.monotonic_ns()}"
    one, two = pathlib.Path("/sys/fs/cgroup/cpu"), pathlib.Path("/sys/fs/cgroup")
    try:
        if (one / "cpu.cfs_quota_us").exists() or (one / "cgroup.procs").exists():
            (one / name).mkdir()
            (one / name / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (one / name / "cpu.cfs_quota_us").write_text(str(int(cpus * PERIOD_US)))
            return one / name
        (two / name).mkdir()
        (two / name / "cpu.max").write_text(f"{int(cpus * PERIOD_US)} {PERIOD_US}")
        return two / name
    except OSError as error:
        raise NoRun(f"no control group with a quota: {error}") from None


def end_group(group):
    deadline = time.monotonic() + 2
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            for pid in (group / "cgroup.procs").read_text().split():
                os.kill(int(pid), signal.SIGKILL)
        end = contextlib.suppress(OSError)
        with end:
            group.rmdir()
            return
        time.sleep(0.02)


class _Stat(NamedTuple):
    parent: int
    name: str
    ticks: int


def _stats():
    found = {}
    for folder in os.scandir("/proc"):
        if not folder.name.isdigit():
            continue
        with contextlib.suppress(OSError, ValueError, IndexError):
            text = pathlib.Path(folder.path, "stat").read_text()
            name, _, rest = text.partition("(")[2].rpartition(")")
            fields = rest.split()
            # utime, stime, and those of children that were waited for.
            found[int(folder.name)] = _Stat(int(fields[1]), name, sum(int(ticks) for ticks in fields[11:15]))
    return found


class _Moment(NamedTuple):
    at: float
    # Of all processes, and what the hypervisor took.
    all_s: float
    ours_s: float


def _moment():
    """CPU time of all processes and the hypervisor's, and of this process's tree and the kernel's threads. A process's
    time has the interrupts that it was stopped for, so the machine's own sums, which count them apart, are no total."""
    cpu = pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:]
    steal = int(cpu[7])
    stats = _stats()
    children = {}
    for pid, stat in stats.items():
        children.setdefault(stat.parent, []).append(pid)
    # The kernel's threads are kthreadd's children.
    ours, unseen = 0, [os.getpid(), 2]
    while unseen:
        pid = unseen.pop()
        ours += stats[pid].ticks if pid in stats else 0
        unseen += children.get(pid, [])
    everyone = sum(stat.ticks for stat in stats.values()) + steal
    return _Moment(time.monotonic(), everyone / TICKS, ours / TICKS)


def _others(before, after):
    """The share of the machine that neither the case nor we used: neighbours, and what the hypervisor took."""
    whole = (after.at - before.at) * os.cpu_count()
    return max(0.0, ((after.all_s - before.all_s) - (after.ours_s - before.ours_s)) / whole)


def _replaced(text, words):
    return re.sub(r"@(\w+)@", lambda found: str(words[found[1]]), text)


def _text(file):
    file.seek(0)
    return file.read().decode(errors="replace")
