"""How pip builds quorumd (PEP 517): setuptools, with the hot packages compiled by mypyc.

The wheel has both: a compiled module beside each source file that `[tool.quorumd] compiled` in pyproject.toml names.
It is the same code; whoever reads or debugs it turns to the sources, which is what an editable install and the
tests run. Without a C compiler, or with QUORUMD_COMPILE=0, the wheel has the sources alone, and says so.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import sysconfig
import tomllib
from typing import Any

import setuptools
from setuptools.build_meta import _BuildMetaBackend
from setuptools.command.sdist import sdist

MYPY = "mypy>=1.10,<3"


class SourceArchive(sdist):
    """The source archive, with what is needed to build from it."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        super().make_release_tree(base_dir, [*files, "scripts/build_backend.py"])


class Backend(_BuildMetaBackend):
    """setuptools' own backend, but wheels get compiled modules."""

    _compiles = False

    def run_setup(self, setup_script: str = "setup.py") -> None:
        """Called by setuptools with the command in `sys.argv`; there is no setup.py to run."""
        setuptools.setup(
            ext_modules=extensions() if self._compiles else [], cmdclass={"sdist": SourceArchive}
        )

    def get_requires_for_build_wheel(self, config_settings: Any = None) -> list[str]:
        requirements: list[str] = super().get_requires_for_build_wheel(config_settings)
        return [*requirements, MYPY] if why_interpreted() is None else requirements

    def build_wheel(
        self, wheel_directory: Any, config_settings: Any = None, metadata_directory: Any = None
    ) -> str:
        reason = why_interpreted()
        if reason is not None:
            print(f"quorumd is installed interpreted: {reason}", file=sys.stderr)
        self._compiles = reason is None
        try:
            return str(super().build_wheel(wheel_directory, config_settings, metadata_directory))
        finally:
            self._compiles = False


def why_interpreted() -> str | None:
    """Why nothing can or shall be compiled; None when it can."""
    if os.environ.get("QUORUMD_COMPILE") == "0":
        return "QUORUMD_COMPILE=0"
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")[0]
    if shutil.which(compiler) is None:
        return f"no C compiler ({compiler}) was found"
    if not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")):
        return f"this Python has no headers ({sysconfig.get_path('include')}/Python.h)"
    return None


def compiled_files() -> list[str]:
    """The source files that `[tool.quorumd] compiled` names, packages by their folder."""
    with open("pyproject.toml", "rb") as file:
        named = tomllib.load(file)["tool"]["quorumd"]["compiled"]
    files = []
    for path in named:
        if os.path.isdir(path):
            files += [f"{path}/{name}" for name in sorted(os.listdir(path)) if name.endswith(".py")]
        else:
            files.append(path)
    return files


def extensions() -> list[Any]:
    from mypyc.build import mypycify

    # The project's own settings for mypy ask for more than a compiler needs, and for more packages than it has here.
    options = ["--config-file=", "--ignore-missing-imports"]
    return list(mypycify([*options, *compiled_files()], opt_level="2", debug_level="0"))


_backend = Backend()
build_editable = _backend.build_editable
build_sdist = _backend.build_sdist
build_wheel = _backend.build_wheel
get_requires_for_build_editable = _backend.get_requires_for_build_editable
get_requires_for_build_sdist = _backend.get_requires_for_build_sdist
get_requires_for_build_wheel = _backend.get_requires_for_build_wheel
prepare_metadata_for_build_editable = _backend.prepare_metadata_for_build_editable
prepare_metadata_for_build_wheel = _backend.prepare_metadata_for_build_wheel
