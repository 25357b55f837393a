"""The runtime behind a local tab: runs code that arrives on stdin, reports on stdout.

A frame is one line of JSON and, if that has a "size", so many bytes of body. Bodies keep big
sources and outputs out of the JSON, so that nobody has to escape or scan them.

  in:  {"op":"execute","id":1,"size":n} + source     one at a time
       {"op":"interrupt"}                            KeyboardInterrupt in the running code
  out: {"event":"ready","kind":"ipykernel"|"plain"}
       {"event":"start","id":1}                      the source was handed to the kernel
       {"event":"stream","id":1,"name":"stdout","size":n} + text
       {"event":"output","id":1,"type":T,"size":n} + content of that Jupyter message
       {"event":"done","id":1,"count":3}             count: execution_count, null if it did not run

The end of stdin ends this process; the end of stdout tells the tab that the kernel died.
Usage: kernel.py SCRATCH-DIR [--plain]. Python 3.8 or newer; no packages are needed, but with
ipykernel and jupyter_client it drives a real kernel.
"""
import ast, base64, builtins, codecs, io, json, linecache, os, signal, subprocess, sys, threading, time, traceback, types, warnings


class Wire:
    """The frames of this process. Writing is for any thread, reading for one."""

    def __init__(self):
        self.lock = threading.Lock()
        # An interrupt that comes while the main thread writes a frame waits for the frame's end.
        self.in_main = self.late = False
        # Private copies: from here on fd 0 and 1 belong to the user's code.
        self.reader = os.fdopen(os.dup(0), "rb", buffering=1 << 16)
        self.writer = os.fdopen(os.dup(1), "wb", buffering=0)
        for f in (self.reader, self.writer):
            try:
                import fcntl
                fcntl.fcntl(f.fileno(), 1031, 1 << 20)  # F_SETPIPE_SZ, Linux
            except Exception:
                pass

    def send(self, body=None, **header):
        if body is not None:
            header["size"] = len(body)
        head = json.dumps(header).encode() + b"\n"
        if body is not None and len(body) < 1 << 16:
            head, body = head + body, None
        main = threading.current_thread() is threading.main_thread()
        with self.lock:
            self.in_main = main
            self.put(head)
            if body is not None:
                self.put(body)
            self.in_main = False
        if main and self.late:
            self.late = False
            raise KeyboardInterrupt

    def put(self, data):
        view = memoryview(data)
        while view:
            view = view[self.writer.write(view):]

    def frames(self):
        for line in self.reader:
            header = json.loads(line)
            yield header, self.reader.read(header["size"]) if "size" in header else b""


CONTROL = bytes(set(range(32)) - {10})


def json_string(utf8):
    """A JSON string. Megabytes of source have little to escape, and json looks at each character."""
    try:
        utf8.decode()
    except UnicodeDecodeError:
        utf8 = utf8.decode("utf-8", "replace").encode()
    if len(utf8.translate(None, CONTROL)) != len(utf8):
        return json.dumps(utf8.decode()).encode()
    return b'"' + utf8.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n") + b'"'


# --- a real kernel -------------------------------------------------------------------------------

