"""What an application offers, as plain values: the gateway routes and documents by it without importing user code.

    describe(target) -> AppDescription                target: the root service (class or function)
    msgspec.json.encode(description)                  and back: msgspec.json.decode(raw, type=AppDescription)
    description.root                                  the root service: the only one with public routes
    description.route("/read") -> MethodDescription | None

Rule: nothing here refers to a class of the user's. Schemas are JSON schemas whose definitions are in `definitions`.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from trilith.errors import InvalidConfig
from trilith.service.codecs.request import accepted_types
from trilith.service.codecs.result import composite_in, offered_types
from trilith.service.describe_rpc import GrpcDescription, describe_grpc
from trilith.service.kinds import Kind, ValueType
from trilith.service.signature import MethodSignature
from trilith.service.spec import MethodSpec, ServiceSpec, spec_of
from trilith.service.streams.formats import streamed_types, taken_types


class PartDescription(msgspec.Struct, frozen=True, kw_only=True):
    """One part of a result: see `ValueDescription`."""

    kind: str
    many: bool = False
    dtype: str = ""
    library: str = ""


class ValueDescription(msgspec.Struct, frozen=True, kw_only=True):
    """The type of one parameter or result.

    Attributes:
        kind: `json`, `array`, `frame`, `image`, `bytes` or `file`.
        many: a list of them.
        optional: null is allowed.
        dtype: numpy's name of an array's dtype; "" when open.
        library: the class of a frame: `dataframe`, `series` or `table`; `torch` of a tensor.
        upload: of a union of JSON types with a file, bytes or an image: the kind of that.
        form: of a result of several parts: `tuple`, `object` or `mapping`; else "".
        parts: what those parts are, by name; by `*` of a mapping.
        schema: JSON schema of the JSON form.
    """

    kind: str
    schema: dict[str, Any]
    many: bool = False
    optional: bool = False
    dtype: str = ""
    library: str = ""
    upload: str = ""
    form: str = ""
    parts: dict[str, PartDescription] = {}


class ParameterDescription(msgspec.Struct, frozen=True, kw_only=True):
    """One parameter. `default` is its default where JSON can hold it; `keyword_only`: it is given by name alone."""

    name: str
    value: ValueDescription
    required: bool
    default: Any = None
    keyword_only: bool = False


class BatchDescription(msgspec.Struct, frozen=True, kw_only=True):
    """How single calls are joined: see `trilith.Batch`."""

    max_size: int
    max_wait_ms: float | None


class MethodDescription(msgspec.Struct, frozen=True, kw_only=True):
    """One method.

    Attributes:
        name: its name in a call's envelope.
        routes: HTTP paths (POST) that lead to it; used of the root service only.
        documentation: the docstring.
        parameters: in order. For a batched method those of one call.
        result: what a call answers.
        root: the one parameter is the whole body.
        raw: name of the parameter that a raw (binary) body stands for; "" for none.
        npy: name of the parameter that an `application/x-npy` body stands for; "" for none.
        frame: name of the parameter that a body of CSV, Parquet or Arrow stands for; "" for none.
        accepts: content types that it reads, the preferred one first.
        offers: content types that it can answer with, the default first.
        batch: None when single calls are not joined.
        idempotent: whether a call may run twice.
        timeout_s: seconds that a call may take.
        asynchronous: whether it runs on the worker's loop; else in one of its threads.
        streams: whether it answers with a stream of items; `result` is then one item.
        taken: the stream of items that it takes, None for none: `value` is one item. `accepts` is what it comes as.
    """

    name: str
    routes: list[str]
    parameters: list[ParameterDescription]
    result: ValueDescription
    accepts: list[str]
    offers: list[str]
    timeout_s: float
    documentation: str = ""
    root: bool = False
    raw: str = ""
    npy: str = ""
    frame: str = ""
    batch: BatchDescription | None = None
    idempotent: bool = False
    asynchronous: bool = True
    streams: bool = False
    taken: ParameterDescription | None = None


class ModelUse(msgspec.Struct, frozen=True, kw_only=True):
    """A model that a service refers to, and where it is placed: `node` or `replica`."""

    attribute: str
    reference: str
    placement: str


class MountDescription(msgspec.Struct, frozen=True, kw_only=True):
    """What answers HTTP by itself below a path.

    Attributes:
        path: of the mount; used of the root service only.
        name: of the attribute that declares it.
        timeout_s: seconds to the beginning of an answer.
        documentation: what its declaration says of it.
    """

    path: str
    name: str
    timeout_s: float
    documentation: str = ""


class ServiceDescription(msgspec.Struct, frozen=True, kw_only=True):
    """One service: options as in `ServiceOptions`, methods, and names of what it depends on by attribute.

    `grpc`: what it offers over gRPC, or None. `middleware`: whether requests over HTTP pass some in the replica.
    """

    name: str
    methods: list[MethodDescription]
    replicas: int
    cpu: float | None
    threads: int
    concurrency: int
    max_waiting: int
    timeout_s: float
    dependencies: dict[str, str]
    models: list[ModelUse]
    documentation: str = ""
    grpc: GrpcDescription | None = None
    mounts: list[MountDescription] = []
    middleware: bool = False

    def method(self, name: str) -> MethodDescription | None:
        """The method of that name, or None."""
        return next((method for method in self.methods if method.name == name), None)


class AppDescription(msgspec.Struct, frozen=True, kw_only=True):
    """A root service and all that it depends on.

    Attributes:
        name: the root's name.
        services: the root first, each before those that it depends on.
        definitions: JSON schemas that others refer to as `#/components/schemas/NAME`.
    """

    name: str
    services: list[ServiceDescription]
    definitions: dict[str, Any] = {}

    @property
    def root(self) -> ServiceDescription:
        """The service with the public routes."""
        return self.services[0]

    def service(self, name: str) -> ServiceDescription | None:
        """The service of that name, or None."""
        return next((service for service in self.services if service.name == name), None)

    def route(self, path: str) -> MethodDescription | None:
        """The root's method behind an HTTP path, or None."""
        return next((method for method in self.root.methods if path in method.routes), None)


