# The runtime's side of a transfer. Loaded behind notebook/module.py.
#
# Refusal codes: directory, not_regular, no_directory, missing, exists, space, changed, damaged, checksum, lost, too_large.
import collections
import hashlib
import os
import shutil
import stat
import threading
import time
import zlib

_transfers = {}  # id -> _Upload or _Download
_finished = collections.deque(maxlen=16)  # ids, for a finish whose reply was lost
_INFIX, _SUFFIX = ".colab-mcp-", ".part"  # a staging file is ".NAME.colab-mcp-KEY.part", beside its target
_STAGING_AGE = 72 * 3600.0  # an abandoned one is swept after this, seconds
_BLOCK = 1 << 20


def _resolve(path, name=""):
    """Absolute; relative ones are below /content, or the working directory where there is none. In a directory: the name there."""
    path = os.path.expanduser(path)
    if not os.path.isabs(path):
        path = os.path.join("/content" if os.path.isdir("/content") else os.getcwd(), path)
    if name and os.path.isdir(path):
        path = os.path.join(path, name)
    return os.path.realpath(path)


def _status(path):
    """The file's status, None if there is none, Refusal if it is no regular file."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(status.st_mode):
        raise Refusal("directory", path)
    if not stat.S_ISREG(status.st_mode):
        raise Refusal("not_regular", path)
    return status


def _hash(file, size=-1):
    """SHA-256 of the next size bytes, -1 = all; the file is behind them afterwards."""
    hasher, block = hashlib.sha256(), memoryview(bytearray(_BLOCK))
    while size != 0:
        n = file.readinto(block[:size] if 0 < size < _BLOCK else block)
        if not n:
            break
        hasher.update(block[:n])
        size -= n if size > 0 else 0
    return hasher


def _same(status, other):
    return (status.st_ino, status.st_size, status.st_mtime_ns) == (other.st_ino, other.st_size, other.st_mtime_ns)


def _sync_directory(path):
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(fd)
    except OSError:
        pass  # not every file system can
    finally:
        os.close(fd)


class _Upload:
    def __init__(self, path, size, sha256, key, overwrite, executable):
        self.path, self.size, self.sha256 = path, size, sha256
        self.overwrite, self.executable = overwrite, executable
        directory, name = os.path.split(path)
        kept = name.encode("utf-8", "surrogateescape")[:180].decode("utf-8", "ignore")  # names are limited to 255 bytes
        self.prefix = "." + kept + _INFIX
        self.staging = os.path.join(directory, self.prefix + key + _SUFFIX)
        for id, other in list(_transfers.items()):  # one that a drop has left open
            if getattr(other, "staging", None) == self.staging:
                _transfers.pop(id).close()
        self.sweep(directory)
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
        self.file = os.fdopen(os.open(self.staging, flags, 0o666), "r+b", buffering=0)
        try:
            if os.fstat(self.file.fileno()).st_size > size:
                self.file.truncate(0)
            self.hasher = _hash(self.file)
            self.have = self.file.tell()
            if shutil.disk_usage(directory).free < size - self.have:
                raise Refusal("space", "%d bytes are free in %s, %d are needed" % (shutil.disk_usage(directory).free, directory, size - self.have))
        except BaseException:
            self.discard()
            raise

    def sweep(self, directory):
        """Removes staging files of this target from another source, and any that are old."""
        used = {getattr(other, "staging", None) for other in _transfers.values()}
        for entry in os.scandir(directory):
            if entry.name.startswith(".") and _INFIX in entry.name and entry.name.endswith(_SUFFIX) and entry.path not in used:
                try:
                    old = time.time() - entry.stat(follow_symlinks=False).st_mtime > _STAGING_AGE
                    if entry.is_symlink() or entry.path != self.staging and (old or entry.name.startswith(self.prefix)):
                        os.unlink(entry.path)
                except OSError:
                    pass

    def restart(self):
        self.file.seek(0)
        self.file.truncate(0)
        self.hasher, self.have = hashlib.sha256(), 0

    def put(self, offset, size, sha256, packed, data):
        if offset != self.have:
            return  # a chunk that came twice, or not in its turn: the reply says where we are
        if packed:
            try:
                data = zlib.decompressobj().decompress(data, size + 1)
            except zlib.error:
                data = b""
        if len(data) != size or hashlib.sha256(data).hexdigest() != sha256:
            raise Refusal("damaged", "the chunk at %d was damaged on its way" % offset)
        view = memoryview(data)
        while view:
            view = view[self.file.write(view):]
        self.hasher.update(data)
        self.have += size

    def finish(self):
        if self.have != self.size or self.hasher.hexdigest() != self.sha256:
            raise Refusal("checksum", "%d bytes came, %d were announced, and their hash is another" % (self.have, self.size))
        status = _status(self.path)
        if status is not None and not self.overwrite:
            raise Refusal("exists", self.path)
        if status is not None or self.executable:
            mode = stat.S_IMODE(status.st_mode if status is not None else os.fstat(self.file.fileno()).st_mode)
            os.chmod(self.staging, mode | (self.executable & mode >> 2))
        os.fsync(self.file.fileno())
        if self.overwrite:
            os.replace(self.staging, self.path)
        else:
            try:
                os.link(self.staging, self.path)  # never replaces what came meanwhile
                os.unlink(self.staging)
            except FileExistsError:
                raise Refusal("exists", self.path)
            except OSError:  # a file system without links
                if os.path.lexists(self.path):
                    raise Refusal("exists", self.path)
                os.replace(self.staging, self.path)
        self.close()
        _sync_directory(os.path.dirname(self.path))

    def close(self):
        self.file.close()

    def discard(self):
        self.close()
        try:
            os.unlink(self.staging)
        except OSError:
            pass


class _Download:
    def __init__(self, path, max_size):
        self.path = path
        self.ahead = None  # the chunk that is being prepared: thread, what it is, where it will be
        if _status(path) is None:
            raise Refusal("missing", path)
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
        self.file = os.fdopen(os.open(path, flags), "rb", buffering=0)
        try:
            self.status = os.fstat(self.file.fileno())
            if self.status.st_size > max_size:
                raise Refusal("too_large", str(self.status.st_size))
            self.sha256 = _hash(self.file).hexdigest()
            self.unchanged()
        except BaseException:
            self.close()
            raise

    def unchanged(self):
        if not _same(os.fstat(self.file.fileno()), self.status):
            raise Refusal("changed", self.path)

    def packs(self):
        """Whether level 1 gains ten percent on a sample from the start, the middle and the end."""
        raw = packed = 0
        for part in range(3):
            self.file.seek(max(0, self.status.st_size - (1 << 16)) * part // 2)
            sample = self.file.read(1 << 16)
            raw, packed = raw + len(sample), packed + len(zlib.compress(sample, 1))
        return packed * 10 <= raw * 9

    def get(self, offset, size, packed):
        wanted, chunk = (offset, size, packed), None
        if self.ahead is not None:
            thread, prepared, box = self.ahead
            thread.join()
            if prepared == wanted and box:
                chunk = box[0]
        chunk = chunk or self.read(*wanted)
        self.unchanged()
        self.prepare(offset + size, size, packed)
        return chunk

    def read(self, offset, size, packed):
        data = os.pread(self.file.fileno(), size, offset) if hasattr(os, "pread") else b""
        while len(data) < size:
            self.file.seek(offset + len(data))
            more = self.file.read(size - len(data))
            if not more:
                break
            data += more
        sha256 = hashlib.sha256(data).hexdigest()
        return Data({"size": len(data), "sha256": sha256}, zlib.compress(data, 1) if packed else data)

    def prepare(self, offset, size, packed):
        """Reads and compresses the next chunk while this one is on its way."""
        self.ahead, size = None, min(size, self.status.st_size - offset)
        if size <= 0 or not hasattr(os, "pread"):
            return
        wanted, box = (offset, size, packed), []

        def work():
            try:
                box.append(self.read(*wanted))
            except Exception:
                pass  # get tries again, and tells
        thread = threading.Thread(target=work, name="colab-mcp download", daemon=True)
        self.ahead = thread, wanted, box
        thread.start()

    def prefix(self, size):
        self.file.seek(0)
        return _hash(self.file, size).hexdigest()

    def close(self):
        if self.ahead is not None:
            self.ahead[0].join()  # it reads from the file
        self.file.close()

    discard = close


def _of(id):
    if id not in _transfers:
        raise Refusal("lost", "this kernel knows nothing of the transfer")
    return _transfers[id]


def _end(id):
    transfer = _transfers.pop(id, None)
    if not _transfers:
        keep_history(True)
    return transfer


def _attempt(id, step):
    """A step of a transfer. What fails for good leaves no staging file; a damaged chunk is sent again."""
    transfer = _of(id)
    try:
        return step(transfer)
    except BaseException as err:
        if getattr(err, "code", "") != "damaged":
            _end(id).discard()
        raise


@export
def upload(id, path, name, size, sha256, key, overwrite, executable):
    path = _resolve(path, name)
    status = _status(path)
    if not os.path.isdir(os.path.dirname(path)):
        raise Refusal("no_directory", os.path.dirname(path))
    if status is not None and status.st_size == size:
        with open(path, "rb", buffering=0) as file:
            if _hash(file).hexdigest() == sha256:
                return {"path": path, "identical": True}
    if status is not None and not overwrite:
        raise Refusal("exists", path)
    _end(id)
    transfer = _Upload(path, size, sha256, key, overwrite, executable)
    _transfers[id] = transfer
    keep_history(False)
    return {"path": path, "have": transfer.have, "prefix": transfer.hasher.hexdigest()}


@export
def restart(id):
    _attempt(id, lambda transfer: transfer.restart())


@export
def put(id, offset, size, sha256, packed, data):
    _attempt(id, lambda transfer: transfer.put(offset, size, sha256, packed, data))
    return {"have": _of(id).have}


@export
def finish(id):
    if id in _finished:
        return
    _attempt(id, lambda transfer: transfer.finish())
    _end(id)
    _finished.append(id)


@export
def download(id, path, max_size):
    path = _resolve(path)
    _end(id)
    transfer = _Download(path, max_size)
    _transfers[id] = transfer
    keep_history(False)
    return {
        "path": path,
        "size": transfer.status.st_size,
        "sha256": transfer.sha256,
        "packed": transfer.packs(),
        "executable": stat.S_IMODE(transfer.status.st_mode) & 0o111,
    }


@export
def prefix(id, size):
    """The hash of the first bytes, to tell whether what is already there is of this file."""
    return {"sha256": _attempt(id, lambda transfer: transfer.prefix(size))}


@export
def get(id, offset, size, packed):
    return _attempt(id, lambda transfer: transfer.get(offset, size, packed))


@export
def abort(id):
    """Ends a transfer in whatever state and leaves nothing of it."""
    transfer = _end(id)
    if transfer is not None:
        transfer.discard()