def drive_ipykernel(wire, scratch):
    import zmq
    from jupyter_client.connect import write_connection_file
    from jupyter_client.launcher import launch_kernel
    from jupyter_client.session import Session
    import ipykernel  # noqa: F401  absent: the caller falls back

    ipc = os.name == "posix"
    where = os.path.join(scratch, "k") if ipc else "127.0.0.1"
    path, conn = write_connection_file(os.path.join(scratch, "kernel.json"), ip=where, key=os.urandom(16).hex().encode(),
                                       transport="ipc" if ipc else "tcp")
    # A profile of its own: the user's start-up files and history are not Colab's.
    env = dict(os.environ, IPYTHONDIR=os.path.join(scratch, "ipython"), PYDEVD_DISABLE_FILE_VALIDATION="1")
    kernel = launch_kernel([sys.executable, "-m", "ipykernel_launcher", "-f", path, "--HistoryManager.enabled=False"],
                           stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=env)
    session = Session(key=conn["key"] if isinstance(conn["key"], bytes) else conn["key"].encode())
    ctx = zmq.Context()

    def connect(kind, port):
        s = ctx.socket(kind)
        s.linger, s.rcvhwm, s.reconnect_ivl = 0, 0, 5
        if kind == zmq.SUB:
            s.subscribe(b"")
        s.connect("ipc://%s-%s" % (where, conn[port]) if ipc else "tcp://%s:%s" % (where, conn[port]))
        return s

    shell, iopub = connect(zmq.DEALER, "shell_port"), connect(zmq.SUB, "iopub_port")
    inbox = ctx.socket(zmq.PULL)
    inbox.bind("inproc://inbox")

    def tell(*parts):  # one socket per thread, so each asks for its own
        s = ctx.socket(zmq.PUSH)
        s.connect("inproc://inbox")
        s.send_multipart(parts)
        return s

    def signal_group(sig):
        try:
            os.killpg(kernel.pid, sig)  # launch_kernel made it the leader of its session
        except (ProcessLookupError, PermissionError):
            pass

    def interrupt():
        if os.name == "posix":
            signal_group(signal.SIGINT)
        else:
            from jupyter_client.win_interrupt import send_interrupt
            send_interrupt(kernel.win32_interrupt_event)

    def read_commands():
        s = tell(b"hello")
        for header, body in wire.frames():
            if header["op"] == "interrupt":
                interrupt()
            else:
                s.send_multipart([b"execute", str(header["id"]).encode(), body])
        s.send_multipart([b"end"])

    def wait_for_death():
        kernel.wait()
        tell(b"end")

    for f in (read_commands, wait_for_death):
        threading.Thread(target=f, daemon=True).start()

    def receive(sock):
        """(type, parent id, content as it came): big contents are passed on, not decoded."""
        parts = sock.recv_multipart(zmq.NOBLOCK)
        i = parts.index(b"<IDS|MSG>")
        return json.loads(parts[i + 2])["msg_type"], json.loads(parts[i + 3] or b"{}").get("msg_id"), parts[i + 5]

    def drain(sock):
        while True:
            try:
                yield receive(sock)
            except zmq.Again:
                return

    poller = zmq.Poller()
    for s in (inbox, shell, iopub):
        poller.register(s, zmq.POLLIN)
    ready = current = parent = count = None
    replied = idle = heard = False
    waiting = []  # executes that came before the kernel was ready
    stream, text, held = None, [], 0

    def flush():
        nonlocal text, held
        if text:
            wire.send("".join(text).encode("utf-8", "replace"), event="stream", id=current, name=stream)
            text, held = [], 0

    def execute(ident, source):
        nonlocal current, parent, replied, idle, count
        current, replied, idle, count = int(ident), False, False, None
        # The content is given as bytes, which the session does not encode again.
        msg = session.send(shell, "execute_request", b'{"code":' + json_string(source) + b',"silent":false,"store_history":true,'
                           b'"user_expressions":{},"allow_stdin":false,"stop_on_error":false}')
        parent = msg["header"]["msg_id"]
        wire.send(event="start", id=current)

    try:
        while True:
            if not ready:
                # A subscriber that connects late misses messages, so ask until both channels answered.
                session.send(shell, "kernel_info_request", {})
            got = dict(poller.poll(None if ready else 50))
            for kind, of, content in drain(shell):
                if kind == "kernel_info_reply":
                    heard = True
                elif kind == "execute_reply" and of == parent:
                    replied, count = True, json.loads(content).get("execution_count")
            for kind, of, content in drain(iopub):
                if not ready:
                    if heard:
                        ready = True
                        wire.send(event="ready", kind="ipykernel")
                    continue
                if of != parent or current is None:
                    continue
                if kind == "stream":
                    c = json.loads(content)
                    if c["name"] != stream or held > 1 << 20:
                        flush()
                    stream = c["name"]
                    text.append(c["text"])
                    held += len(c["text"])
                    continue
                if kind == "status":
                    idle = json.loads(content)["execution_state"] == "idle"
                elif kind in ("display_data", "execute_result", "error", "update_display_data", "clear_output"):
                    flush()
                    wire.send(content, event="output", id=current, type=kind)
            flush()
            if current is not None and replied and idle:
                done, current = current, None
                wire.send(event="done", id=done, count=count)
            if inbox in got:
                what, *args = inbox.recv_multipart()
                if what == b"end":
                    return
                if what == b"execute":
                    waiting.append(args)
            if ready and current is None and waiting:
                execute(*waiting.pop(0))
    finally:
        if kernel.poll() is None:
            signal_group(signal.SIGKILL) if os.name == "posix" else kernel.kill()
        import shutil
        shutil.rmtree(scratch, ignore_errors=True)
        sys.stderr.flush()
        os._exit(0)  # the reader thread is blocked and daemon; zmq must not wait for it


