"""Forms and query strings: values that come as text, or as files, each under the name of a parameter.

Rule 1: a field has text alone: `5` may be meant as the text or as the number, and the annotation knows.
Rule 2: a name that no parameter has, or one value too many, is refused, here as in JSON.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from trilith.errors import InvalidInput
from trilith.service.codecs import media
from trilith.service.codecs.charsets import decoded
from trilith.service.codecs.files import RequestFolder
from trilith.service.codecs.multipart import Part
from trilith.service.codecs.native import Buffer
from trilith.service.kinds import Kind
from trilith.service.signature import MethodSignature, ParameterType

if TYPE_CHECKING:
    from trilith.service.codecs.types import Adapter

_MAX_QUERY_FIELDS: Final = 100

ReadPart = Callable[[ParameterType, bytes, str | None, str, RequestFolder | None], Any]
"""A parameter that is no JSON, its content, the client's file name and content type, and the folder for files."""


class FormReader:
    """Reads the forms and query strings of one method."""

    def __init__(self, signature: MethodSignature, where: str, read_part: ReadPart) -> None:
        self._signature = signature
        self._where = where
        self._read_part = read_part
        self._parameters = {parameter.name: parameter for parameter in signature.parameters}
        self._adapters: dict[str, Adapter] = {}

    def read_form(self, parts: list[Part], folder: RequestFolder | None) -> dict[str, Any]:
        """The arguments in a form.

        Raises:
            InvalidInput: a field is unknown, missing, given too often, or not of the declared type.
        """
        grouped: dict[str, list[Part]] = {}
        for part in parts:
            if part.name not in self._parameters:
                raise InvalidInput(f"{self._where}: the form has an unknown field `{part.name}`; {self._expected()}")
            grouped.setdefault(part.name, []).append(part)
        for parameter in self._signature.parameters:
            if parameter.required and parameter.name not in grouped:
                raise InvalidInput(f"{self._where}: the form lacks the required field `{parameter.name}`")
        return {name: self._field(self._parameters[name], found, folder) for name, found in grouped.items()}

    def read_query(self, query: str, body_name: str) -> dict[str, Any]:
        """The arguments in a query string, beside a body that is one parameter's whole value.

        Args:
            query: as it stood in the URL.
            body_name: the parameter that the body stands for; "" when there is no body.

        Raises:
            InvalidInput: a parameter is unknown, given twice, no JSON type, or of another value than declared.
        """
        try:
            pairs = urllib.parse.parse_qsl(
                query, keep_blank_values=True, max_num_fields=_MAX_QUERY_FIELDS, errors="strict"
            )
        except ValueError as error:
            raise InvalidInput(f"{self._where}: the query string could not be read: {error}") from error
        values: dict[str, Any] = {}
        for name, text in pairs:
            parameter = self._parameters.get(name)
            if parameter is None:
                raise InvalidInput(
                    f"{self._where}: the query string has an unknown `{name}`; {self._expected(query=True)}"
                )
            if name in values or name == body_name:
                other = "the body and the query string give" if name == body_name else "the query string twice gives"
                raise InvalidInput(f"{self._where}: {other} `{name}`; expected once")
            if parameter.value.kind is not Kind.JSON:
                raise InvalidInput(f"{self._where}: `{name}` cannot be given in the query string; send it as the body")
            values[name] = self._texts(parameter, [text])
        return values

    def _expected(self, *, query: bool = False) -> str:
        """`query`: of what can stand in a query string."""
        names = [name for name, one in self._parameters.items() if not query or one.value.kind is Kind.JSON]
        return f"expected {', '.join(names) or 'none'}"

    def _field(self, parameter: ParameterType, parts: list[Part], folder: RequestFolder | None) -> Any:
        if parameter.value.kind is Kind.JSON and not (parameter.value.upload and parts[0].filename is not None):
            return self._json(parameter, parts)
        values = [self._read_part(parameter, p.body, p.filename, p.content_type, folder) for p in parts]
        if parameter.value.many:
            return self.checked(parameter, values)
        if len(values) > 1:
            raise InvalidInput(f"{self._where}: the form gives `{parameter.name}` {len(values)} times; expected once")
        return self.checked(parameter, values[0])

    def checked(self, parameter: ParameterType, value: Any) -> Any:
        """A value that is not JSON, with what else `Annotated` asks of it: `Field(max_length=...)`, say.

        Raises:
            InvalidInput: it is not so.
        """
        if not parameter.value.metadata:
            return value
        from trilith.service.codecs import types

        validator = types.value_validator(self._adapter(parameter))
        return types.read_value(validator, value, f"{self._where}: {parameter.name}")

    def read_text(self, parameter: ParameterType, body: Buffer, content_type: str) -> Any:
        """The text that is a whole body.

        Raises:
            InvalidInput: it is none in its charset, or not as declared.
            UnsupportedMediaType: there is no such charset.
        """
        from trilith.service.codecs import types

        where = f"{self._where}: {parameter.name}"
        text = _decoded(bytes(body), media.charset(content_type), where)
        return types.read_json(self._adapter(parameter), msgspec.json.encode(text), where)

    def _json(self, parameter: ParameterType, parts: list[Part]) -> Any:
        where = f"{self._where}: {parameter.name}"
        if len(parts) == 1 and media.is_json(media.media_type(parts[0].content_type)):
            from trilith.service.codecs import types

            return types.read_json(self._adapter(parameter), parts[0].body, where)
        return self._texts(parameter, [_text(part, where) for part in parts])

    def _texts(self, parameter: ParameterType, texts: list[str]) -> Any:
        from trilith.service.codecs import types

        return types.read_texts(self._adapter(parameter), texts, f"{self._where}: {parameter.name}")

    def _adapter(self, parameter: ParameterType) -> Adapter:
        found = self._adapters.get(parameter.name)
        if found is None:
            from trilith.service.codecs import types

            where = f"{self._where}: {parameter.name}"
            found = self._adapters[parameter.name] = types.adapter_of(parameter.value.annotation, where)
        return found


def _text(part: Part, where: str) -> str:
    return _decoded(part.body, media.charset(part.content_type), where)


def _decoded(raw: bytes, charset: str, where: str) -> str:
    try:
        return decoded(raw, charset)
    except InvalidInput as error:
        raise type(error)(f"{where}: {error.message}") from error
