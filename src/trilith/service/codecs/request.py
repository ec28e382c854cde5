"""The body of a call becomes the arguments of a method.

Rule 1: all that depends on the signature is worked out once; a request only looks at its content type.
Rule 2: every format is read as strictly as every other, and a wrong value is an `InvalidInput` with its path.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from trilith.errors import InvalidInput, PayloadTooLarge, UnsupportedMediaType
from trilith.service.codecs import media, native
from trilith.service.codecs.charsets import is_utf8
from trilith.service.codecs.checks import wrong_parts
from trilith.service.codecs.files import RequestFolder
from trilith.service.codecs.native import Buffer
from trilith.service.codecs.restore import Restore, restorer
from trilith.service.codecs.unfolded import one_call
from trilith.service.codecs.wording import no_json, of_msgspec
from trilith.service.constraints import ContentType
from trilith.service.kinds import Kind, shown_type
from trilith.service.signature import MethodSignature, ParameterType
from trilith.wire.calls import NATIVE_CONTENT_TYPE

if TYPE_CHECKING:
    from trilith.service.codecs.forms import FormReader
    from trilith.service.codecs.multipart import Part
    from trilith.service.codecs.types import Adapter

_EXPLAINED_BYTES: Final = 64 * 1024  # a larger body is not read again to say more of what is wrong in it
_NO_KEYWORDS: Final[dict[str, Any]] = {}
_SIMPLE_DEFAULTS: Final = (type(None), bool, int, float, str)


class Arguments(msgspec.Struct, frozen=True, eq=False):
    """What a method is called with."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class RequestDecoder:
    """Reads the bodies of one method.

    Attributes:
        files: whether there are uploads that become files.
    """

    def __init__(self, signature: MethodSignature, where: str) -> None:
        self._signature = signature
        self._where = where
        self._parameters = {parameter.name: parameter for parameter in signature.parameters}
        self._plain = _plain_decoder(signature)
        self._by_name = signature.taken is not None or any(p.keyword_only for p in signature.parameters)
        self._json: Adapter | None = None
        self._restorers: dict[str, Restore] = {}
        self._form: FormReader | None = None
        self._unfolds = any(p.value.kind in (Kind.IMAGE, Kind.FRAME) for p in signature.parameters)
        values = [one for p in signature.parameters for one in (p.value, p.value.upload) if one is not None]
        self.files = any(value.kind is Kind.FILE for value in values)

    @property
    def accepts(self) -> list[str]:
        """The content types that are read, the first preferred."""
        return accepted_types(self._signature)

    @property
    def unfolds(self) -> bool:
        """Whether a small body may become a large value: pictures and frames are compressed."""
        return self._unfolds

    def heavy(self, content_type: str) -> bool:
        """Whether reading a large body of that type is better done off the event loop."""
        kinds = {parameter.value.kind for parameter in self._signature.parameters}
        if kinds & {Kind.IMAGE, Kind.FILE}:
            return True
        # Arrays and bytes that come as such are used where they lie; only text must be read, and frames.
        as_such = content_type in (NATIVE_CONTENT_TYPE, media.NPY, media.BINARY) and Kind.FRAME not in kinds
        return bool(kinds - {Kind.JSON}) and not as_such

    @property
    def plain(self) -> bool:
        """Whether `decode_plain` reads a JSON body."""
        return self._plain is not None

    def prepare(self) -> None:
        """Builds all validators now.

        Raises:
            InvalidConfig: a type cannot be read from the wire.
        """
        if self._plain is None:
            self._json_adapter()
        for parameter in self._signature.parameters:
            self._restore(parameter)

    def decode(
        self, content_type: str, buffers: Sequence[Buffer], *, folder: RequestFolder | None = None, query: str = ""
    ) -> Arguments:
        """The arguments of a call.

        Args:
            content_type: of the body, parameters included.
            buffers: the body; of a native call its header and buffers.
            folder: where uploads go, where the method has such (`files`); the caller removes it, also after an error.
            query: the query string, which may give what a raw body or none does not.

        Raises:
            InvalidInput: the body is not what the signature says.
            UnsupportedMediaType: the content type is not one that this method reads.
            PayloadTooLarge: pictures and frames would become more than may be.
        """
        if content_type == media.JSON and self._plain is not None and not query:
            return self.decode_plain(buffers[0])
        with one_call():
            if content_type == NATIVE_CONTENT_TYPE:
                return self._decode_native(buffers, folder)
            return self._decode_media(content_type, buffers[0] if buffers else b"", folder, query)

    def decode_query(self, query: str) -> Arguments:
        """The arguments in a query string alone.

        Raises:
            InvalidInput: it is not what the signature says.
        """
        values = self._form_reader().read_query(query, "") if query else {}
        for parameter in self._signature.parameters:
            if parameter.required and parameter.name not in values:
                raise InvalidInput(f"{self._where}: neither a body nor the query string gives `{parameter.name}`")
        return self._named(values)

    def decode_plain(self, body: Buffer) -> Arguments:
        """The arguments in a JSON body, where `plain`.

        Raises:
            InvalidInput: the body is not what the signature says.
        """
        try:
            value = self._plain(body)  # type: ignore[misc]  # the caller saw that it is there
        except msgspec.ValidationError as error:
            raise InvalidInput(f"{self._where}: {self._problems(body, of_msgspec(error))}") from error
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            if not body:
                return self._without_body()
            raise InvalidInput(f"{self._where}: the body is not JSON: {no_json(error, body)}") from error
        if self._by_name:
            return Arguments((), msgspec.structs.asdict(value))
        return Arguments((value,) if self._signature.root else msgspec.structs.astuple(value), _NO_KEYWORDS)

    def _problems(self, body: Buffer, first: str) -> str:
        """All that is wrong in a JSON body, where the decoder says what it met first."""
        if self._signature.root or len(body) > _EXPLAINED_BYTES:
            return first
        try:
            found = wrong_parts(self._signature, msgspec.json.decode(body))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # behind what the decoder met first
            return first
        return "; ".join(found) if len(found) > 1 else first

    def _without_body(self) -> Arguments:
        if not any(parameter.required for parameter in self._signature.parameters):
            return Arguments((), {})
        if self._signature.root:
            wanted = shown_type(self._signature.parameters[0].value.annotation)
        else:
            wanted = f"an object with {', '.join(p.name for p in self._signature.parameters)}"
        raise InvalidInput(f"{self._where}: the body is empty; expected {wanted}")

    def _decode_media(self, content_type: str, body: Buffer, folder: RequestFolder | None, query: str) -> Arguments:
        kind = media.media_type(content_type)
        if query:
            return self._decode_beside_query(kind, content_type, body, folder, query)
        if not body and not any(parameter.required for parameter in self._signature.parameters):
            return Arguments((), {})
        if media.is_json(kind) or (not kind and self._signature.raw_parameter is None):
            self._check_charset(content_type)
            if not body:
                return self._without_body()
            return self.decode_plain(body) if self._plain is not None else self._decode_json(body)
        if kind == media.FORM:
            return self._named(self._form_reader().read_form(self._parts(content_type, body), folder))
        whole = whole_parameter(self._signature, kind)
        if whole is None:
            raise UnsupportedMediaType(self._refusal(kind))
        if whole.value.kind is Kind.JSON:
            return self._named({whole.name: self._form_reader().read_text(whole, body, content_type)})
        value = self._part(whole, body, None, content_type, folder)
        return self._named({whole.name: self._form_reader().checked(whole, value)})

    def _check_charset(self, content_type: str) -> None:
        charset = media.charset(content_type)
        if not is_utf8(charset):
            raise UnsupportedMediaType(f"{self._where}: JSON is UTF-8; got the charset {charset[:50]}")

    def _refusal(self, kind: str) -> str:
        message = f"{self._where} reads {', '.join(self.accepts)}; got {kind or 'no Content-Type'}"
        if kind == media.URLENCODED:
            message += " (curl sends that by default: add -H 'Content-Type: application/json')"
        return message

    def _decode_beside_query(
        self, kind: str, content_type: str, body: Buffer, folder: RequestFolder | None, query: str
    ) -> Arguments:
        """The arguments in a raw body and in the query string, or in the latter alone."""
        if not body:
            return self.decode_query(query)
        if media.is_json(kind) or kind == media.FORM:
            raise InvalidInput(
                f"{self._where}: the query string `{query[:100]}` is not read beside {kind}; use the body"
            )
        whole = whole_parameter(self._signature, kind)
        if whole is None:
            raise UnsupportedMediaType(self._refusal(kind))
        values = self._form_reader().read_query(query, whole.name)
        arguments = self._decode_media(content_type, body, folder, "")
        return Arguments(arguments.args, arguments.kwargs | values)

    def _parts(self, content_type: str, body: Buffer) -> list[Part]:
        from trilith.service.codecs.multipart import parse_form

        try:
            return parse_form(content_type, body)
        except (InvalidInput, PayloadTooLarge) as error:
            raise type(error)(f"{self._where}: {error.message}") from error

    def _form_reader(self) -> FormReader:
        if self._form is None:
            from trilith.service.codecs.forms import FormReader

            self._form = FormReader(self._signature, self._where, self._part)
        return self._form

    def _named(self, values: dict[str, Any]) -> Arguments:
        if self._signature.root:
            return Arguments(tuple(values.values()), {})
        return Arguments((), values)

    def _json_adapter(self) -> Adapter:
        if self._json is None:
            from trilith.service.codecs import types

            if self._signature.root:
                self._json = types.adapter_of(self._signature.parameters[0].value.annotation, self._where)
            else:
                self._json = types.body_adapter(self._signature, self._where)
        return self._json

    def _decode_json(self, body: Buffer) -> Arguments:
        from trilith.service.codecs import types

        value = types.read_json(self._json_adapter(), bytes(body), self._where)
        return Arguments((value,), {}) if self._signature.root else Arguments((), value)

    def _part(
        self,
        parameter: ParameterType,
        body: Buffer,
        filename: str | None,
        content_type: str,
        folder: RequestFolder | None,
    ) -> Any:
        """The value of a parameter that is not JSON, from a body or a part of a form."""
        from trilith.service.codecs.parts import read_part

        value_type = parameter.value.upload or parameter.value
        try:
            value = read_part(value_type, body, filename=filename, content_type=content_type, folder=folder)
        except (InvalidInput, PayloadTooLarge) as error:
            raise type(error)(f"{self._where}: {parameter.name}: {error.message}") from error
        return value

    def _restore(self, parameter: ParameterType) -> Restore:
        found = self._restorers.get(parameter.name)
        if found is None:
            where = f"{self._where}: {parameter.name}"
            found = self._restorers[parameter.name] = restorer(parameter.value, where)
        return found

    def _decode_native(self, buffers: Sequence[Buffer], folder: RequestFolder | None) -> Arguments:
        given, named = native.unpack_call(buffers)
        positional = [parameter for parameter in self._signature.parameters if not parameter.keyword_only]
        if len(given) > len(positional):
            raise InvalidInput(f"{self._where} takes {len(positional)} positional arguments, got {len(given)}")
        taken = {parameter.name for parameter in positional[: len(given)]}
        for name in named:
            if name in taken or name not in self._parameters:
                problem = "is given twice" if name in taken else "is not known"
                raise InvalidInput(f"{self._where}: argument {name!r} {problem}")
        for parameter in self._signature.parameters:
            if parameter.required and parameter.name not in taken and parameter.name not in named:
                raise InvalidInput(f"{self._where}: argument {parameter.name!r} is missing")
        args = tuple(self._restore(p)(value, folder) for p, value in zip(positional, given, strict=False))
        kwargs = {name: self._restore(self._parameters[name])(value, folder) for name, value in named.items()}
        return Arguments(args, kwargs)