# --- plain Python --------------------------------------------------------------------------------

class StdinNotImplementedError(RuntimeError):
    """input() has nobody to ask, as in a kernel whose front end takes no input requests."""


class Printed:
    """Collects what the code writes and sends it in large pieces, at the latest after 50 ms."""

    def __init__(self, wire):
        self.wire, self.id = wire, None
        self.lock, self.wake = threading.Lock(), threading.Event()
        self.name, self.parts, self.size = None, [], 0
        threading.Thread(target=self.tick, daemon=True).start()

    def add(self, name, s):
        with self.lock:
            if name != self.name or self.size > 1 << 20:
                self.send()
            self.name = name
            self.parts.append(s)
            self.size += len(s)
        if not self.wake.is_set():
            self.wake.set()

    def send(self):
        if self.parts:
            parts, self.parts, self.size = self.parts, [], 0
            self.wire.send("".join(parts).encode("utf-8", "replace"), event="stream", id=self.id, name=self.name)

    def flush(self):
        with self.lock:
            self.send()

    def tick(self):
        while True:
            self.wake.wait()
            time.sleep(0.05)
            self.wake.clear()
            self.flush()


class Stream(io.TextIOBase):
    encoding, errors = "utf-8", "replace"

    def __init__(self, printed, name, fd):
        self.printed, self.name, self.fd = printed, name, fd
        self.buffer = open(fd, "wb", buffering=0, closefd=False)

    def write(self, s):
        if not isinstance(s, str):
            raise TypeError("write() argument must be str, not " + type(s).__name__)
        if s:
            self.printed.add(self.name, s)
        return len(s)

    def writable(self):
        return True

    def flush(self):
        self.printed.flush()

    def fileno(self):
        return self.fd


class Captured:
    """What child processes and C code write to a file descriptor, joined to the same stream."""

    MARK = b"\x00colab-mcp end of cell\x00"

    def __init__(self, printed, name, fd):
        self.printed, self.name, self.fd = printed, name, fd
        self.passed = threading.Event()
        self.read_end, w = os.pipe()
        os.dup2(w, fd)
        os.close(w)
        threading.Thread(target=self.pump, daemon=True).start()

    def pump(self):
        decode, rest = codecs.getincrementaldecoder("utf-8")("replace").decode, b""
        while True:
            rest += os.read(self.read_end, 1 << 16)
            marked = self.MARK in rest
            rest = rest.replace(self.MARK, b"")
            # Keep a tail back only if it can be the beginning of the mark.
            cut = rest.rfind(b"\x00")
            keep = cut if cut >= 0 and self.MARK.startswith(rest[cut:]) else len(rest)
            s, rest = decode(rest[:keep]), rest[keep:]
            if s:
                self.printed.add(self.name, s)
            if marked:
                self.passed.set()

    def sync(self):
        self.passed.clear()
        try:
            os.write(self.fd, self.MARK)
        except OSError:
            return  # the code closed it
        self.passed.wait(5)


REPRS = (("_repr_html_", "text/html"), ("_repr_markdown_", "text/markdown"), ("_repr_latex_", "text/latex"), ("_repr_svg_", "image/svg+xml"),
         ("_repr_png_", "image/png"), ("_repr_jpeg_", "image/jpeg"), ("_repr_json_", "application/json"))


def mime_bundle(value):
    data, metadata = {"text/plain": repr(value)}, {}

    def put(mime, got):
        if isinstance(got, tuple) and len(got) == 2:
            got, metadata[mime] = got
        if isinstance(got, bytes):
            got = base64.b64encode(got).decode("ascii")
        if got is not None:
            data[mime] = got

    if isinstance(value, type):
        return data, metadata
    bundle = getattr(value, "_repr_mimebundle_", None)
    if callable(bundle):
        got = bundle()
        got = got[0] if isinstance(got, tuple) else got
        for mime, v in (got or {}).items():
            put(mime, v)
    for method, mime in REPRS:
        f = getattr(value, method, None)
        if callable(f) and mime not in data:
            put(mime, f())
    return data, metadata


