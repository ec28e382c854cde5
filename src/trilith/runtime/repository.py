"""A model repository: folders that say what is served.

    models/NAME/{config.pbtxt | model.yaml | nothing}/VERSION/model.onnx

Rule 1: this file reads names and configurations; it loads no model and keeps nothing.
Rule 2: a version is a folder whose name is a positive number without leading zeros; other folders are not versions.
Rule 3: an error names the folder, and what would be right.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from google.protobuf import text_format

from trilith.config import load_yaml
from trilith.errors import InvalidConfig, UnknownReference
from trilith.runtime.backends.files import what_lies_at
from trilith.runtime.backends.folder import SCRIPT, kind_name
from trilith.runtime.backends.port import BackendKind, ModelFile
from trilith.runtime.changes import Standing
from trilith.runtime.devices import gpu_fields, on_cpus, refuse_gpus
from trilith.runtime.fingerprint import stamp_of
from trilith.runtime.folders import is_folder
from trilith.runtime.model_pbtxt import load_model_pbtxt, with_session
from trilith.runtime.model_yaml import load_model_yaml
from trilith.runtime.spec import ModelSpec, VersionPolicy
from trilith.runtime.words import PBTXT_WORDS, YAML_WORDS
from trilith.wire.oip_messages import model_config_messages

if TYPE_CHECKING:
    from trilith.runtime.agents.chain import AgentChain

_MOST_LISTED: Final = 20
_NONE_SET: Final[Mapping[str, Any]] = MappingProxyType({})
_MOST_DIGITS: Final = 1000  # of a version: Python makes no numbers of texts that are much longer
PBTXT: Final = "config.pbtxt"
YAML: Final = "model.yaml"
SENT: Final = "the parameter `config`"
"""Where a configuration stands that came with a load."""
_LIBRARY: Final = "libtriton_{}.so"  # of a backend in Triton: saying so there changes nothing
NO_VERSION: Final = "a version is a folder whose name is a number that does not begin with 0"
CONFIGS: Final = "configs"
"""Folder in a model's folder with further configurations, of which `--model-config-name` chooses one."""