def accepted_types(signature: MethodSignature) -> list[str]:
    """The content types that a method reads, the preferred one first."""
    raw = signature.raw_parameter
    found: list[str] = []
    kinds = {parameter.value.kind for parameter in signature.parameters}
    if raw is not None:
        found += _raw_types(raw)
    if Kind.FILE not in {parameter.value.kind for parameter in signature.parameters if parameter.required}:
        found.append(media.JSON)
    if signature.npy_parameter is not None:
        found.append(media.NPY)
    if signature.frame_parameter is not None:
        found += [media.CSV, media.PARQUET, media.ARROW]
    if signature.text_parameter is not None:
        found.append(media.TEXT)
    if kinds - {Kind.JSON} or any(parameter.value.upload for parameter in signature.parameters):
        found.append(media.FORM)
    return found


def _raw_types(raw: ParameterType) -> tuple[str, ...]:
    if isinstance(raw.value.constraint, ContentType):
        return raw.value.constraint.patterns
    return ("image/*",) if raw.value.kind is Kind.IMAGE else (media.BINARY,)


def whole_parameter(signature: MethodSignature, kind: str) -> ParameterType | None:
    """The parameter that a body of the media type `kind` stands for; None when the method reads no such body."""
    if kind == media.NPY and (array := signature.npy_parameter) is not None:
        return array
    if kind == media.TEXT and (text := signature.text_parameter) is not None:
        return text
    if kind in media.FRAMES and (frame := signature.frame_parameter) is not None:
        return frame
    raw = signature.raw_parameter
    return raw if raw is not None and _reads_raw(raw, kind) else None


