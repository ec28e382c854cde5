"""What a model may ask of the runtime while it executes, answered on the loop's thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from trilith.core.foreign import named_error, shortened
from trilith.errors import TrilithError, Unsupported
from trilith.runtime.backends.port import ModelControl
from trilith.runtime.backends.python.messages import IsModelReady, LoadModel, Question, Told, UnloadModel

_CONFIG: Final = "config"


class Answering:
    """Answers the questions of one model.

    Args:
        model: its name.
        control: gives the runtime's models; None where a model cannot ask for any.
    """

    def __init__(self, model: str, control: Callable[[], ModelControl] | None) -> None:
        self._model = model
        self._control = control

    async def answer(self, question: Question) -> Told:
        """The answer; what goes wrong is in it. Never raises."""
        try:
            return Told(yes=await self._done(question))
        except TrilithError as error:
            return Told(error=shortened(error.message))
        except Exception as error:  # noqa: BLE001 - loading calls what users wrote
            return Told(error=shortened(named_error(error)))

    async def _done(self, question: Question) -> bool:
        if self._control is None:
            raise Unsupported("there is no runtime here whose models could be asked for")
        control = self._control()
        if isinstance(question, IsModelReady):
            return control.is_ready(question.name, question.version)
        if question.name == self._model:
            raise Unsupported(
                f"model '{self._model}' cannot load or unload itself: that waits until it has ended what it executes"
            )
        if isinstance(question, UnloadModel):
            await control.unload(question.name, dependents=question.dependents)
        elif isinstance(question, LoadModel):
            parameters: dict[str, str | bytes] = dict(question.files)
            if question.config:
                parameters[_CONFIG] = question.config
            await control.load(question.name, parameters)
        return True
