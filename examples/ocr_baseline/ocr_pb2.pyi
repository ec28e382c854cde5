from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Page(_message.Message):
    __slots__ = ("image",)
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    image: bytes
    def __init__(self, image: _Optional[bytes] = ...) -> None: ...

class Text(_message.Message):
    __slots__ = ("lines",)
    LINES_FIELD_NUMBER: _ClassVar[int]
    lines: _containers.RepeatedCompositeFieldContainer[Line]
    def __init__(self, lines: _Optional[_Iterable[_Union[Line, _Mapping]]] = ...) -> None: ...

class Line(_message.Message):
    __slots__ = ("text", "score", "box", "row")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    BOX_FIELD_NUMBER: _ClassVar[int]
    ROW_FIELD_NUMBER: _ClassVar[int]
    text: str
    score: float
    box: _containers.RepeatedScalarFieldContainer[float]
    row: int
    def __init__(self, text: _Optional[str] = ..., score: _Optional[float] = ..., box: _Optional[_Iterable[float]] = ..., row: _Optional[int] = ...) -> None: ...
