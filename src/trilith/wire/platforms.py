"""The paths by which clouds call a model server that they host: Amazon SageMaker's and Google Vertex AI's.

Rule 1: such a path is another name of one of the protocol's own, as Triton has it; everything else is the protocol's.
    The paths by which SageMaker hosts many models have names of ours, below `HOSTED`, which count as the repository's.
Rule 2: what says how long the JSON is in a binary message is part of the content type, since these clouds pass on no
    other header.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import quote

import msgspec

from trilith.errors import InvalidConfig, InvalidInput, NotFound

_READY: Final = "/v2/health/ready"
_LIVE: Final = "/v2/health/live"
HOSTED: Final = "/v2/hosted"
"""Where models are hosted that a cloud loads one by one; see `protocol/hosted.py`."""
_MOST_LISTED: Final = 5
_MOST_DIGITS: Final = 18
_PATH: Final = re.compile(r"/[!-~]*")


class PlatformRoutes(msgspec.Struct, frozen=True, kw_only=True):
    """How one cloud calls.

    Attributes:
        name: the option that asks for it, for messages.
        health_path: what asks whether the server takes requests.
        health: the protocol's own path for it.
        predict_path: what asks the model.
        model: the model that is asked; "" for the only one.
        binary_form: content type of binary messages, up to the number.
        redirect_header: in lower case: names another of the protocol's paths for a request to `predict_path`; "" for
            none.
        models_path: what loads, lists and unloads models, and calls one: `PATH/NAME/invoke`; "" for nothing.
    """

    name: str
    health_path: str
    health: str = _READY
    predict_path: str
    model: str = ""
    binary_form: str
    redirect_header: str = ""
    models_path: str = ""


def sagemaker_routes(environment: Mapping[str, str], http_port: int) -> PlatformRoutes:
    """SageMaker's, with what its containers are told by `environment`.

    Raises:
        InvalidConfig: it asks for what is not served, or calls another port.
    """
    option = "--allow-sagemaker"
    mode = environment.get("SAGEMAKER_TRITON_PING_MODE", "ready")
    if mode not in ("ready", "live"):
        raise InvalidConfig(f"{option}: SAGEMAKER_TRITON_PING_MODE: must be ready or live, got {mode!r:.100}")
    _check_port(option, environment, "SAGEMAKER_BIND_TO_PORT", http_port)
    return PlatformRoutes(
        name=option,
        health_path="/ping",
        health=_LIVE if mode == "live" else _READY,
        predict_path="/invocations",
        model=environment.get("SAGEMAKER_TRITON_DEFAULT_MODEL_NAME", ""),
        binary_form="application/vnd.sagemaker-triton.binary+json;json-header-size=",
        models_path="/models" if environment.get("SAGEMAKER_MULTI_MODEL", "").lower() == "true" else "",
    )


def vertex_routes(environment: Mapping[str, str], http_port: int, model: str = "") -> PlatformRoutes:
    """Vertex AI's; `environment` says its paths.

    Raises:
        InvalidConfig: it does not, or calls another port.
    """
    option = "--allow-vertex-ai"
    paths = {name: environment.get(name, "") for name in ("AIP_HEALTH_ROUTE", "AIP_PREDICT_ROUTE")}
    for name, path in paths.items():
        if _PATH.fullmatch(path) is None or path.startswith("/v2/"):
            raise InvalidConfig(
                f"{option}: the environment variable {name} must be a path that is not below /v2, as Vertex AI sets it "
                f"in containers, got {path!r:.100}"
            )
    health, predict = paths.values()
    if health == predict:
        raise InvalidConfig(f"{option}: AIP_HEALTH_ROUTE and AIP_PREDICT_ROUTE must differ, got {health!r:.100}")
    _check_port(option, environment, "AIP_HTTP_PORT", http_port)
    return PlatformRoutes(
        name=option,
        health_path=health,
        predict_path=predict,
        model=model,
        binary_form="application/vnd.vertex-ai-triton.binary+json;json-header-size=",
        redirect_header="x-vertex-ai-triton-redirect",
    )


def check_apart(platforms: Sequence[PlatformRoutes]) -> None:
    """Sees that no two ask by the same path.

    Raises:
        InvalidConfig: two do.
    """
    asked = [(each.health_path, each.predict_path, each.models_path) for each in platforms]
    paths = [path for each in asked for path in each if path]
    for path in paths:
        if paths.count(path) > 1:
            raise InvalidConfig(
                f"{platforms[0].name} and {platforms[1].name} both ask for {path!r:.100}; leave out one"
            )


def _check_port(option: str, environment: Mapping[str, str], name: str, http_port: int) -> None:
    port = environment.get(name, "")
    if port and http_port and port != str(http_port):
        raise InvalidConfig(
            f"{option}: {name} is {port!r:.20}, and --http-port {http_port}: say --http-port {port:.20}"
        )


def predict_target(platform: PlatformRoutes, redirect: bytes | None, models: Sequence[str]) -> str:
    """The protocol's own path for a request to `predict_path`.

    Args:
        platform: whose.
        redirect: the value of its `redirect_header`, or None.
        models: the names of those that there are.

    Raises:
        NotFound: it leads elsewhere than to the protocol's paths.
        InvalidInput: nobody says which model is meant.
    """
    if redirect is not None:
        path = "/" + redirect.decode("latin-1").strip().lstrip("/")
        if _PATH.fullmatch(path) is None or not (path == "/v2" or path.startswith("/v2/")) or {"?", "#"} & set(path):
            raise NotFound(f"{platform.redirect_header}: must name a path below v2/, got {path!r:.200}")
        return path
    model = platform.model
    if not model:
        names = sorted(set(models))
        if len(names) != 1:
            listed = ", ".join(names[:_MOST_LISTED]) or "none"
            raise InvalidInput(
                f"{platform.predict_path}: expected a server of one model, or one that was told which is meant "
                f"(SAGEMAKER_TRITON_DEFAULT_MODEL_NAME, --vertex-ai-default-model); there are {len(names)}: {listed}"
            )
        model = names[0]
    return f"/v2/models/{quote(model, safe='')}/infer"


def hosted_target(platform: PlatformRoutes, path: str) -> tuple[str, bool]:
    """The protocol's own path for one at or below `models_path`, and whether it calls a model.

    Raises:
        NotFound: there is no such path.
    """
    name, slash, action = path.removeprefix(platform.models_path).removeprefix("/").partition("/")
    if name and action == "invoke":
        return f"/v2/models/{name}/infer", True
    if slash or path == f"{platform.models_path}/":
        raise NotFound(f"Not Found: there is no endpoint {path[:200]!r}")
    return f"{HOSTED}/{name}" if name else HOSTED, False


def json_size(platform: PlatformRoutes, content_type: bytes | None) -> bytes | None:
    """How long the JSON of a binary message is, as its content type says; None for a message that is JSON alone."""
    said = (content_type or b"").replace(b" ", b"").lower()
    form = platform.binary_form.encode()
    size = said.removeprefix(form)
    return size if said.startswith(form) and size.isdigit() and len(size) <= _MOST_DIGITS else None
