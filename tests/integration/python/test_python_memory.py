"""Large tensors where `/dev/shm` is small, missing, or no shared memory is to be had at all."""

import asyncio
import shutil
import subprocess
import sys

import numpy as np
import pytest
from python_models import ask, echo_with, write_model

from trilith.net.transport.config import SharedMemoryConfig
from trilith.runtime import InferRequest, Runtime

LARGE = """
import asyncio, sys
import numpy as np
from trilith.runtime import InferRequest, Runtime

async def main():
    async with Runtime(sys.argv[1]) as runtime:
        array = np.arange(5 << 20, dtype=np.float32)[None]
        asked = [runtime.infer(InferRequest(model="echo", inputs={"x": array + n})) for n in range(8)]
        for n, answer in enumerate(await asyncio.gather(*asked)):
            assert np.array_equal(answer.outputs["y"], (array + n) * 2)
    print("all is well")

asyncio.run(main())
"""


def _may_unshare():
    if shutil.which("unshare") is None:
        return False
    return subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode == 0


SMALL = "mount -t tmpfs -o size=64m tmpfs /dev/shm"
MISSING = """
folder=$(mktemp -d)
mount -t tmpfs tmpfs $folder
for name in null zero random urandom; do touch $folder/$name; mount --bind /dev/$name $folder/$name; done
mount --rbind $folder /dev
test ! -e /dev/shm
"""


@pytest.mark.parametrize("change", [SMALL, MISSING], ids=["64 MB", "missing"])
@pytest.mark.skipif(not _may_unshare(), reason="needs the right to mount")
def test_eight_tensors_of_20_mb_with_a_small_shared_folder_or_none(repository, change):
    write_model(repository, "echo", echo_with(run="return x * 2"))
    program = repository.parent / "program.py"
    program.write_text(LARGE)
    done = subprocess.run(
        ["unshare", "-m", "sh", "-e", "-c", f"{change}\nexec {sys.executable} {program} {repository}"],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert "all is well" in done.stdout, done.stderr


def test_without_shared_memory_tensors_travel_in_frames(repository, run, monkeypatch):
    defaults = {**SharedMemoryConfig.__init__.__kwdefaults__, "total_bytes": 0}
    monkeypatch.setattr(SharedMemoryConfig.__init__, "__kwdefaults__", defaults)
    write_model(repository, "echo", echo_with(run="return x * 2"))

    async def main():
        async with Runtime(repository) as runtime:
            array = np.arange(1 << 20, dtype=np.float32)[None]
            answer = await runtime.infer(InferRequest(model="echo", inputs={"x": array}))
            np.testing.assert_array_equal(answer.outputs["y"], array * 2)

    run(main())


CIRCLE = """
import weakref
if not hasattr(self, "first"):
    circle = [np.ones(200 << 20, np.uint8)]
    circle.append(circle)
    self.first = weakref.ref(circle[0])
return x * 0 + (self.first() is not None)
"""


def test_a_circle_of_the_models_that_holds_much_is_found_soon(repository, run):
    write_model(repository, "circle", echo_with(run=CIRCLE))

    async def main():
        async with Runtime(repository) as runtime:

            async def held():
                return (await runtime.infer(ask("circle", 1))).outputs["y"].tolist() == [[1]]

            assert await held()
            async with asyncio.timeout(20):
                while await held():
                    continue

    run(main())
