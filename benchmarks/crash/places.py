"""Modules of other folders, and a disk that becomes full, for `make crash`."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

__all__ = ["SmallDisk", "loaded", "rows"]


def loaded(path: Path) -> Any:
    """Return a module of another folder."""
    spec = importlib.util.spec_from_file_location(f"crash_{path.stem}", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


rows = loaded(Path(__file__).parents[1] / "rows.py")


class SmallDisk:
    """A file system in memory, of a size that is changed while it is in use.

    Raises:
        LookupError: This user may not mount one.
    """

    def __init__(self, folder: Path, size: int) -> None:
        self._folder = folder
        self._mount("size", size)

    def _mount(self, options: str, size: int) -> None:
        command = ["mount", "-t", "tmpfs", "-o", f"{options}={size}", "tmpfs", str(self._folder)]
        try:
            subprocess.run(command, check=True, capture_output=True, text=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise LookupError(f"no small file system may be mounted here ({error})") from None

    def grow(self, size: int) -> None:
        """Give it this size."""
        self._mount("remount,size", size)

    def close(self) -> None:
        subprocess.run(["umount", "--lazy", str(self._folder)], check=False, capture_output=True)