def service_graph(root: ServiceSpec) -> list[ServiceSpec]:
    """The root and all services that it depends on, each once, a service before its dependencies.

    Raises:
        InvalidConfig: two services have one name, or services depend on each other in a circle.
    """
    order: list[ServiceSpec] = []
    _visit(root, (), order)
    order.reverse()
    names: dict[str, ServiceSpec] = {}
    for spec in order:
        other = names.setdefault(spec.name, spec)
        if other is not spec:
            raise InvalidConfig(
                f"two services have the name {spec.name!r} ({other.target.__module__}, {spec.target.__module__}); "
                "give one another: @trilith.service(name=...)"
            )
    return order


def _visit(spec: ServiceSpec, above: tuple[ServiceSpec, ...], order: list[ServiceSpec]) -> None:
    if spec in above:
        circle = " -> ".join(one.name for one in (*above[above.index(spec) :], spec))
        raise InvalidConfig(
            f"services depend on each other in a circle: {circle}; move what both need into a third one"
        )
    if spec in order:
        return
    for dependency in spec.dependencies.values():
        _visit(dependency.spec, (*above, spec), order)
    order.append(spec)


def describe(target: object) -> AppDescription:
    """Describes an application by its root service.

    Raises:
        InvalidConfig: it is no service, or one of its declarations cannot be served.
    """
    specs = service_graph(spec_of(target))
    schemas = _Schemas()
    for spec in specs:
        for method in spec.methods.values():
            schemas.want(method)
    definitions = schemas.resolve()
    grpc = describe_grpc(specs)
    services = [_service(spec, schemas, grpc.get(spec.name)) for spec in specs]
    return AppDescription(name=specs[0].name, services=services, definitions=definitions)


def _service(spec: ServiceSpec, schemas: _Schemas, grpc: GrpcDescription | None) -> ServiceDescription:
    options = spec.options
    return ServiceDescription(
        name=spec.name,
        documentation=spec.documentation,
        methods=[_method(method, schemas) for method in spec.methods.values()],
        replicas=options.replicas,
        cpu=options.cpu,
        threads=options.threads,
        concurrency=spec.concurrency,
        max_waiting=spec.options.max_waiting,
        timeout_s=float(options.timeout_s),
        dependencies={name: dependency.spec.name for name, dependency in spec.dependencies.items()},
        models=[
            ModelUse(attribute=name, reference=model.reference, placement=model.placement)
            for name, model in spec.models.items()
        ],
        grpc=grpc,
        mounts=[
            MountDescription(
                path=mount.path, name=mount.name, timeout_s=float(mount.timeout_s), documentation=mount.documentation
            )
            for mount in spec.mounts.values()
        ],
        middleware=bool(options.middleware),
    )


