# Which runtime this is, and deadlines for cells. Loaded behind module.py.
import asyncio
import hashlib
import os
import platform
import shutil
import signal
import subprocess
import threading
import time
import uuid

_installed = uuid.uuid4().hex


def _read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            return f.read().strip()
    except OSError:
        return ""


def _kernel_id():
    stat = _read("/proc/self/stat")
    if not stat:
        return _installed
    started = stat.rpartition(")")[2].split()[19]
    words = "%s/%s/%d/%s" % (_read("/proc/sys/kernel/random/boot_id"), platform.node(), os.getpid(), started)
    return hashlib.sha256(words.encode()).hexdigest()[:32]


@export
def runtime():
    """`id` changes with every start of the kernel, `machine` when it is another machine or container."""
    shell = ipython()
    try:
        cwd = os.getcwd()
    except OSError:  # the directory was deleted
        cwd = ""
    content = os.path.isdir("/content")
    try:
        free = shutil.disk_usage("/content" if content else cwd or "/").free
    except OSError:
        free = -1
    return {
        "id": _kernel_id(),
        "machine": _read("/proc/sys/kernel/random/boot_id") + "/" + platform.node(),
        "pid": os.getpid(),
        "cwd": cwd,
        "content": content,
        "python": platform.python_version(),
        "ipython": sys.modules["IPython"].__version__ if shell else "",
        "platform": sys.platform,
        "free": free,
    }


_KILL_AFTER = 5.0  # from SIGINT to SIGKILL for child processes, seconds
_armed = {}  # token -> _Deadline; one at a time


def _processes():
    """{pid: (parent, start time)}; the start time tells a process from a later one of the same number."""
    found = {}
    if os.path.isdir("/proc/self"):
        for name in os.listdir("/proc"):
            fields = _read("/proc/%s/stat" % name).rpartition(")")[2].split() if name.isdigit() else ()
            if len(fields) > 19 and fields[0] != "Z":
                found[int(name)] = (int(fields[1]), fields[19])
    elif os.name == "posix":
        ps = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,lstart="], stdout=subprocess.PIPE, text=True).stdout
        for line in ps.splitlines():
            pid, parent, started = line.split(None, 2)
            found[int(pid)] = (int(parent), started)
    return found


def _children(known=()):
    """Descendants of this process as (pid, start time), without the known ones and theirs."""
    table = _processes()
    found, parents = set(), {os.getpid()}
    while parents:
        next_parents = set()
        for pid, (parent, started) in table.items():
            if parent in parents and (pid, started) not in known:
                next_parents.add(pid)
                found.add((pid, started))
        parents = next_parents
    return found


class _Deadline:
    """Waits for its cell to start, interrupts it when its time is up, and is gone when the cell ends."""

    def __init__(self, shell, seconds, source, within, again):
        self.shell, self.seconds, self.source = shell, seconds, source
        self.expires, self.again = time.monotonic() + within, again
        self.state = threading.Condition()
        self.started = self.fired = self.ended = None
        self.known, self.loop = set(), None
        shell.events.register("pre_run_cell", self.before)
        shell.events.register("post_run_cell", self.after)

    def before(self, info=None):
        if self.started is not None or self.ended is not None:
            return
        if time.monotonic() > self.expires:
            self.disarm()
            return
        if threading.current_thread() is not threading.main_thread():
            return
        raw = getattr(info, "raw_cell", "") or ""
        if self.source and hashlib.sha256(raw.rstrip(" \t\r\n").encode("utf-8", "replace")).hexdigest() != self.source:
            return
        self.known = _children()
        try:
            self.loop = asyncio.get_running_loop()
        except RuntimeError:
            pass
        self.started = time.monotonic()
        threading.Thread(target=self.watch, name="colab-mcp deadline", daemon=True).start()

    def after(self, result=None):
        if self.started is None:
            return  # the arming cell's own end, or another cell's
        while self.ended is None or self.hooked():
            try:
                self.disarm()
            except KeyboardInterrupt:
                pass  # ours, a moment late

    def hooked(self):
        return self.after in self.shell.events.callbacks["post_run_cell"]

    def disarm(self):
        with self.state:
            self.ended = self.ended or time.monotonic()
            self.state.notify_all()
        for event, hook in (("pre_run_cell", self.before), ("post_run_cell", self.after)):
            if hook in self.shell.events.callbacks[event]:
                self.shell.events.unregister(event, hook)

    def watch(self):
        with self.state:
            if self.state.wait_for(lambda: self.ended is not None, self.started + self.seconds - time.monotonic()):
                return
            # Under the lock, so that a cell which has ended is never interrupted, nor the next one.
            self.fired = time.monotonic()
            victims = self.interrupt()
            self.state.wait_for(lambda: self.ended is not None, min(_KILL_AFTER, self.again))
        time.sleep(max(0, self.fired + _KILL_AFTER - time.monotonic()))
        victims |= set() if self.ended is not None else _children(self.known)
        _signal(victims, signal.SIGKILL)
        with self.state:  # code that swallows KeyboardInterrupt gets it again
            while not self.state.wait_for(lambda: self.ended is not None, self.again):
                _signal(self.interrupt(), signal.SIGKILL)

    def interrupt(self):
        victims = _children(self.known)
        _signal(victims, signal.SIGINT)
        main = threading.main_thread().ident
        if callable(signal.getsignal(signal.SIGINT)):
            signal.pthread_kill(main, signal.SIGINT)  # os.kill would not wake time.sleep
        else:
            # SIGINT is ignored, or would end the kernel itself.
            import ctypes
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(main), ctypes.py_object(KeyboardInterrupt))
        if self.loop is not None:  # a cell that awaits is cancelled by the handler, and the loop sleeps on
            self.loop.call_soon_threadsafe(lambda: None)
        return victims


def _signal(victims, number):
    table = _processes()
    for pid, started in victims:
        if table.get(pid, (0, ""))[1] == started and "resource_tracker" not in _read("/proc/%d/cmdline" % pid):
            try:
                os.kill(pid, number)
            except OSError:
                pass


@export
def arm(token, deadline_s, source="", within_s=600.0, again_s=10.0):
    """Arms a deadline for the next cell, or for the next one whose source has this SHA-256 (without white space at its end).

    A cell that does not start within within_s seconds is not timed. One that swallows the interrupt gets it again after again_s.
    """
    for old in list(_armed):
        _armed.pop(old).disarm()
    shell = ipython()
    if shell is None:
        return {"armed": False, "why": "a deadline needs IPython, this runtime is plain Python"}
    if not hasattr(signal, "pthread_kill"):
        return {"armed": False, "why": "a deadline needs signals between threads, which this system has not"}
    _armed[token] = _Deadline(shell, deadline_s, source, within_s, again_s)
    return {"armed": True, "why": ""}


@export
def fired(token):
    """What became of a deadline; it is disarmed and forgotten. Times are seconds from the start of the cell, -1 = never."""
    deadline = _armed.pop(token, None)
    if deadline is None:
        return {"known": False, "started": False, "fired": False, "fired_s": -1, "ended_s": -1}
    ended = deadline.ended
    deadline.disarm()
    since = deadline.started or 0
    return {
        "known": True,
        "started": deadline.started is not None,
        "fired": deadline.fired is not None,
        "fired_s": deadline.fired - since if deadline.fired is not None else -1,
        "ended_s": ended - since if ended is not None and deadline.started is not None else -1,
    }