class NoVersion(UnknownReference):
    """A model's folder holds no version that its policy would serve."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPlan:
    """What is to be loaded for one model.

    Attributes:
        spec: its configuration, with the backend named.
        kind: its backend.
        folder: its folder.
        files: one for each version to serve, ascending. A file that must be fetched first has no path yet.
        said_in: where its configuration stands, or would: a file, or the parameter of the load, for messages.
        moved: fields that ask for a GPU where it is run on a CPU instead, with what they say.
        agents: what its agents have done, to be closed when nothing is served of it.
    """

    spec: ModelSpec
    kind: BackendKind
    folder: Path
    files: tuple[ModelFile, ...]
    said_in: str = ""
    moved: tuple[str, ...] = ()
    agents: AgentChain | None = None

    @property
    def words(self) -> Mapping[str, str]:
        """The words of that configuration."""
        return YAML_WORDS if self.said_in.endswith((".yaml", ".yml")) else PBTXT_WORDS

    def with_spec(self, spec: ModelSpec) -> ModelPlan:
        """The same with another configuration."""
        if spec is self.spec:
            return self
        return replace(self, spec=spec, files=tuple(replace(file, spec=spec) for file in self.files))

    def standing(self) -> Standing:
        """What it will be loaded from, with the files as they are now."""
        if self.files and self.files[0].path is not None and self.files[0].path.parent == self.folder:
            (file,) = self.files  # a model file alone: what lies beside it is not of the model
            return Standing(spec=self.spec, versions={str(file.version): stamp_of(self.files[0].path)})
        versions = {str(file.version): stamp_of(self.folder / str(file.version)) for file in self.files}
        skip = (PBTXT, YAML, CONFIGS, *map(str, _present_versions(self.folder)))
        return Standing(spec=self.spec, shared=stamp_of(self.folder, skip), versions=versions)


def plan_model(
    name: str,
    path: Path,
    kinds: Mapping[str, BackendKind],
    sent: ModelSpec | None = None,
    config_name: str = "",
    *,
    gpu_instances_on_cpu: bool = False,
    settings: Mapping[str, Any] = _NONE_SET,
    renamed: bool = False,
) -> ModelPlan:
    """What is to be loaded for model `name`, which lies at `path`: its folder, or a model file alone.

    Args:
        name: the model's name.
        path: its folder, or its file.
        kinds: the backends by name.
        sent: what stands for the configuration in the folder, since it came with the load; or None.
        config_name: which of the configurations in the folder holds; see `config_file`.
        gpu_instances_on_cpu: whether instances that ask for a GPU run on a CPU.
        settings: what stands before the configuration in the folder, as keys of a `model.yaml`.
        renamed: whether the configuration may say another name.

    Raises:
        NoVersion: there is no version to serve.
        UnknownReference: there is no such path, or no model file; or it cannot be looked at.
        InvalidConfig: the configuration is wrong.
    """
    try:
        plan = _plan(name, path, kinds, sent, config_name, settings, renamed=renamed)
    except OSError as error:
        raise UnknownReference(
            f"{path}: model '{name}' cannot be looked at: {error.filename}: {error.strerror}"
        ) from error
    if gpu_instances_on_cpu:
        return replace(plan.with_spec(on_cpus(plan.spec)), moved=tuple(gpu_fields(plan.spec)))
    refuse_gpus(plan.spec, plan.said_in)
    return plan


def _plan(
    name: str,
    path: Path,
    kinds: Mapping[str, BackendKind],
    sent: ModelSpec | None,
    config_name: str,
    settings: Mapping[str, Any],
    *,
    renamed: bool,
) -> ModelPlan:
    if path.is_file():
        spec = _with_backend(ModelSpec(name=name, filename=path.name), path, kinds, [], said_in="", pbtxt=False)
        file = ModelFile(model=name, version=1, path=path, spec=spec, folder=path.parent)
        return ModelPlan(spec=spec, kind=kinds[spec.backend], folder=path.parent, files=(file,))
    if not path.is_dir():
        raise UnknownReference(f"model '{name}': there is neither a folder nor a file {path}")
    present = _present_versions(path)
    said = config_file(path, config_name)
    pbtxt = sent is not None if said is None else said.suffix == ".pbtxt"
    own = (_said_name(said) if renamed else "") or name
    read = replace(read_spec(own, path, config_name, settings) if sent is None else sent, name=name)
    said_in = SENT if sent is not None else str(said or path / YAML)
    spec = _with_backend(read, path, kinds, present, said_in=said_in, pbtxt=pbtxt)
    kind = kinds[kind_name(spec.backend, spec.runtime)]
    if spec.source is not None:
        if present:
            raise InvalidConfig(
                f"{path / YAML}: source: the folder holds versions of its own ({', '.join(map(str, present))}); "
                "remove them, or remove `source`"
            )
        file = ModelFile(model=name, version=spec.source.version, path=None, spec=spec, folder=path)
        return ModelPlan(spec=spec, kind=kind, folder=path, files=(file,), said_in=said_in)
    if not present and not kind.filename:
        present = [1]
    versions = spec.versions.choose(present)
    if not versions:
        raise NoVersion(
            f"{path}: at least one version must be available under the version policy of model '{name}': expected "
            f"a folder such as {path / '1'} with a model file in it; found "
            f"{_listing(present)}{_wanted(spec.versions)}"
        )
    files = tuple(
        ModelFile(model=name, version=version, path=_model_path(path, version, spec, kind), spec=spec, folder=path)
        for version in versions
    )
    return ModelPlan(spec=spec, kind=kind, folder=path, files=files, said_in=said_in)


def config_file(folder: Path, config_name: str = "") -> Path | None:
    """The file in a model's folder that says how it is served; None when there is none.

    With a `config_name` it is `configs/NAME.pbtxt` or `configs/NAME.yaml`, where there is one.

    Raises:
        InvalidConfig: there are two, or what is there is no file (a link that leads to nothing, a pipe).
    """
    named = [folder / CONFIGS / f"{config_name}{suffix}" for suffix in (".pbtxt", ".yaml")] if config_name else []
    for candidates in (named, [folder / PBTXT, folder / YAML]):
        there = [path for path in candidates if _is_config(path)]
        if len(there) > 1:
            raise InvalidConfig(f"{there[0].parent}: holds {there[0].name} and {there[1].name}; keep one of them")
        if there:
            return there[0]
    return None


def _is_config(path: Path) -> bool:
    """Whether it is there. One that is there and cannot be read is not taken for none.

    Raises:
        InvalidConfig: it is no file.
    """
    if path.is_file():
        return True
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    raise InvalidConfig(f"{path}: is {what_lies_at(path)}; expected a configuration file, or nothing of that name")


def read_spec(name: str, folder: Path, config_name: str = "", settings: Mapping[str, Any] = _NONE_SET) -> ModelSpec:
    """The configuration in a model's folder, whichever form it has; the default one when there is none.

    What `settings` say stands before it.

    Raises:
        InvalidConfig: it is wrong, or there are two.
    """
    file = config_file(folder, config_name)
    if settings:
        from trilith.runtime.model_settings import spec_with

        return spec_with(settings, name, file)
    if file is None:
        return ModelSpec(name=name)
    return load_model_pbtxt(file, name) if file.suffix == ".pbtxt" else load_model_yaml(file, name)


def _said_name(file: Path | None) -> str:
    """The name in a configuration, or "" where it says none that can be read."""
    with contextlib.suppress(InvalidConfig, OSError, UnicodeDecodeError, text_format.ParseError):
        if file is not None and file.suffix == ".pbtxt":
            return str(text_format.Parse(file.read_text(encoding="utf-8"), model_config_messages().ModelConfig()).name)
        if file is not None:
            return str(load_yaml(file, dict[str, Any]).get("name") or "")
    return ""


def read_labels(folder: Path, spec: ModelSpec) -> dict[str, tuple[str, ...]]:
    """The labels of the outputs that have a label file, by output.

    Raises:
        InvalidConfig: a label file lies outside the model's folder, or cannot be read.
    """
    labels: dict[str, tuple[str, ...]] = {}
    for output in spec.outputs:
        if output.label_filename:
            path = (folder / output.label_filename).resolve()
            try:
                inside = path.is_relative_to(folder.resolve())
                lines = path.read_text(encoding="utf-8").splitlines() if inside else []
            except (OSError, UnicodeDecodeError) as error:
                raise InvalidConfig(f"model '{spec.name}': the label file {path} cannot be read: {error}") from error
            if not inside:
                raise InvalidConfig(f"model '{spec.name}': the label file {path} must lie in the model's folder")
            labels[output.name] = tuple(lines)
    return labels


def _present_versions(folder: Path) -> list[int]:
    try:
        names = [child.name for child in folder.iterdir() if is_version(child.name) and is_folder(child)]
    except OSError as error:  # it has gone, or become something else, since it was found
        raise UnknownReference(f"the model folder {folder} cannot be read: {error}") from error
    return sorted(map(int, names))


def left_out_folders(plan: ModelPlan) -> list[str]:
    """Names of folders beside the versions that hold a model file and are no version: probably meant for one."""
    filenames = (plan.spec.filename,) if plan.spec.filename else plan.kind.filenames
    try:
        return sorted(
            child.name
            for child in plan.folder.iterdir()
            if not is_version(child.name) and any((child / name).is_file() for name in filenames)
        )
    except OSError:  # of a folder that may not be looked into nothing can be said
        return []


def is_version(name: str) -> bool:
    """Whether a folder of that name is a version."""
    return name.isascii() and name.isdigit() and not name.startswith("0") and len(name) <= _MOST_DIGITS


def _with_backend(
    spec: ModelSpec,
    path: Path,
    kinds: Mapping[str, BackendKind],
    versions: Sequence[int],
    *,
    said_in: str,
    pbtxt: bool,
) -> ModelSpec:
    """Names the backend, from the files when the configuration does not."""
    backend = spec.backend or _backend_of_files(spec, path, kinds, versions)
    if spec.runtime and not (spec.runtime.endswith(".py") or spec.runtime == _LIBRARY.format(backend)):
        raise InvalidConfig(
            f"{said_in or path}: runtime: must be the Python file of a backend of your own (`model.py`), got "
            f"{spec.runtime!r}; libraries of backends cannot be loaded: remove it, and name one of the backends here"
        )
    if kind_name(backend, spec.runtime) not in kinds:
        wanted = f"{backend!r} with the runtime {spec.runtime!r}" if spec.runtime else repr(backend)
        raise InvalidConfig(
            f"{said_in or path}: backend: model '{spec.name}' wants {wanted}; the backends here are "
            f"{', '.join(sorted(kinds))}. One of your own is a folder of that name with a {spec.runtime or SCRIPT}, "
            "and --backend-directory says where that folder lies"
        )
    if spec.backend == backend:
        return spec
    found = replace(spec, backend=backend)
    if not pbtxt:
        return found
    try:
        return with_session(found)
    except InvalidConfig as error:
        raise InvalidConfig(f"{said_in}: {error.message}") from error


def _backend_of_files(spec: ModelSpec, path: Path, kinds: Mapping[str, BackendKind], versions: Sequence[int]) -> str:
    closed: OSError | None = None
    for name, kind in kinds.items():
        suffixes = tuple(Path(filename).suffix for filename in kind.filenames)
        candidates = [spec.filename, spec.source.reference if spec.source else ""]
        if any(candidate.endswith(suffixes) for candidate in candidates):
            return name
        for file in (path / str(version) / filename for version in versions for filename in kind.filenames):
            try:
                if file.exists() or file.is_symlink():
                    return name
            except OSError as error:  # this version's folder may not be entered; another one's may tell
                closed = error
    if closed is not None:
        raise closed
    expected = ", ".join(sorted({filename for kind in kinds.values() for filename in kind.filenames}))
    raise UnknownReference(
        f"{path}: cannot tell how to run model '{spec.name}': expected a file VERSION/NAME with NAME one of "
        f"{expected}, or a {YAML} that says `backend`; found {_listing(versions)}"
    )


def _model_path(folder: Path, version: int, spec: ModelSpec, kind: BackendKind) -> Path | None:
    paths = (folder / str(version) / name for name in kind.filenames)
    there = (path.name for path in paths if path.exists() or path.is_symlink())
    filename = spec.filename or next(there, kind.filename)
    if not filename:
        return None
    if Path(filename).is_absolute() or ".." in Path(filename).parts:
        raise InvalidConfig(f"{folder}: the model file {filename!r} must lie in the folder of its version")
    return folder / str(version) / filename


def _listing(versions: Sequence[int]) -> str:
    more = f" and {len(versions) - _MOST_LISTED} more" if len(versions) > _MOST_LISTED else ""
    return f"the versions {', '.join(map(str, versions[:_MOST_LISTED]))}{more}" if versions else "no version folder"


def _wanted(policy: VersionPolicy) -> str:
    return f", wanted are {', '.join(map(str, policy.specific))}" if policy.specific else ""