def run_plain(wire):
    frames, executing = [], False
    arrived = threading.Semaphore(0)
    devnull = os.open(os.devnull, os.O_RDONLY)
    os.dup2(devnull, 0)
    printed = Printed(wire)
    captured = [Captured(printed, "stdout", 1), Captured(printed, "stderr", 2)]
    sys.stdin = open(0, closefd=False)
    sys.stdout, sys.stderr = Stream(printed, "stdout", 1), Stream(printed, "stderr", 2)
    os.environ["MPLBACKEND"] = "Agg"

    def in_child():
        # A forked child must not speak our frames.
        sys.stdout, sys.stderr = (io.TextIOWrapper(open(fd, "wb", closefd=False), line_buffering=True) for fd in (1, 2))
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=in_child)

    def on_sigint(*_):
        if executing and wire.in_main:
            wire.late = True
        elif executing:
            raise KeyboardInterrupt
    signal.signal(signal.SIGINT, on_sigint)

    def read_commands():
        for header, body in wire.frames():
            if header["op"] == "execute":
                frames.append((header, body))
                arrived.release()
            elif hasattr(signal, "pthread_kill"):
                signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)  # this one wakes time.sleep
            else:
                signal.raise_signal(signal.SIGINT)
        if os.name == "posix" and os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGKILL)  # with what the code left running
        os._exit(0)
    threading.Thread(target=read_commands, daemon=True).start()

    def emit(kind, **content):
        printed.flush()
        wire.send(json.dumps(content, default=str, ensure_ascii=False).encode("utf-8", "replace"), event="output", id=printed.id, type=kind)

    def display(*values, display_id=None, **_):
        for value in values:
            data, metadata = mime_bundle(value)
            emit("display_data", data=data, metadata=metadata, transient={"display_id": display_id} if display_id else {})

    def update_display(value, display_id, **_):
        data, metadata = mime_bundle(value)
        emit("update_display_data", data=data, metadata=metadata, transient={"display_id": display_id})

    def clear_output(wait=False):
        emit("clear_output", wait=bool(wait))

    def no_input(*_):
        raise StdinNotImplementedError("raw_input was called, but this frontend does not support input requests.")

    builtins.display, builtins.update_display, builtins.clear_output, builtins.input = display, update_display, clear_output, no_input
    user = types.ModuleType("__main__")
    user.__builtins__ = builtins
    sys.modules["__main__"] = user
    sys.path.insert(0, "")
    warnings.filterwarnings("ignore", message=".*non-interactive.*")
    count = 0

    def figures():
        plt = sys.modules.get("matplotlib.pyplot")
        for n in plt.get_fignums() if plt else ():
            fig, out = plt.figure(n), io.BytesIO()
            fig.savefig(out, format="png", bbox_inches="tight")
            plt.close(fig)
            emit("display_data", data={"text/plain": repr(fig), "image/png": base64.b64encode(out.getvalue()).decode("ascii")}, metadata={}, transient={})

    def run(source, name, count):
        tree = ast.parse(source, name)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, name, "exec"), user.__dict__)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), name, "eval"), user.__dict__)
            if value is not None:
                builtins._ = value
                data, metadata = mime_bundle(value)
                emit("execute_result", data=data, metadata=metadata, execution_count=count)
        figures()

    wire.send(event="ready", kind="plain")
    while True:
        arrived.acquire()
        header, body = frames.pop(0)
        printed.id, source = header["id"], body.decode("utf-8", "replace")
        count += 1
        name = "<cell %d>" % count
        linecache.cache[name] = (len(source), None, source.splitlines(True), name)
        wire.send(event="start", id=printed.id)
        try:
            executing = True
            run(source, name, count)
            executing = False
        except BaseException as e:
            executing = False
            report = traceback.TracebackException.from_exception(e)
            while report.stack and report.stack[0].filename != name:
                del report.stack[0]  # our own frames
            emit("error", ename=type(e).__name__, evalue=str(e), traceback="".join(report.format()).rstrip("\n").split("\n"))
        for c in captured:
            c.sync()
        printed.flush()
        wire.send(event="done", id=printed.id, count=count)


def main(scratch, *flags):
    # Interrupts come over the wire; the terminal's Ctrl-C is the tab's to handle.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    wire = Wire()
    if "--plain" not in flags:
        try:
            drive_ipykernel(wire, scratch)
        except ImportError:
            pass
    run_plain(wire)


main(*sys.argv[1:])
