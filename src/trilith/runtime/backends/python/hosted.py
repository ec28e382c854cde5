"""A user's `TritonPythonModel` in its process: imported, completed, initialized, executed, finalized.

Rule: what the model gives is checked here as Triton checks it, with its words; what the answer must be like to fit the
configuration is checked by the runtime.
"""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import itertools
import json
import logging
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from trilith.core.foreign import LONGEST_TEXT, error_text, foreign_text, shortened
from trilith.core.tensor import DATATYPES, NUMPY_OF, Array, DataType
from trilith.errors import ModelError, TrilithError
from trilith.runtime.backends.python import pb_utils
from trilith.runtime.backends.python.messages import Begin
from trilith.runtime.backends.python.packing import AnswerHead, BatchAnswer, RequestHead, pack_inputs
from trilith.runtime.backends.python.pb_utils.errors import WIRE_CODES, TritonModelException
from trilith.runtime.backends.python.pb_utils.place import Place
from trilith.runtime.backends.python.pb_utils.sender import Reply
from trilith.runtime.backends.python.pb_utils.tensor import Tensor
from trilith.runtime.backends.python.returned import checked_responses
from trilith.wire.tensors import Buffer

_CLASS: Final = "TritonPythonModel"
_MODULE: Final = "model"
_PACKAGES: Final = ("/site-packages/", "/dist-packages/")
_BF16: Final = str(DataType.BF16)
_LONGEST_PARAMETERS: Final = 1 << 20
_LONGEST_CONFIG: Final = 16 << 20