def _reads_raw(parameter: ParameterType, kind: str) -> bool:
    if parameter.value.kind is Kind.IMAGE:
        # `curl --data-binary @page.png` says that it sends a form.
        return not kind or kind.startswith("image/") or kind in (media.BINARY, media.URLENCODED)
    return True


def _plain_decoder(signature: MethodSignature) -> Callable[[Buffer], Any] | None:
    """A decoder of msgspec's, or None when a type or default is not one of JSON's own.

    It gives the one argument where the body is that (`root`), else a Struct of all in the order of the parameters.
    """
    if not signature.parameters or not all(parameter.value.plain for parameter in signature.parameters):
        return None
    try:
        if signature.root:
            return msgspec.json.Decoder(signature.parameters[0].value.annotation).decode
        fields: list[Any] = []
        for parameter in signature.parameters:
            if parameter.required:
                fields.append((parameter.name, parameter.value.annotation))
            elif isinstance(parameter.default, _SIMPLE_DEFAULTS):
                fields.append((parameter.name, parameter.value.annotation, parameter.default))
            else:
                return None
        body_type = msgspec.defstruct("Body", fields, forbid_unknown_fields=True, kw_only=True)
        return msgspec.json.Decoder(body_type).decode
    except TypeError:
        return None  # msgspec cannot tell the members of such a union apart; pydantic can
