"""What `self.detector` and `self.model` are inside a service: objects that call what stands behind them.

Rule 1: on an event loop a call returns an awaitable, whatever the method behind it is; in a thread (a synchronous
method) it blocks and returns the result. Of a method that streams it returns an iterator, an asynchronous one on a
loop.
Rule 2: a call with more rows than the model takes in one request is several requests, and their answers are joined.
Rule 3: an error that comes out of a call is marked as that call's (`failure.py` says what for).
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any

from trilith.errors import InvalidInput, NoReadyReplica
from trilith.service.bridge import await_or_block, background, running_loop
from trilith.service.failure import Calling
from trilith.service.model_inputs import are_arrays, as_arrays, dtype_hint
from trilith.service.parts import infer_in_parts, parts_of
from trilith.service.ports import DirectCaller, ModelCaller, ServiceCaller
from trilith.service.streams.bridge import BlockingItems, as_asynchronous, from_loop, put_in

if TYPE_CHECKING:
    from trilith.core.model import ModelSignature
    from trilith.core.tensor import Array, TensorSpec
    from trilith.service.spec import MethodSpec, ServiceSpec


class ServiceProxy:
    """Stands for another service. It has that service's public methods, and nothing else.

    A batched method takes ONE item here and gives its one result.
    """

    def __init__(self, spec: ServiceSpec, caller: ServiceCaller, home: asyncio.AbstractEventLoop | None) -> None:
        self._spec = spec
        self._caller = caller
        self._home = home
        for name, method in spec.methods.items():
            setattr(self, name, self._bind(method))

    def _bind(self, method: MethodSpec) -> Any:
        caller, home, name = self._caller, self._home, method.name
        direct = caller if isinstance(caller, DirectCaller) and not method.asynchronous else None
        where = method.where
        calling = Calling(where)
        signature = method.signature
        if signature.streams:
            return self._bind_stream(method, direct, calling)

        async def send(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            with calling:
                return await caller.call(name, args, kwargs)

        @functools.wraps(method.function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if direct is not None and running_loop() is None:
                with calling:
                    return direct.call_here(name, args, kwargs)
            if signature.taken is not None:
                in_thread = running_loop() is None
                args, kwargs = put_in(
                    signature,
                    args,
                    kwargs,
                    lambda given: calling.given(as_asynchronous(given, in_thread=in_thread)),
                )
            return await_or_block(lambda: send(args, kwargs), home, where)

        return call

    def _bind_stream(self, method: MethodSpec, direct: DirectCaller | None, calling: Calling) -> Any:
        caller, home, name, signature = self._caller, self._home, method.name, method.signature

        async def items(args: tuple[Any, ...], kwargs: dict[str, Any]) -> AsyncIterator[Any]:
            with calling:
                stream = caller.stream(name, args, kwargs)
            try:
                while True:
                    with calling:
                        try:
                            item = await anext(stream)
                        except StopAsyncIteration:
                            return
                    yield item
            finally:
                close = getattr(stream, "aclose", None)
                if close is not None:
                    await close()

        @functools.wraps(method.function)
        def call(*args: Any, **kwargs: Any) -> Any:
            here = running_loop()
            if direct is not None and here is None:
                return direct.call_here(name, args, kwargs)
            args, kwargs = put_in(
                signature, args, kwargs, lambda given: calling.given(as_asynchronous(given, in_thread=here is None))
            )
            if here is not None and (home is None or home is here):
                return items(args, kwargs)
            there = home if home is not None else background.loop()
            if here is None:
                return BlockingItems(lambda: items(args, kwargs), there)
            return from_loop(lambda: items(args, kwargs), there)

        return call

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls a service that is one function, or a class's `__call__`."""
        name = next(iter(self._spec.methods)) if self._spec.is_function else "__call__"
        if name not in self._spec.methods:
            raise TypeError(f"{self._spec.name} is called by a method: {', '.join(self._spec.methods)}")
        return getattr(self, name)(*args, **kwargs) if name != "__call__" else self.__dict__[name](*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        methods = ", ".join(self._spec.methods)
        raise AttributeError(f"service {self._spec.name} has no public method {name!r}; it has {methods}")

    def __repr__(self) -> str:
        return f"<{self._spec.name}: {', '.join(self._spec.methods)}>"


class ModelProxy:
    """Stands for a model that the runtime hosts."""

    def __init__(self, reference: str, caller: ModelCaller, home: asyncio.AbstractEventLoop | None) -> None:
        self.reference = reference
        self._caller = caller
        self._home = home
        self._what = f"model {reference}"
        self._calling = Calling(self._what)
        self._signature: ModelSignature | None = None

    def infer(self, inputs: Mapping[str, Array]) -> Any:
        """Runs the model on arrays by name. More rows than it takes at once are several requests.

        Returns:
            Outputs by name, in the model's order: an awaitable of them on an event loop, the dict itself in a thread.
        """
        return await_or_block(lambda: self._infer(inputs), self._home, self._what)

    def __call__(self, *arrays: Array, **named: Array) -> Any:
        """Runs the model on arrays in the order of its inputs, or by keyword.

        Returns:
            The one output's array, or a tuple of all outputs in the model's order: an awaitable of it on an event loop.

        Raises:
            InvalidInput: there are more arrays than inputs, or one is given twice.
            NoReadyReplica: the model is not loaded.
        """
        return await_or_block(lambda: self._call(arrays, named), self._home, self._what)

    async def _infer(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        signature = self._signature or await self.prepare()
        with self._calling:
            if not are_arrays(inputs):
                inputs = as_arrays(self.reference, signature, inputs)
            parts = parts_of(inputs, signature.max_batch_size)
            try:
                if parts is None:
                    return await self._caller.infer(inputs)
                return await infer_in_parts(self._caller, inputs, parts)
            except InvalidInput as error:
                if hint := dtype_hint(signature, inputs):
                    raise InvalidInput(f"{error.message}; {hint}") from error
                raise

    async def _call(self, arrays: tuple[Array, ...], named: dict[str, Array]) -> Any:
        signature = self._loaded(await self.prepare())
        with self._calling:
            inputs = self._by_name(signature, arrays, named)
        outputs = tuple((await self._infer(inputs)).values())
        return outputs[0] if len(outputs) == 1 else outputs

    def _by_name(
        self, signature: ModelSignature, arrays: tuple[Array, ...], named: dict[str, Array]
    ) -> dict[str, Array]:
        names = [spec.name for spec in signature.inputs]
        if len(arrays) > len(names):
            raise InvalidInput(
                f"model {self.reference} takes {len(names)} arrays ({', '.join(names)}), got {len(arrays)}"
            )
        inputs = dict(zip(names, arrays, strict=False))
        if twice := sorted(inputs.keys() & named.keys()):
            raise InvalidInput(
                f"model {self.reference}: input {twice[0]} is given by position and by name; give it once"
            )
        return inputs | named

    async def prepare(self) -> ModelSignature:
        """Makes the model ready and reads its metadata. A replica does so before it reports ready.

        A model that its node could not load has no outputs. The replica serves what does without it, and it is asked
        for again by the next call: it may have been loaded meanwhile.
        """
        if self._signature is not None:
            return self._signature
        with self._calling:
            signature = await self._caller.signature()
        if signature.outputs:
            self._signature = signature
        return signature

    def _loaded(self, signature: ModelSignature) -> ModelSignature:
        if not signature.outputs:
            raise NoReadyReplica(f"model {self.reference} is not loaded; see the server's log")
        return signature

    def _known(self) -> ModelSignature:
        if self._signature is None:
            # Only outside a replica, which prepares its models first: a unit test may wait for the model to load.
            home = background.loop() if self._home is None else self._home
            if running_loop() is home:
                raise RuntimeError(f"model {self.reference} is not ready: `await self.model.prepare()` first")
            return self._loaded(asyncio.run_coroutine_threadsafe(self.prepare(), home).result())
        return self._signature

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The model's inputs, in its order. Raises NoReadyReplica when it is not loaded, as the two that follow do."""
        return self._known().inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The model's outputs, in its order."""
        return self._known().outputs

    @property
    def metadata(self) -> Mapping[str, str]:
        """The free text that the model's file carries: labels, characters, a vocabulary."""
        return self._known().metadata

    def __repr__(self) -> str:
        return f"<model {self.reference}>"
