"""Tensors of PyTorch, in services and in Python models; here, because its import alone takes seconds."""

from typing import Annotated

import numpy as np
import pytest

import trilith
from hosted_service import call_hosted
from trilith.errors import InvalidInput
from trilith.runtime.backends.python import pb_utils

torch = pytest.importorskip("torch")


def test_tensors_of_torch_are_arrays():
    class Tensors:
        @trilith.api
        def add(self, x: torch.Tensor, y: float = 1.0) -> torch.Tensor:
            x += y  # a tensor may be written to
            return x.requires_grad_()

        @trilith.api
        async def typed(
            self, x: Annotated[torch.Tensor, trilith.DType("float32"), trilith.Shape(2)]
        ) -> list[torch.Tensor]:
            assert x.dtype is torch.float32
            return [x, x.t()]

        @trilith.api
        def odd(self, x: list[torch.Tensor]) -> torch.Tensor:
            return x[0].to(torch.bfloat16)

    service = trilith.service(Tensors)
    assert call_hosted(service, "add", b'{"x": [1.5, 2]}').body == b"[2.5,3.0]"
    assert call_hosted(service, "typed", b'{"x": [1, 2]}').body == b"[[1.0,2.0],[1.0,2.0]]"
    with pytest.raises(InvalidInput, match=r"shape \(2,\), got \(3,\)"):
        call_hosted(service, "typed", b'{"x": [1, 2, 3]}')
    with pytest.raises(InvalidInput, match="numbers that torch has"):
        call_hosted(service, "add", b'{"x": ["a"]}')
    with pytest.raises(Exception, match=r"BFloat16.*convert it, as by .float"):
        call_hosted(service, "odd", b'{"x": [[1.0]]}', debug=True)


def test_bf16_leaves_and_enters_by_dlpack_alone():
    source = torch.tensor([1.5, -2.0], dtype=torch.bfloat16)
    tensor = pb_utils.Tensor.from_dlpack("x", source)
    assert tensor.triton_dtype() == 14
    assert tensor.array.dtype == np.uint16
    with pytest.raises(pb_utils.TritonModelException, match="bf16"):
        tensor.as_numpy()
    assert torch.equal(torch.from_dlpack(tensor), source)
