"""Binary messages of the Open Inference Protocol, for methods whose parameters are arrays.

Rule 1: a message is one that says so, by the header that tells how long its JSON part is; its answer is one too.
Rule 2: inputs are parameters by name; a parameter that is no array stands among the message's own `parameters`. Outputs
are the parts of the result by name, or the one array of the name `result`.
"""

from __future__ import annotations

from typing import Any, Final

from trilith.core.request import InferResponse
from trilith.errors import InvalidInput
from trilith.service.codecs import tensors, types
from trilith.service.codecs.native import Buffer
from trilith.service.codecs.request import Arguments
from trilith.service.composites import Composite, composite_of
from trilith.service.kinds import Kind
from trilith.service.signature import MethodSignature
from trilith.wire.oip_http import decode_request, encode_response
from trilith.wire.oip_json import loads
from trilith.wire.oip_parameters import InferCall
from trilith.wire.oip_tensor import Signature

RESULT: Final = "result"
"""The name of a result that is one array."""

_NO_ARRAYS: Final = ("BYTES", "BF16")  # numpy has no such dtype


def reads_messages(signature: MethodSignature) -> bool:
    """Whether a method takes and gives arrays, so that such messages can carry them."""
    arrays = [p for p in signature.parameters if p.value.kind is Kind.ARRAY]
    rest = [p for p in signature.parameters if p.value.kind not in (Kind.ARRAY, Kind.JSON)]
    if not arrays or rest or signature.streaming or any(p.value.many for p in arrays):
        return False
    result = signature.result
    if result.kind is Kind.ARRAY:
        return not result.many
    composite = composite_of(result.annotation)
    return composite is not None and all(
        one.kind is Kind.ARRAY and not one.many and not one.optional for one in composite.fields.values()
    )


class InferenceCodec:
    """Reads and writes the messages of one method."""

    def __init__(self, signature: MethodSignature, where: str) -> None:
        self._signature = signature
        self._where = where
        self._parameters = {parameter.name: parameter for parameter in signature.parameters}
        self._composite: Composite | None = composite_of(signature.result.annotation)
        self._wire = Signature(model=where)

    def decode(self, body: Buffer, json_length: str) -> Arguments:
        """The arguments in a message.

        Args:
            body: JSON, and after it the numbers of the tensors.
            json_length: how long the JSON is, as the header has it.

        Raises:
            InvalidInput: it is malformed, an input is unknown or missing, or an array is not as declared.
        """
        whole = body if isinstance(body, bytes) else memoryview(body)
        try:
            call = decode_request(whole, self._wire, json_length=json_length.encode("latin-1", "replace"))
            self._check_datatypes(loads(memoryview(whole)[: int(json_length)]))
        except InvalidInput as error:
            raise InvalidInput(f"{self._where}: {error.message}") from error
        given = dict(call.request.inputs) | dict(call.request.parameters)
        for name in given:
            if name not in self._parameters:
                raise InvalidInput(f"{self._where}: the message has an unknown input `{name}`")
        values = {}
        for name, parameter in self._parameters.items():
            if name in given:
                values[name] = self._value(name, given[name], name in call.request.inputs)
            elif parameter.required:
                raise InvalidInput(f"{self._where}: the message lacks the input `{name}`")
        return Arguments(tuple(values.values()), {}) if self._signature.root else Arguments((), values)

    def _check_datatypes(self, message: Any) -> None:
        for tensor in message["inputs"]:
            if tensor.get("datatype") in _NO_ARRAYS:
                raise InvalidInput(f"input `{tensor['name']}`: {tensor['datatype']} is not read here; send numbers")

    def _value(self, name: str, value: Any, is_input: bool) -> Any:
        one = self._parameters[name].value
        where = f"{self._where}: {name}"
        if is_input != (one.kind is Kind.ARRAY):
            place = "`inputs`" if one.kind is Kind.ARRAY else "`parameters`"
            raise InvalidInput(f"{where}: expected it among the message's {place}")
        if one.kind is Kind.JSON:
            return types.read_value(types.value_validator(types.adapter_of(one.annotation, where)), value, where)
        try:
            return tensors.take(value, one)
        except InvalidInput as error:
            raise InvalidInput(f"{where}: {error.message}") from error

    def encode(self, value: Any) -> tuple[bytes, int]:
        """The answer, and how long its JSON is.

        Args:
            value: a result that was checked.

        Raises:
            ModelError: an array has no datatype of the protocol.
        """
        composite = self._composite
        if composite is None:
            outputs = {RESULT: tensors.as_array(value, self._signature.result)}
        else:
            named = [(name, tensors.as_array(part, one)) for name, one, part in composite.parts(value)]
            outputs = dict(named)
        response = InferResponse(model=self._where, version="", outputs=outputs)
        call = InferCall(request=None, binary_outputs=True)  # type: ignore[arg-type]  # only how to answer is asked
        body, length = encode_response(response, self._wire, call)
        return body, len(body) if length is None else length
