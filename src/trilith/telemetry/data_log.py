"""`trilith.log`: data of requests as JSON lines, for who looks at them later.

Rule 1: a request never waits for it. What is logged is copied and put into a queue, bounded in lines and in bytes,
    which a thread writes; what finds no room there is dropped and counted, and not copied before.
Rule 2: of one request all lines of a name are kept, or none: its id decides.
Rule 3: the room on disk is bounded; the oldest file makes place. A disk that fails fails the log alone.
"""

from __future__ import annotations

import datetime
import logging
import queue
import random
import threading
import time
import uuid
import zlib
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec

from trilith.core.context import current_context
from trilith.core.data_options import FILES, DataLogOptions
from trilith.errors import InvalidConfig
from trilith.telemetry.instruments import Counter, instruments
from trilith.telemetry.logged_values import KeptImage, NoRoom, kept

_log: Final = logging.getLogger("trilith.data")
_MOST_WAITING: Final = 1000
MOST_WAITING_BYTES: Final = 64 << 20
_COMPLAIN_EVERY_S: Final = 60.0
_IMAGES: Final = "images"
_LONGEST_NAME: Final = 200
_WHOLE: Final = 1 << 32

_Record = tuple[float, str, str, str, str, dict[str, Any], int]
"""Time, name, request id, method, who called, values, and about how many bytes they take."""


class DataLog:
    """The data log of one process.

    Args:
        options: what is kept, and where.
        service: whose it is; part of the files' names.
        replica_id: of the process.
    """

    def __init__(self, options: DataLogOptions, *, service: str, replica_id: int) -> None:
        self._options = options
        self._service = service
        self._replica_id = replica_id
        self._queue: queue.Queue[_Record | None] = queue.Queue(_MOST_WAITING)
        self._lock = threading.Lock()
        self._waiting_bytes = 0
        self._files = _Files(Path(options.folder), service, options.max_bytes)
        self._records = instruments.declare(
            Counter, "trilith_data_log_records_total", "Lines that were logged.", ("name",), own=True
        )
        self._dropped = instruments.declare(
            Counter, "trilith_data_log_dropped_total", "Lines that were lost: no room, or no disk.", ("name",), own=True
        )
        self._thread = threading.Thread(target=self._write_all, name="trilith data log", daemon=True)
        self._complained_at = -_COMPLAIN_EVERY_S
        self._thread.start()

    def log(self, name: str, values: dict[str, Any]) -> None:
        """Keeps values. Any thread; never waits."""
        context = current_context.get()
        request_id = context.request_id if context is not None else ""
        if not self._is_kept(name, request_id):
            return
        method = context.timeline.name.removeprefix("service ") if context is not None else ""
        identity = context.identity.name if context is not None and context.identity is not None else ""
        room_bytes = MOST_WAITING_BYTES - self._waiting_bytes
        found: dict[str, Any] = {}
        size_bytes = 0
        try:
            for key, value in values.items():
                found[key], taken = kept(value, images=self._options.images, room_bytes=room_bytes - size_bytes)
                size_bytes += taken
            self._queue.put_nowait((time.time(), name, request_id, method, identity, found, size_bytes))
        except (NoRoom, queue.Full):
            self._dropped.add(name=name)
        except Exception as error:  # noqa: BLE001 - whatever an object does that is looked at, the request goes on
            self._failed(name, error)
        else:
            self._waits(size_bytes)

    def _waits(self, size_bytes: int) -> None:
        with self._lock:
            self._waiting_bytes += size_bytes

    def _is_kept(self, name: str, request_id: str) -> bool:
        part = self._options.part(name)
        if part >= 1:
            return True
        if not request_id:
            return random.random() < part
        return zlib.crc32(request_id.encode(errors="replace")) < part * _WHOLE

    def close(self, timeout_s: float) -> None:
        """Writes what waits, for at most `timeout_s` seconds."""
        try:
            self._queue.put(None, timeout=timeout_s)
        except queue.Full:
            return
        self._thread.join(timeout_s)

    def _write_all(self) -> None:
        while True:
            record = self._queue.get()
            if record is None:
                self._files.close()
                return
            try:
                self._files.write(self._line(record))
                if self._queue.empty():
                    self._files.flush()
            except Exception as error:  # noqa: BLE001 - whatever a disk or an image does, the log goes on
                self._failed(record[1], error)
            else:
                self._records.add(name=record[1])
            finally:
                self._waits(-record[6])
                del record  # a picture must not live as long as this thread waits for the next line

    def _line(self, record: _Record) -> bytes:
        at, name, request_id, method, identity, values, _ = record
        moment = datetime.datetime.fromtimestamp(at, datetime.UTC)
        line = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "name": name,
            "request_id": request_id,
            "service": self._service,
            "method": method,
            "replica": self._replica_id,
            "identity": identity,
            "values": values,
        }
        return msgspec.json.encode(line, enc_hook=self._image)

    def _image(self, value: Any) -> Any:
        if not isinstance(value, KeptImage):
            raise TypeError(f"{type(value).__name__} is no value of a data log")
        return {"image": self._files.save_image(value.image)}

    def _failed(self, name: str, error: Exception) -> None:
        self._dropped.add(name=name)
        now = time.monotonic()
        if now - self._complained_at >= _COMPLAIN_EVERY_S:
            self._complained_at = now
            _log.warning("data that was logged as %r could not be written: %s", name, error)


