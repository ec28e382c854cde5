"""`pb_utils.ModelConfig`: what `auto_complete_config` gets, changes and returns; and helpers that read a configuration.

Rule: what the configuration says already stays. A model that says something else is refused with a sentence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trilith.runtime.backends.python.pb_utils.errors import TritonModelException

_TENSOR_KEYS: Final = ("name", "data_type", "dims", "optional", "is_shape_tensor", "reshape", "format")
_POLICY_KEYS: Final = ("decoupled",)


class ModelConfig:
    """A model's configuration while it is completed.

    Args:
        config: Triton's configuration message as a dictionary.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        self._config = config

    def as_dict(self) -> dict[str, Any]:
        """The configuration as it is now."""
        return self._config

    def set_max_batch_size(self, max_batch_size: int) -> None:
        """Says the most rows of a batch; 0 for a model without a batch dimension.

        Raises:
            TritonModelException: the configuration says less already.
        """
        known = self._config.get("max_batch_size", 0)
        if known and known > max_batch_size:
            raise TritonModelException(
                f"configuration specified max_batch_size {known}, but in auto-complete-config function for model "
                f"'{self._config.get('name', '')}' specified max_batch_size {max_batch_size}"
            )
        if not known:
            self._config["max_batch_size"] = int(max_batch_size)

    def set_dynamic_batching(self) -> None:
        """Says that requests may be joined."""
        for other in ("sequence_batching", "ensemble_scheduling"):
            if other in self._config:
                raise TritonModelException(f"set_dynamic_batching: the configuration has {other} already")
        self._config.setdefault("dynamic_batching", {})

    def add_input(self, input: Mapping[str, Any]) -> None:
        """Declares an input: name, data_type, dims, and if it may be left out `optional`.

        Raises:
            TritonModelException: it is not of that form, or the configuration says otherwise.
        """
        self._add("input", input)

    def add_output(self, output: Mapping[str, Any]) -> None:
        """Declares an output: name, data_type, dims. Raises as `add_input`."""
        self._add("output", output)

    def set_model_transaction_policy(self, transaction_policy_dict: Mapping[str, Any]) -> None:
        """Says whether the model is decoupled.

        Raises:
            TritonModelException: it is no such policy.
        """
        for key in transaction_policy_dict:
            if key not in _POLICY_KEYS:
                raise TritonModelException(f"set_model_transaction_policy: unknown property '{key}'")
        known = self._config.get("model_transaction_policy")
        if known is not None and known.get("decoupled") != transaction_policy_dict.get("decoupled", False):
            raise TritonModelException(
                "trying to change decoupled property in auto-complete-config for model "
                f"'{self._config.get('name', '')}', which the configuration says is {known.get('decoupled', False)}"
            )
        self._config["model_transaction_policy"] = dict(transaction_policy_dict)

    def _add(self, role: str, tensor: Mapping[str, Any]) -> None:
        for key in tensor:
            if key not in _TENSOR_KEYS:
                raise TritonModelException(f"add_{role}: {role} has the unknown property '{key}'")
        for key in ("name", "data_type", "dims"):
            if key not in tensor:
                raise TritonModelException(f"add_{role}: {role} '{tensor.get('name', '')}' lacks the property '{key}'")
        mine = {**tensor, "dims": [int(size) for size in tensor["dims"]]}
        known: list[dict[str, Any]] = self._config.setdefault(role, [])
        for other in known:
            if other["name"] == mine["name"]:
                self._agree(role, other, mine)
                return
        known.append(mine)

    def _agree(self, role: str, known: dict[str, Any], mine: dict[str, Any]) -> None:
        for key in ("data_type", "dims"):
            unsaid = not known.get(key) or known[key] == "TYPE_INVALID"
            if unsaid:
                known[key] = mine[key]
            elif known[key] != mine[key]:
                raise TritonModelException(
                    f"unable to add {role} '{mine['name']}': the configuration of model "
                    f"'{self._config.get('name', '')}' says {key} {known[key]}, auto_complete_config says {mine[key]}"
                )


def get_input_config_by_name(model_config: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    """What a configuration (a dictionary) says of an input; None when there is none of that name."""
    return _by_name(model_config, "input", name)


def get_output_config_by_name(model_config: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    """What a configuration (a dictionary) says of an output; None when there is none of that name."""
    return _by_name(model_config, "output", name)


def using_decoupled_model_transaction_policy(model_config: Mapping[str, Any]) -> bool:
    """Whether a configuration (a dictionary) is that of a decoupled model."""
    return bool(model_config.get("model_transaction_policy", {}).get("decoupled", False))


def _by_name(model_config: Mapping[str, Any], role: str, name: str) -> dict[str, Any] | None:
    return next((tensor for tensor in model_config.get(role, []) if tensor["name"] == name), None)