def _method(method: MethodSpec, schemas: _Schemas) -> MethodDescription:
    signature, options = method.signature, method.options
    batch = options.batch
    return MethodDescription(
        name=method.name,
        routes=list(method.routes),
        documentation=method.documentation,
        parameters=[
            ParameterDescription(
                name=parameter.name,
                value=schemas.value(method, parameter.name, parameter.value),
                required=parameter.required,
                default=None if parameter.required else _jsonable(parameter.default),
                keyword_only=parameter.keyword_only,
            )
            for parameter in signature.parameters
        ],
        result=schemas.value(method, "", signature.result),
        root=signature.root,
        raw=signature.raw_parameter.name if signature.raw_parameter else "",
        npy=signature.npy_parameter.name if signature.npy_parameter else "",
        frame=signature.frame_parameter.name if signature.frame_parameter else "",
        accepts=list(taken_types(signature.taken.value)) if signature.taken is not None else accepted_types(signature),
        offers=list(streamed_types(signature.result) if signature.streams else offered_types(signature.result)),
        batch=BatchDescription(max_size=batch.max_size, max_wait_ms=batch.max_wait_ms) if batch else None,
        idempotent=options.idempotent,
        timeout_s=float(method.timeout_s),
        asynchronous=method.asynchronous,
        streams=signature.streams,
        taken=ParameterDescription(
            name=signature.taken.name,
            value=schemas.value(method, signature.taken.name, signature.taken.value),
            required=True,
            keyword_only=signature.taken.keyword_only,
        )
        if signature.taken is not None
        else None,
    )


def _jsonable(value: Any) -> Any:
    try:
        return msgspec.json.decode(msgspec.json.encode(value))
    except (TypeError, ValueError):
        return None


def _part(one: ValueType) -> PartDescription:
    return PartDescription(kind=one.kind.value, many=one.many, dtype=one.dtype, library=one.library)


class _Schemas:
    """JSON schemas of all parameters and results, made together so that clashing names are told apart."""

    def __init__(self) -> None:
        self._wanted: list[tuple[str, Literal["validation", "serialization"], Any]] = []
        self._found: dict[tuple[str, str], dict[str, Any]] = {}

    @staticmethod
    def _key(method: MethodSpec, parameter: str) -> str:
        return f"{method.service.name}\n{method.name}\n{parameter}"

    def want(self, method: MethodSpec) -> None:
        from trilith.service.codecs import types

        signature: MethodSignature = method.signature
        taken = (signature.taken,) if signature.taken is not None else ()
        for parameter in (*signature.parameters, *taken):
            where = f"{method.where}: parameter {parameter.name!r}"
            adapter = types.adapter_of(parameter.value.annotation, where)
            self._wanted.append((self._key(method, parameter.name), "validation", adapter))
        adapter = types.adapter_of(signature.result.annotation, f"{method.where}: the result")
        self._wanted.append((self._key(method, ""), "serialization", adapter))

    def resolve(self) -> dict[str, Any]:
        from trilith.service.codecs import types

        definitions: dict[str, Any]
        self._found, definitions = types.schemas_of(self._wanted)
        return definitions

    def value(self, method: MethodSpec, parameter: str, value: ValueType) -> ValueDescription:
        side = "validation" if parameter else "serialization"
        composite = None if parameter else composite_in(value)
        return ValueDescription(
            upload=value.upload.kind.value if value.upload is not None and parameter else "",
            form="" if composite is None else composite.form,
            parts={} if composite is None else {name: _part(one) for name, one in composite.fields.items()},
            kind=value.kind.value,
            many=value.many,
            optional=value.optional or value.annotation in (None, type(None)),
            dtype=value.dtype if value.kind is Kind.ARRAY else "",
            library=value.library,
            schema=self._found[(self._key(method, parameter), side)],
        )