class _Files:
    """The files of one process, and the bound on those of all processes of its service."""

    def __init__(self, folder: Path, service: str, max_bytes: int) -> None:
        self._folder = folder
        self._service = service
        self._max_bytes = max_bytes
        self._file_bytes = max_bytes // FILES
        self._file: BinaryIO | None = None
        self._written = 0
        self._image_bytes = 0

    def write(self, line: bytes) -> None:
        if self._file is None or self._written + len(line) > self._file_bytes:
            self._next()
        if self._file is not None:
            self._file.write(line + b"\n")
            self._written += len(line) + 1

    def save_image(self, image: Any) -> str:
        """Writes a picture; its path in the folder."""
        ending, form = (
            (".png", "PNG") if image.mode in ("1", "L", "LA", "P", "RGB", "RGBA", "I;16") else (".tiff", "TIFF")
        )
        folder = self._folder / _IMAGES
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self._service}@{uuid.uuid4().hex}{ending}"
        image.save(path, form, **({"compress_level": 1} if form == "PNG" else {}))
        self._image_bytes += path.stat().st_size
        if self._image_bytes > self._file_bytes:
            self._image_bytes = 0
            self._prune()
        return f"{_IMAGES}/{path.name}"

    def flush(self) -> None:
        if self._file is not None:
            self._file.flush()

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _next(self) -> None:
        self.close()
        self._folder.mkdir(parents=True, exist_ok=True)
        self._prune()
        moment = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%S%f")
        self._file = (self._folder / f"{self._service}@{moment}-{uuid.uuid4().hex[:6]}.jsonl").open("ab")
        self._written = 0

    def _prune(self) -> None:
        """Removes the oldest files of the service until there is room for one more. Other processes may do so too."""
        found = []
        for path in (
            *self._folder.glob(f"{self._service}@*.jsonl"),
            *self._folder.glob(f"{_IMAGES}/{self._service}@*"),
        ):
            try:
                status = path.stat()
            except OSError:
                continue
            found.append((status.st_mtime, status.st_size, path))
        room = self._max_bytes - self._file_bytes - sum(size for _, size, _ in found)
        for _, size, path in sorted(found, key=lambda each: each[0]):
            if room >= 0:
                return
            path.unlink(missing_ok=True)
            room += size


class _Current:
    log: DataLog | None = None


def use(data_log: DataLog | None) -> None:
    """What `log` of this process writes to; None: nothing."""
    _Current.log = data_log


def log(name: str, /, **values: Any) -> None:
    """Logs data of a request as one JSON line, where the server was started with `--data-log FOLDER`; else nothing.

    It never waits. Texts, arrays and containers are kept up to a bound; pictures with `--data-log-images`.

    Args:
        name: of what is logged: `--data-log-sample` may say for each which part is kept.
        values: scalars, texts, arrays, dates, lists, dicts, dataclasses, models, pictures.

    Raises:
        InvalidConfig: the name is none.
    """
    given: object = name  # not everybody has a type checker
    if not isinstance(given, str) or not 0 < len(given) <= _LONGEST_NAME:
        raise InvalidConfig(f"trilith.log takes a name, then values by name, got {given!r:.100}")
    current = _Current.log
    if current is not None:
        current.log(name, values)
