"""`trilith.mount`: an application that answers HTTP by itself becomes part of a service class.

    class Shop:
        admin = trilith.mount("/admin", app)              an ASGI or WSGI application, or "module:name" of one

        @trilith.mount("/ui")                             a method that makes one of its instance
        def ui(self) -> FastAPI: ...

Rule: what stands there stays what it is: `Shop().admin` is the application, `Shop().ui()` makes one.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar, overload

from trilith.errors import InvalidConfig
from trilith.service.names import is_own_path
from trilith.service.options import check_timeout, is_text

MOUNT_ATTRIBUTE: Final = "__trilith_mount__"
_PATH: Final = re.compile(r"/|(?:/[A-Za-z0-9_.~-]+)+")
_NAME: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")

Factory = TypeVar("Factory", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class MountOptions:
    """What `trilith.mount(...)` takes beside the application.

    Attributes:
        path: below which it answers: "/ui" is `/ui` and everything under `/ui/`; "/" is what is nobody else's.
        timeout_s: seconds to the beginning of an answer, once the body that it waits for has come; None for the
            service's. An answer that has begun may last.
    """

    path: str
    timeout_s: float | None = None

    def __post_init__(self) -> None:
        if not is_text(self.path, _PATH):
            raise InvalidConfig(
                f"mount: path must be '/', or segments of letters, digits, '_', '.', '~' and '-', each behind a '/'"
                f" ('/ui', '/v1/admin'), got {self.path!r}"
            )
        if any(part in (".", "..") for part in self.path.split("/")):
            raise InvalidConfig(f"mount: path must have no '.' and '..' segments, got {self.path!r}")
        if is_own_path(self.path):
            raise InvalidConfig(f"mount: the path {self.path} belongs to the server itself; mount it elsewhere")
        if self.timeout_s is not None:
            check_timeout("mount: timeout_s", self.timeout_s)


class Mount:
    """A class attribute that is an application of its service. Made by `trilith.mount`."""

    def __init__(self, options: MountOptions, app: object) -> None:
        self.options = options
        self.app = app

    def __get__(self, instance: object | None, owner: type | None = None) -> Any:
        if instance is None:
            return self
        if isinstance(self.app, str):
            from trilith.service.mounts.finding import named

            return named(self.app, self.options.path)
        return self.app

    def __repr__(self) -> str:
        return f"<mount of {self.app!r:.80} at {self.options.path}>"


@overload
def mount(path: str, /, *, timeout_s: float | None = None) -> Callable[[Factory], Factory]: ...
@overload
def mount(path: str, app: Callable[..., Any] | str, /, *, timeout_s: float | None = None) -> Any: ...
def mount(path: str, app: object = None, /, *, timeout_s: float | None = None) -> Any:
    """Mounts an ASGI or WSGI application below a path of a service: FastAPI, Starlette, Flask, Django, Gradio.

    Args:
        path, timeout_s: see `MountOptions`.
        app: the application; the name of one, "module:name", which is loaded when a replica starts; or a function that
            makes one and gets the instance of the service. Without it this decorates a method that makes one.

    Raises:
        InvalidConfig: the path or the time limit is none, or what is given is no application.
    """
    options = MountOptions(path=path, timeout_s=timeout_s)
    if app is None:
        return lambda factory: _declared(factory, options)
    if isinstance(app, str):
        if not _NAME.fullmatch(app):
            raise InvalidConfig(f"mount: the name of an application is 'module:name', got {app!r}")
    elif not callable(app) or isinstance(app, type):
        raise InvalidConfig(
            f"mount: expected an ASGI or WSGI application, 'module:name' or a function that makes one, got {app!r:.100}"
        )
    return Mount(options, app)


def _declared(factory: Factory, options: MountOptions) -> Factory:
    if not inspect.isfunction(factory):
        raise InvalidConfig(f"@trilith.mount({options.path!r}) stands on a method of a class, got {factory!r:.100}")
    if hasattr(factory, MOUNT_ATTRIBUTE):
        raise InvalidConfig(f"{factory.__qualname__} is declared with @trilith.mount twice; leave one out")
    setattr(factory, MOUNT_ATTRIBUTE, options)
    return factory
