"""What a client sends along when it asks to load a model: another configuration, and files instead of the folder's.

    config                {"max_batch_size": 8}     JSON of a ModelConfig; what it says stands before what the file says
    file:1/model.onnx     <bytes>                   a file of version 1; then the repository's own files do not count

Rule 1: the files are written to a folder of their own, which lasts as long as the model that was loaded from it.
Rule 2: no name leads out of that folder.
Rule 3: what the model's own configuration says beside the fields that were sent stays, in whichever form it is written.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Self

from google.protobuf import json_format, text_format

from trilith.errors import InvalidConfig, InvalidInput, SetupError
from trilith.runtime.batching import check_queue
from trilith.runtime.model_fields import field_that_was_meant
from trilith.runtime.model_pbtxt import parse_model_pbtxt, says_max_batch_size
from trilith.runtime.model_yaml import load_model_yaml
from trilith.runtime.replacing import replaced
from trilith.runtime.repository import SENT, config_file
from trilith.runtime.spec import ModelSpec
from trilith.runtime.words import PBTXT_WORDS, in_words
from trilith.wire.oip_json import loads
from trilith.wire.oip_messages import model_config_messages

CONFIG: Final = "config"
FILE: Final = "file:"
HOLDER_PREFIX: Final = "trilith-model-"
_MOST_FOLDERS: Final = 32
_NAME: Final = re.compile(r"[1-9][0-9]*(/[^/\\\0]+)+")


class Override:
    """A configuration and files that stand before those of the repository. Close it when the model is gone.

    Args:
        name: the model's name.
        config: JSON of a `ModelConfig`.
        files: content by path below the model's folder.
        holder: the folder where they are written already; None when they are not.

    Attributes:
        config: as given.
        holder: the folder that holds the model's with the files; None while they are not written, or there are none.
    """

    def __init__(self, name: str, config: str, files: Mapping[str, bytes], holder: Path | None = None) -> None:
        self._name = name
        self.config = config
        self._files = files
        self.holder = holder

    @classmethod
    def read(cls, name: str, parameters: Mapping[str, str | bytes]) -> Self | None:
        """From the parameters of a load request, checked; None when there are none.

        Raises:
            InvalidInput: a parameter is unknown, of the wrong type, or leads out of the model's folder.
        """
        config: str | None = None
        files: dict[str, bytes] = {}
        for key, value in parameters.items():
            if key == CONFIG:
                if not isinstance(value, str):
                    raise InvalidInput(f"failed to load '{name}', the parameter `config` must be text: a JSON object")
                config = value
            elif key.startswith(FILE):
                path = key.removeprefix(FILE)
                if not _NAME.fullmatch(path) or any(part in (".", "..") for part in path.split("/")):
                    raise InvalidInput(
                        f"failed to load '{name}', the parameter {key[:200]!r} must be file:VERSION/NAME, without path "
                        "traversal characters"
                    )
                if path.count("/") > _MOST_FOLDERS:
                    raise InvalidInput(
                        f"failed to load '{name}', the parameter {key[:200]!r} lies more than {_MOST_FOLDERS}"
                        " folders deep"
                    )
                if not isinstance(value, bytes):
                    raise InvalidInput(f"failed to load '{name}', the parameter {key[:200]!r} must be bytes")
                files[path] = value
            else:
                raise InvalidInput(
                    f"failed to load '{name}', unknown parameter {key[:200]!r}: expected `config` or file:VERSION/NAME"
                )
        if files and config is None:
            raise InvalidInput(f"failed to load '{name}', files are sent, so the parameter `config` must be sent too")
        if config is None:
            return None
        return cls(name, config, files)

    @property
    def brings_files(self) -> bool:
        """Whether files were sent, written or not."""
        return bool(self._files) or self.holder is not None

    @property
    def folder(self) -> Path | None:
        """The model's folder, when files were sent and are written."""
        return None if self.holder is None else self.holder / self._name

    def write(self, parent: Path | None = None) -> None:
        """Writes the files, below `parent` if that is given, and lets them go from memory. Blocks.

        Raises:
            SetupError: they cannot be written.
        """
        if not self._files:
            return
        try:
            if parent is not None:
                parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.holder = Path(tempfile.mkdtemp(prefix=HOLDER_PREFIX, dir=parent))
            for relative, content in self._files.items():
                path = self.holder / self._name / relative
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            self._files = {}  # they may be large, and whoever serves the model keeps this for as long
        except OSError as error:
            self.close()
            raise SetupError(f"failed to load '{self._name}', its files cannot be written: {error}") from error

    def close(self) -> None:
        """Removes the files."""
        holder, self.holder, self._files = self.holder, None, {}
        if holder is not None:
            shutil.rmtree(holder, ignore_errors=True)

    def spec_of(self, folder: Path, config_name: str = "") -> ModelSpec:
        """The specification that is to hold for the model in a folder; `config_name`: see `config_file`.

        Raises:
            InvalidConfig: the JSON is not a `ModelConfig`, or the model's own configuration is wrong.
        """
        return _merged(self._name, self.config, config_file(folder, config_name))


def _merged(name: str, config: str, file: Path | None) -> ModelSpec:
    """Field by field, what the JSON says replaces what the file says."""
    given, fields = _given(config)
    if file is not None and file.suffix != ".pbtxt":
        return _replaced(name, given, fields, file)
    merged: Any = model_config_messages().ModelConfig()
    text = "" if file is None else file.read_text(encoding="utf-8")
    try:
        text_format.Parse(text, merged)
    except text_format.ParseError as error:
        raise SetupError(f"{file}: {error}") from error
    batches = "max_batch_size" in fields or says_max_batch_size(text)
    for field in fields:
        merged.ClearField(field)
    merged.MergeFrom(given)
    return parse_model_pbtxt(_written(merged, batches), name, source=SENT)


def _replaced(name: str, given: Any, fields: set[str], file: Path) -> ModelSpec:
    try:
        own = load_model_yaml(file, name)
    except InvalidConfig as error:
        raise SetupError(error.message) from error  # it is not the client's
    sent = parse_model_pbtxt(_written(given, "max_batch_size" in fields), name, source=SENT)
    sent = replace(sent, queue=replace(sent.queue, batching=given.HasField("dynamic_batching")))
    spec = replaced(own, sent, fields)
    try:
        check_queue(spec)
    except InvalidConfig as error:
        raise InvalidConfig(f"{SENT}: {in_words(error.message, PBTXT_WORDS)}") from error
    return spec


def _given(config: str) -> tuple[Any, set[str]]:
    """What the JSON says, and which fields it has."""
    given: Any = model_config_messages().ModelConfig()
    try:
        said = loads(config.encode())
        if not isinstance(said, dict):
            raise InvalidInput("it is no JSON object")
        twice = [key for key in said if _snake(key) != key and _snake(key) in said]
        if twice:
            raise InvalidInput(f"{twice[0]!r} and {_snake(twice[0])!r} are one field, which stands twice")
        json_format.Parse(config, given)
    except (InvalidInput, json_format.ParseError) as error:
        problem = field_that_was_meant(str(error))
        raise InvalidConfig(f"{SENT}: must be the JSON of a ModelConfig: {problem}") from error
    return given, {_snake(key) for key in said}


def _written(config: Any, says_rows: bool) -> str:
    """The text of a message. protobuf leaves out a 0, and one that is written says that there is no batch dimension."""
    written: str = text_format.MessageToString(config)
    return f"max_batch_size: 0\n{written}" if says_rows and not config.max_batch_size else written


def _snake(key: str) -> str:
    return re.sub(r"([A-Z])", lambda found: f"_{found[1].lower()}", key)