class HostedModel:
    """One instance of the model.

    Attributes:
        folder: where the model lies.

    Raises:
        TritonModelException: the file has no such class.
        Exception: whatever importing it raises.
    """

    def __init__(self, begin: Begin) -> None:
        self._begin = begin
        self._model: Any = None
        self.folder = begin.repository
        path = Path(begin.path)
        Place.model_dir = Path(begin.folder)
        sys.path.append(str(path.parent))  # a model may import what lies beside it
        sys.path.append(begin.repository)
        spec = importlib.util.spec_from_file_location(_MODULE, path)
        if spec is None or spec.loader is None:
            raise TritonModelException(f"{path}: is no Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[_MODULE] = module
        spec.loader.exec_module(module)
        found = getattr(module, _CLASS, None)
        if found is None:
            raise TritonModelException(f"{path}: has no class {_CLASS}")
        self._class: Any = found

    def completed_config(self) -> str:
        """The configuration as the model wants it, as JSON; "" when it was not asked or has no say."""
        complete = getattr(self._class, "auto_complete_config", None)
        if not self._begin.complete or complete is None:
            return ""
        config = complete(pb_utils.ModelConfig(json.loads(self._begin.config)))
        if not isinstance(config, pb_utils.ModelConfig):
            raise TritonModelException(
                f"auto_complete_config function in model '{self._begin.model}' must return the ModelConfig that it "
                f"was given, got {type(config).__name__}"
            )
        text = json.dumps(config.as_dict())
        if len(text) > _LONGEST_CONFIG:
            raise TritonModelException(
                f"auto_complete_config function in model '{self._begin.model}' must return at most {_LONGEST_CONFIG} "
                f"characters of configuration, got {len(text)}"
            )
        return text

    def initialize(self, config: str) -> None:
        """Makes the instance; calls `initialize` if there is one."""
        begin = self._begin
        self._model = self._class()
        if not hasattr(self._model, "execute"):
            raise TritonModelException(f"Python model {begin.path} does not implement `execute` method.")
        if hasattr(self._model, "initialize"):
            self._model.initialize(
                {
                    "model_config": config,
                    "model_instance_kind": begin.kind,
                    "model_instance_name": begin.instance,
                    "model_instance_device_id": "0",
                    "model_repository": begin.repository,
                    "model_version": begin.version,
                    "model_name": begin.model,
                }
            )

    def execute(
        self,
        received: Sequence[tuple[RequestHead, dict[str, Array]]],
        is_taken_back: Callable[[int], bool],
        on_late: Callable[[BatchAnswer, list[Buffer]], None],
    ) -> tuple[BatchAnswer, list[Buffer]] | None:
        """Executes a batch.

        Args:
            received: the requests.
            is_taken_back: whether nobody waits for the request of that number any more.
            on_late: called once, from any thread, with the answer when it is complete only after this has returned
                None, because the model sends responses by itself.

        Raises:
            Exception: whatever the model raises, or that it returned something else than the responses.
        """
        requests = [
            pb_utils.InferenceRequest.received(
                head,
                [
                    Tensor(name, array, DataType.BF16 if word == _BF16 else DATATYPES[word])
                    for (name, word, _), array in zip(head.tensors, inputs.values(), strict=True)
                ],
                lambda at=at: is_taken_back(at),  # type: ignore[misc]  # each its own number
            )
            for at, (head, inputs) in enumerate(received)
        ]
        returned = self._model.execute(requests)
        if inspect.iscoroutine(returned):
            returned = asyncio.run(returned)
        responses = checked_responses(returned, requests)
        asked = [
            _Asked(request.requested_output_names(), response, None if response is not None else request.reply)
            for request, response in zip(requests, responses, strict=True)
        ]
        replies = [each.reply for each in asked if each.reply is not None]
        if all(reply.response is not None for reply in replies):
            return self._answers(asked)

        # The requests are not known here from now on: only the model can keep what it may answer by.
        def answer_late() -> None:
            try:
                answer, buffers = self._answers(asked)
            except BaseException as error:  # noqa: BLE001 - a model's objects are the user's code
                answer, buffers = BatchAnswer([], described(error, self.folder)), []
            on_late(answer, buffers)

        missing = _Countdown(len(replies), answer_late)
        for reply in replies:
            reply.when_ended(missing.one_less)
        return None

    def _answers(self, asked: Sequence[_Asked]) -> tuple[BatchAnswer, list[Buffer]]:
        answers: list[AnswerHead] = []
        buffers: list[Buffer] = []
        for each in asked:
            response = each.returned if each.reply is None else each.reply.response
            head, parts = self._lost() if response is None else self._checked_answer(each.wanted, response)
            answers.append(head)
            buffers += parts
        return BatchAnswer(answers), buffers

    @property
    def asks_ready(self) -> bool:
        """Whether the model has a say in whether it is ready."""
        return hasattr(self._model, "is_ready")

    def says_ready(self) -> bool:
        """What the model's `is_ready` says; False when it raises, which is printed."""
        try:
            found = self._model.is_ready()
            return bool(asyncio.run(found) if inspect.iscoroutine(found) else found)
        except BaseException:  # noqa: BLE001 - a model is the user's code
            traceback.print_exc()
            return False

    def finalize(self) -> None:
        """Calls `finalize` if there is one; what it raises is logged."""
        if hasattr(self._model, "finalize"):
            try:
                self._model.finalize()
            except BaseException:
                where = f"model '{self._begin.model}': instance {self._begin.instance}"
                logging.getLogger("trilith.runtime").exception("%s: `finalize` raised", where)

    def _lost(self) -> tuple[AnswerHead, list[Buffer]]:
        return _refused(
            f"model '{self._begin.model}': expected a response by the sender that it asked for, got none: it has let "
            "go of the request and of its sender (a thread that raised, perhaps; the log has that)"
        )

    def _checked_answer(
        self, wanted: Sequence[str], response: pb_utils.InferenceResponse
    ) -> tuple[AnswerHead, list[Buffer]]:
        """The answer to one request. Whatever is odd about it is that request's error alone."""
        try:
            return self._answer(wanted, response)
        except BaseException as error:  # noqa: BLE001 - a response holds the user's objects, and may be one
            return _refused(
                f"model '{self._begin.model}': expected a response of tensors and parameters, got one of which "
                f"reading raised {described(error, self.folder)}"
            )

    def _answer(self, wanted: Sequence[str], response: pb_utils.InferenceResponse) -> tuple[AnswerHead, list[Buffer]]:
        error = response.error()
        if error is not None:
            return AnswerHead(code=WIRE_CODES[error.code()], message=shortened(error.message())), []
        given = {tensor.name(): tensor for tensor in response.output_tensors()}
        missing = [name for name in wanted if name not in given]
        if missing:
            return _refused(
                f"model '{self._begin.model}': expected the outputs {list(wanted)}, got {list(given)}: its response "
                f"lacks '{missing[0]}'"
            )
        parameters = response.parameter_values
        size = sum(len(key) + len(value) for key, value in parameters.items() if isinstance(value, str))
        if size > _LONGEST_PARAMETERS:
            return _refused(
                f"model '{self._begin.model}': expected at most {_LONGEST_PARAMETERS} characters in the parameters of "
                f"a response, got {size}; return large values as outputs"
            )
        chosen = {name: given[name] for name in wanted}
        arrays = {name: _sendable(tensor) for name, tensor in chosen.items()}
        try:
            heads, buffers = pack_inputs(
                self._begin.model, arrays, {name: tensor.datatype for name, tensor in chosen.items()}
            )
        except TrilithError as problem:
            return _refused(problem.message)
        return AnswerHead(heads, parameters), buffers


class _Asked(NamedTuple):
    """What is known of a request while it is answered."""

    wanted: Sequence[str]
    returned: pb_utils.InferenceResponse | None
    reply: Reply | None


class _Countdown:
    """Calls back when so many threads have said that they are done."""

    def __init__(self, count: int, on_zero: Callable[[], None]) -> None:
        self._count = count
        self._on_zero = on_zero
        self._said = itertools.count(1)

    def one_less(self) -> None:
        # A step of `count` is whole: the collector may call this amid another call of it, where a lock would hang.
        if next(self._said) == self._count:
            self._on_zero()


def described(error: BaseException, folder: str = "") -> str:
    """An exception as Triton writes it, at most some thousands of characters.

    `<Type>: <text>`, an empty line, `At:`, and one line for each place, `file(line): function`.

    Args:
        error: the exception.
        folder: of the model. Any client may read this: of what lies there the part from its name on is told, of other
            modules their own part. "": whole paths.
    """
    text = shortened(f"{type(error).__name__}: {error_text(error)}")
    own = str(Path(__file__).parent)
    places = [
        f"  {_shown(frame.filename, folder)}({frame.lineno}): {frame.name}"
        for frame in reversed(traceback.extract_tb(error.__traceback__))
        if not frame.filename.startswith((own, "<frozen"))
    ]
    return shortened(f"{text}\n\nAt:\n" + "\n".join(places), 2 * LONGEST_TEXT) if places else text


def _shown(filename: str, folder: str) -> str:
    if not folder:
        return filename
    path = Path(filename)
    if path.is_relative_to(folder):
        return str(Path(Path(folder).name) / path.relative_to(folder))
    place = next((place for place in _PACKAGES if place in filename), "/")
    return filename.rpartition(place)[2]


def _sendable(tensor: Tensor) -> Array:
    """The values as they travel: elements of BYTES that are neither bytes nor text become text, as in Triton."""
    array = tensor.array
    if tensor.datatype is DataType.BYTES and array.dtype.kind == "O":
        if all(isinstance(element, bytes | str) for element in array.flat):
            return array
        texts = np.empty(array.size, np.object_)
        texts[:] = [element if isinstance(element, bytes) else str(element) for element in array.flat]
        return texts.reshape(array.shape)
    wanted = NUMPY_OF[tensor.datatype]
    return array if array.dtype == wanted or tensor.datatype is DataType.BYTES else array.astype(wanted)


def _refused(message: str) -> tuple[AnswerHead, list[Buffer]]:
    return AnswerHead(code=ModelError.code, message=shortened(foreign_text(message))), []
