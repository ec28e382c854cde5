"""The backends that come with Trilith, by the names that configurations use."""

from __future__ import annotations

from trilith.runtime.backends.port import Backend, BackendKind, ModelFile


def builtin_backends() -> dict[str, BackendKind]:
    """A new registry; a `Runtime` may be given further ones."""
    return {
        "onnxruntime": BackendKind(create=_onnxruntime, filename="model.onnx", platform="onnxruntime_onnx"),
        "identity": BackendKind(create=_identity),
    }


def _onnxruntime(file: ModelFile) -> Backend:
    from trilith.runtime.backends.onnxruntime import OnnxRuntimeBackend

    return OnnxRuntimeBackend(file)


def _identity(file: ModelFile) -> Backend:
    from trilith.runtime.backends.identity import IdentityBackend

    return IdentityBackend(file)
