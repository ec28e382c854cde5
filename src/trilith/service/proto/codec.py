"""The messages of one method: a request becomes its arguments, a result the answer.

Rule 1: all that depends on signature and descriptor is worked out once, and what does not fit is found then.
Rule 2: what is wrong with a request is an `InvalidInput`; a result that the message cannot hold is a `TypeError`: then
the service is wrong.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from trilith.errors import InvalidInput
from trilith.service.codecs.files import RequestFolder
from trilith.service.codecs.native import Buffer
from trilith.service.codecs.request import Arguments
from trilith.service.codecs.restore import Restore, restorer
from trilith.service.proto.classes import ClassField
from trilith.service.proto.conversion import Conversion, Mismatch, Unlike, Write
from trilith.service.proto.converter import Converter
from trilith.service.proto.plan import Plan
from trilith.service.proto.schema import message_class
from trilith.service.proto.shown import is_deprecated, shown_field
from trilith.service.proto.well_known import is_json
from trilith.service.signature import MethodSignature, ParameterType, is_message, shown_type

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor

_UNWRITTEN: Final = (TypeError, ValueError, AttributeError, OverflowError, OSError, RecursionError, InvalidInput)
_NOT_READ: Final = (ValueError, OverflowError, RecursionError)


class RequestReader:
    """Reads the request messages of one method."""

    def __init__(self, signature: MethodSignature, descriptor: Descriptor, where: str, converter: Converter) -> None:
        """Matches parameters and fields.

        Raises:
            Mismatch: they do not fit.
            InvalidConfig: a parameter is of a type that cannot be read at all.
        """
        self._where = where
        self._name = descriptor.full_name
        self._parse: Callable[[bytes], Any] = message_class(descriptor).FromString
        self._whole: Conversion | None = None
        self._restores: list[tuple[str, Restore]] = []
        self._plan = Plan()
        self._required: list[str] = []
        if signature.taken is not None:
            self._prepare_stream(signature, signature.taken, descriptor, converter)
            return
        if signature.root:
            self._prepare_whole(signature.parameters[0], descriptor, converter)
            return
        declared = [ClassField(p.name, p.name, p.value.annotation, not p.required) for p in signature.parameters]
        converter.fill(self._plan, declared, descriptor, lambda name: f"parameter `{name}` of {where}")
        self._required = [parameter.name for parameter in signature.parameters if parameter.required]
        fields = {one.attribute: descriptor.fields_by_name[one.name] for one in self._plan.fields}
        for parameter in signature.parameters:
            field = fields.get(parameter.name)
            if field is None or not converter.field(parameter.value.annotation, field).sure:
                self._restores.append((parameter.name, restorer(parameter.value, f"{where}: {parameter.name}")))

    def _prepare_stream(
        self, signature: MethodSignature, taken: ParameterType, descriptor: Descriptor, converter: Converter
    ) -> None:
        """Every message is an item; there is none for what the method takes beside them."""
        beside = next((parameter for parameter in signature.parameters if parameter.required), None)
        if beside is not None:
            raise Mismatch(
                f"each message of the stream is an item of `{taken.name}`, so `{beside.name}` of {self._where} needs a"
                " default"
            )
        self._prepare_whole(taken, descriptor, converter)

    def _prepare_whole(self, parameter: ParameterType, descriptor: Descriptor, converter: Converter) -> None:
        annotation, where = parameter.value.annotation, f"parameter `{parameter.name}` of {self._where}"
        if is_message(annotation) and annotation.DESCRIPTOR.full_name == descriptor.full_name:
            self._parse, self._whole = annotation.FromString, Conversion(sure=True)
            return
        self._whole = _message_or_field(annotation, descriptor, where, converter)
        if not self._whole.sure:
            self._restores.append(("", restorer(parameter.value, f"{self._where}: {parameter.name}")))

    def decode(self, body: Buffer, folder: RequestFolder | None) -> Arguments:
        """The arguments in a message.

        Args:
            body: the message as it came.
            folder: where files go.

        Raises:
            InvalidInput: it is no such message, or a value is not what the method's annotations say.
        """
        from google.protobuf.message import DecodeError

        try:
            message = self._parse(body if isinstance(body, bytes) else bytes(body))
        except DecodeError as error:
            raise InvalidInput(f"{self._where}: the message is no {self._name}: {error}") from error
        if not message.IsInitialized():
            missing = ", ".join(message.FindInitializationErrors())
            raise InvalidInput(f"{self._where}: required fields of {self._name} are not set: {missing}")
        try:
            return self._arguments(message, folder)
        except InvalidInput as error:
            raise type(error)(self._placed(error.message)) from error
        except _NOT_READ as error:
            raise InvalidInput(self._placed(f"the message cannot be read: {error}")) from error

    def _placed(self, text: str) -> str:
        return text if text.startswith(self._where) else f"{self._where}: {text}"

    def _arguments(self, message: Any, folder: RequestFolder | None) -> Arguments:
        whole = self._whole
        if whole is not None:
            value = message if whole.read is None else whole.read(message, folder)
            for _, restore in self._restores:
                value = restore(value, folder)
            return Arguments((value,), {})
        values = self._plan.read(message, folder)
        for name, restore in self._restores:
            if name in values:
                values[name] = restore(values[name], folder)
        if len(values) < len(self._plan.fields) + len(self._plan.choices):
            missing = [name for name in self._required if name not in values]
            if missing:
                raise InvalidInput(f"`{missing[0]}` is missing")
        return Arguments((), values)


class ResponseWriter:
    """Writes the answers of one method."""

    def __init__(self, signature: MethodSignature, descriptor: Descriptor, where: str, converter: Converter) -> None:
        """Matches the result and the message.

        Raises:
            Mismatch: they do not fit.
        """
        annotation = signature.result.annotation
        self._made = message_class(descriptor)
        self._where, self._name = where, descriptor.full_name
        self._ready: type | None = annotation if is_message(annotation) else None
        self._write: Write | None = None
        if annotation in (None, type(None)) and not descriptor.fields:
            self._write = lambda value: {}
        elif self._ready is None or annotation.DESCRIPTOR.full_name != descriptor.full_name:
            self._ready = None
            self._write = _message_or_field(annotation, descriptor, f"the result of {where}", converter).write

    def encode(self, value: Any) -> bytes:
        """The message that a result becomes. The caller has seen that it is of the declared type.

        Raises:
            TypeError: it has no form in the message.
        """
        from google.protobuf.message import EncodeError

        try:
            octets: bytes
            if self._ready is not None:
                octets = value.SerializeToString()
                return octets
            written = value if self._write is None else self._write(value)
            message = self._made(**written) if isinstance(written, dict) else written
            octets = message.SerializeToString()
        except (*_UNWRITTEN, EncodeError) as error:
            raise TypeError(f"{self._where} returned what {self._name} cannot hold: {error}") from error
        return octets


def _message_or_field(annotation: Any, descriptor: Descriptor, called: str, converter: Converter) -> Conversion:
    """One value as the whole message, or as the only field that the message has.

    Raises:
        Mismatch: it is neither.
    """
    fields = [field for field in descriptor.fields if not is_deprecated(field)]
    only = fields[0] if len(fields) == 1 else None
    if only is not None and is_json(only):
        with contextlib.suppress(Unlike):  # then it is a message, below
            return _in_field(converter.field(annotation, only), only)
    try:
        return converter.message(annotation, descriptor)
    except (Unlike, Mismatch) as unlike:
        mismatch: Exception = unlike
    if only is not None:
        try:
            return _in_field(converter.field(annotation, only), only)
        except Mismatch:
            raise
        except Unlike as unlike:
            if not isinstance(mismatch, Mismatch):
                why = f"; {unlike}" if str(unlike) else ""
                raise Mismatch(
                    f"the field `{only.name}` of {descriptor.full_name} is {shown_field(only)}, and {called} is"
                    f" {shown_type(annotation)}{why}"
                ) from None
    if isinstance(mismatch, Mismatch):
        raise mismatch
    why = f"; {mismatch}" if str(mismatch) else ""
    names = ", ".join(f"`{field.name}`" for field in fields) or "no field"
    raise Mismatch(
        f"{descriptor.full_name} has {names}, and {called} is {shown_type(annotation)}: a class with such fields was"
        f" expected{why}"
    )


def _in_field(inner: Conversion, field: FieldDescriptor) -> Conversion:
    name, read, write, tells = field.name, inner.read, inner.write, bool(field.has_presence)

    def from_message(message: Any, folder: RequestFolder | None) -> Any:
        if tells and not message.HasField(name):
            return None
        value = getattr(message, name)
        return value if read is None else read(value, folder)

    def to_fields(value: Any) -> dict[str, Any]:
        return {} if value is None else {name: value if write is None else write(value)}

    return Conversion(read=from_message, write=to_fields, sure=inner.sure and not tells)
