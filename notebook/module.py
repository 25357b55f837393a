# The head of every module of ours in the kernel: a call comes in, one reply line goes out.
# Python 3.8 or newer and nothing else. IPython is used where it is, and never required.
import base64
import binascii
import errno
import json
import linecache
import sys
import traceback
import zlib

_exports = {}


def export(function):
    _exports[function.__name__] = function
    return function


class Refusal(Exception):
    """A failure that carries a code of ours besides its words."""

    def __init__(self, code, words):
        super().__init__(words)
        self.code = code


class Data:
    """A reply of a JSON value and bytes, which travel as base64 behind it."""

    def __init__(self, value, data):
        self.value = value
        self.data = data


def call(key, name, args, check, data=None):
    """Runs one exported function. Never raises: an error output would make the kernel drop what is queued behind."""
    tail = b""
    try:
        _forget_cell(key, sys._getframe(1).f_code.co_filename)
        if "%08x" % zlib.crc32((name + args).encode()) != check:
            raise Refusal("damaged", "the call was damaged on its way")
        params = json.loads(base64.b64decode(args))
        if data is not None:
            try:
                params["data"] = binascii.a2b_base64(data)
            except binascii.Error as err:
                raise Refusal("damaged", str(err))
        value = _exports[name](**params)
        if isinstance(value, Data):
            value, tail = value.value, b"\t" + binascii.b2a_base64(value.data, newline=False)
        head = json.dumps({"ok": value})
    except BaseException as err:  # an interrupt and sys.exit() are answers too
        head, tail = json.dumps({"error": _describe(err)}), b""
    out, line = _output(), "colab-mcp:%s:%08x%s" % (key, zlib.crc32(head.encode()), head)
    if len(tail) < 1 << 15 or not _publish(out, line, tail):
        out.write(line + tail.decode("ascii") + "\n")
        out.flush()


def _publish(out, line, tail):
    """Sends a long reply as the kernel's stream does, but does not have it copied and looked at on the way: base64 needs no escapes."""
    try:
        out.flush()
        content = b'{"name":"stdout","text":' + json.dumps(line).encode()[:-1] + tail.replace(b"\t", b"\\t", 1) + b'\\n"}'
        out.session.send(out.pub_thread, "stream", content, out.parent_header, ident=out.topic)
        return True
    except Exception:
        return False  # another stream than ipykernel's


def _describe(err):
    code = ""
    if isinstance(err, Refusal):
        code = err.code
    elif isinstance(err, OSError):
        code = errno.errorcode.get(err.errno, "")
    return {
        "name": type(err).__name__,
        "value": str(err),
        "code": code,
        "traceback": traceback.format_exception(type(err), err, err.__traceback__)[-20:],
    }


def ipython():
    """The running shell, or None in a plain interpreter."""
    module = sys.modules.get("IPython")
    return module.get_ipython() if module else None


# The kernel's own stream at the time of installing, for when the user's code has put another one in its place.
_stream = sys.stdout if hasattr(sys.stdout, "pub_thread") else None


def _output():
    out = sys.stdout
    if _stream is None or hasattr(out, "pub_thread"):
        return out
    try:
        _stream.set_parent(ipython().parent_header)  # the kernel tells only sys.stdout whose output this is
    except Exception:
        return out
    return _stream


def _forget_cell(key, filename):
    """Takes our cell out of IPython's history and source caches: a transfer would keep every chunk in memory there."""
    shell = ipython()
    if shell is None:
        return
    try:
        linecache.cache.pop(filename, None)
        getattr(linecache, "_ipython_cache", {}).pop(filename, None)
        getattr(shell.compile, "_filename_map", {}).pop(filename, None)
        history = shell.history_manager
        if key not in history.input_hist_raw[-1]:
            return
        history.input_hist_raw[-1] = history.input_hist_parsed[-1] = ""
        with history.db_input_cache_lock:
            history.db_input_cache[:] = [row for row in history.db_input_cache if key not in row[2]]
        history._i00, history._i, history._ii = history._i, history._ii, history._iii
        names = shell.user_ns
        for place in (names, shell.user_ns_hidden):
            place.pop("_i%d" % shell.execution_count, None)
        names["_i"], names["_ii"] = history._i, history._ii
    except Exception:
        pass  # another IPython's insides; what is left behind is only memory


def keep_history(keep):
    """Off: IPython collects inputs instead of writing each one to its database, so that _forget_cell is in time."""
    history = getattr(ipython(), "history_manager", None)
    if history is not None:
        history.db_cache_size = 0 if keep else 1 << 30
        if keep and hasattr(history, "save_flag"):
            history.save_flag.set()
    _restore()
    if not keep:
        _lighten()


_replaced = []  # (object, name): methods that have a lighter one in their place, for cells of ours
_literal = ""  # the data of the cell that is about to run


def _lighten():
    """IPython reads the source of a cell some ten times before it runs: hashes it, splits it, tokenizes it, compiles it, and sends it
    back to whoever listens. Megabytes of data are taken out of it before that. Where it is built otherwise, the cell runs as it is."""
    shell = ipython()
    kernel, compiler = getattr(shell, "kernel", None), getattr(shell, "compile", None)
    try:
        _replace(shell, "transform_cell", lambda normal, source, *rest: normal(_take_literal(source), *rest))
        _replace(compiler, "get_code_name", lambda normal, source, *rest: "<colab-mcp>" if _ours(source) else normal(source, *rest))
        _replace(kernel, "_publish_execute_input", lambda normal, source, *rest: normal(source.split("\n", 1)[0] if _ours(source) else source, *rest))
    except Exception:
        _restore()


def _replace(object, name, method):
    normal = getattr(object, name, None)
    if normal is not None and name not in vars(object):
        setattr(object, name, lambda *args, **named: normal(*args, **named) if named else method(normal, *args))
        _replaced.append((object, name))


def _restore():
    while _replaced:
        object, name = _replaced.pop()
        vars(object).pop(name, None)


def _ours(source):
    return isinstance(source, str) and source.startswith("#@title colab-mcp")


def _take_literal(source):
    """Keeps the data of a call aside and puts literal() in its place."""
    global _literal
    if not _ours(source) or len(source) < 1 << 15 or not source.endswith("')"):
        return source
    head, _, _ = source[: 1 << 12].rpartition(", '")
    data = source[len(head) + 3 : -2]
    if not head or "'" in data:
        return source
    _literal = data
    return head + ", __import__('sys').modules['" + __name__ + "'].literal())"


def literal():
    global _literal
    data, _literal = _literal, ""
    return data
