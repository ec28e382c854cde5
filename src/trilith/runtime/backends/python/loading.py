"""The dialogue in which a process loads a model, from the runtime's side. Blocking: in loading threads.

Rule: the first process completes the configuration; those that come after it are started with what it said, and run the
same warm-up.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from trilith.core.tensor import Array
from trilith.errors import InvalidConfig, SetupError
from trilith.runtime.backends.files import no_model_file
from trilith.runtime.backends.options import Options
from trilith.runtime.backends.port import ModelFile
from trilith.runtime.backends.python.completion import completed_spec, config_json
from trilith.runtime.backends.python.counted import CountedByModels
from trilith.runtime.backends.python.environment import launch_for
from trilith.runtime.backends.python.installing import Installer
from trilith.runtime.backends.python.messages import (
    Begin,
    Completed,
    Counted,
    Declared,
    Initialize,
    Message,
    Question,
    Ready,
    Said,
    Warm,
)
from trilith.runtime.backends.python.packing import RequestHead, encode_requests, pack_inputs
from trilith.runtime.backends.python.process import InstanceProcess
from trilith.runtime.backends.python.supervision import LifeLimits

_LEVELS: Final = {"info": logging.INFO, "warn": logging.WARNING, "error": logging.ERROR, "verbose": logging.DEBUG}


class Loading:
    """How the processes of one instance load its model.

    Args:
        file: the model.
        name: of the instance.
        hear: takes what a process says meanwhile.
        script: the file that serves every model of the backend; None: the model's own.

    Attributes:
        spec: the configuration; completed, once a process has loaded it.
        asks_ready: whether the model has a say in whether it is ready.
        installer: what makes its environment.
    """

    def __init__(self, file: ModelFile, name: str, hear: Callable[[Message], None], script: Path | None = None) -> None:
        self._file = file
        self._script = script
        self._path = script or file.path
        self._name = name
        self._hear = hear
        self.installer = Installer()
        self._samples: list[Warm] = []
        self.spec = file.spec
        self.asks_ready = False

    def prepare(self) -> None:
        """Finds the file and the Python that runs it; makes its environment when it has one.

        Raises:
            SetupError: the environment cannot be made.
            UnknownReference: there is no such file.
        """
        path = self._path
        if path is None or not path.is_file():
            raise no_model_file(self._file.model, path)
        self._launch = launch_for(self._file, path, self._script, self.installer)

    def new_process(
        self,
        on_exit: Callable[[InstanceProcess], None],
        on_question: Callable[[InstanceProcess, Question], None],
        on_readiness: Callable[[InstanceProcess, bool], None],
    ) -> InstanceProcess:
        """A process that is not started. After `prepare`."""
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        return InstanceProcess(self._launch, environment, self._name, on_exit, on_question, on_readiness)

    def load(self, process: InstanceProcess, *, complete: bool) -> None:
        """Starts the process and lets it load and warm up the model; ends it when it cannot.

        Args:
            process: new.
            complete: whether the model is asked to complete its configuration.

        Raises:
            SetupError: the model cannot be loaded; the message has what it raised.
        """
        file = self._file
        try:
            process.start()
            config = config_json(self.spec)
            begin = Begin(
                model=file.model,
                version=str(file.version),
                instance=self._name,
                kind="CPU",
                repository=str(self._folder),
                folder=str(self._version_folder),
                path=str(self._path),
                config=config,
                complete=complete and self.spec.completes,
            )
            answer = process.ask(begin, self._hear)
            if complete and isinstance(answer, Completed):
                self.spec = completed_spec(self.spec, answer.config)
                config = config_json(self.spec)
            ready = process.ask(Initialize(config=config), self._hear)
            self.asks_ready = isinstance(ready, Ready) and ready.asks
            for sample in self._samples:
                process.ask(sample, self._hear)
        except SetupError as error:
            process.fail()
            process.socket.close()
            if isinstance(error, InvalidConfig):
                raise
            raise SetupError(f"model '{file.model}' version {file.version}: {error.message}") from error

    @property
    def _folder(self) -> Path:
        """The model's."""
        if self._file.folder is not None:
            return self._file.folder
        return self._file.path.parent.parent if self._file.path is not None else Path()

    @property
    def _version_folder(self) -> Path:
        if self._script is None and self._file.path is not None:
            return self._file.path.parent
        return self._folder / str(self._file.version)

    def warm(self, process: InstanceProcess, inputs: dict[str, Array], outputs: tuple[str, ...]) -> None:
        """Lets a process that has loaded the model run a request, and each that comes after it too.

        Raises:
            SetupError: it failed.
        """
        datatypes = {tensor.name: tensor.datatype for tensor in self.spec.inputs if tensor.datatype is not None}
        heads, buffers = pack_inputs(self._file.model, inputs, datatypes)
        sample = Warm(meta=encode_requests([RequestHead(heads, outputs)]), buffers=[bytes(part) for part in buffers])
        process.ask(sample, self._hear)
        self._samples.append(sample)


def hear(model: str, counted: CountedByModels, message: Message) -> None:
    """Does what a message of a model's process says: it logs, or counts."""
    if isinstance(message, Said):
        logging.getLogger(f"trilith.model.{model}").log(_LEVELS.get(message.level, logging.INFO), "%s", message.text)
    elif isinstance(message, Declared):
        counted.declare(model, message)
    elif isinstance(message, Counted):
        counted.count(model, message)


def life_limits(file: ModelFile) -> LifeLimits:
    """The limits that a configuration sets: parameters `silent_timeout_ms` and `abandoned_timeout_ms`.

    Raises:
        InvalidConfig: one is no number.
    """
    options, defaults = Options(file), LifeLimits()
    return LifeLimits(
        silent_s=options.number("silent_timeout_ms", defaults.silent_s * 1e3, least=1.0) / 1e3,
        abandoned_s=options.number("abandoned_timeout_ms", defaults.abandoned_s * 1e3, least=1.0) / 1e3,
        start_s=file.spec.load_timeout_s,
    )
