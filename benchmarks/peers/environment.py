"""A virtual environment for each peer, made once and kept; made again when its requirements change."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

REQUIREMENTS = Path(__file__).parent / "requirements"
DEFAULT_FOLDER = Path.home() / ".cache" / "trilith-bench"
_MARK = "trilith-bench-requirements.txt"


def ensure(name: str, folder: Path) -> Path:
    """The `bin` folder of the environment `name` ("" is the harness's own), made if it is not there.

    Raises:
        subprocess.CalledProcessError: making it failed; the installer has said why.
    """
    if not name:
        return Path(sys.executable).parent
    requirements = REQUIREMENTS / f"{name}.txt"
    environment = folder / name
    mark = environment / _MARK
    wanted = requirements.read_text("utf-8")
    if mark.exists() and mark.read_text("utf-8") == wanted:
        return environment / "bin"
    print(f"making the environment of {name} in {environment} ...", flush=True)
    uv = shutil.which("uv")
    if uv is not None:
        subprocess.run([uv, "venv", "--clear", "-q", "--python", sys.executable, str(environment)], check=True)
        install = [uv, "pip", "install", "-q", "--python", str(environment / "bin" / "python")]
    else:
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(environment)], check=True)
        install = [str(environment / "bin" / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*install, "-r", str(requirements)], check=True)
    # Written last: an interrupted installation is made again instead of being taken for a good one.
    mark.write_text(wanted, "utf-8")
    return environment / "bin"


def versions(bin_folder: Path, name: str) -> dict[str, str]:
    """The versions of the packages that the requirements of `name` list."""
    if not name:
        return {}
    listed = [
        line.partition("==")[0].partition("[")[0]
        for line in (REQUIREMENTS / f"{name}.txt").read_text("utf-8").splitlines()
        if line.strip() and not line.startswith("#")
    ]
    code = "import sys; from importlib.metadata import version\nfor name in sys.argv[1:]: print(name, version(name))"
    ran = subprocess.run([str(bin_folder / "python"), "-c", code, *listed], check=True, capture_output=True, text=True)
    return dict(line.split() for line in ran.stdout.splitlines())
