"""The PEP 517 build backend: setuptools, with the hot packages compiled by mypyc.

The wheel has both: a compiled module next to each source file that `[tool.quorumd] compiled` in pyproject.toml names.
An editable install and the tests run the sources. Without a C compiler, or with QUORUMD_COMPILE=0, the wheel has the
sources only, and the build prints the reason.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import sysconfig
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import setuptools
from setuptools.build_meta import _BuildMetaBackend
from setuptools.command.build_ext import build_ext
from setuptools.command.sdist import sdist

MYPY = "mypy>=1.10,<3"


class SourceArchive(sdist):
    """The source archive, including this file."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        super().make_release_tree(base_dir, [*files, "scripts/build_backend.py"])


class ParallelCompiler(build_ext):
    """Compiles as many files at a time as there are processors: mypyc makes one extension, with a C file per
    module."""

    def build_extensions(self) -> None:
        compile_files = self.compiler.compile

        def compile_in_parallel(sources: list[str], **options: Any) -> list[str]:
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                objects = pool.map(lambda source: compile_files([source], **options), sources)
                return [path for paths in objects for path in paths]

        self.compiler.compile = compile_in_parallel
        super().build_extensions()


class Backend(_BuildMetaBackend):
    """The backend of setuptools, with compiled modules in wheels."""

    _build_directory: str | None = None
    """The build directory of a wheel, empty at first: the wheel must not include modules of an earlier build."""
    _compiles = False

    def run_setup(self, setup_script: str = "setup.py") -> None:
        """Run the command that setuptools has put in `sys.argv`; there is no setup.py to run."""
        directory = self._build_directory
        setuptools.setup(
            ext_modules=extensions(directory) if directory and self._compiles else [],
            cmdclass={"build_ext": ParallelCompiler, "sdist": SourceArchive},
            options={"build": {"build_base": directory}} if directory else {},
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
        with tempfile.TemporaryDirectory(prefix="quorumd-wheel-") as self._build_directory:
            try:
                return str(super().build_wheel(wheel_directory, config_settings, metadata_directory))
            finally:
                self._build_directory = None


def why_interpreted() -> str | None:
    """Return the reason why modules are not compiled; None if they are."""
    if os.environ.get("QUORUMD_COMPILE") == "0":
        return "QUORUMD_COMPILE=0"
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")[0]
    if shutil.which(compiler) is None:
        return f"no C compiler ({compiler}) was found"
    if not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")):
        return f"this Python has no headers ({sysconfig.get_path('include')}/Python.h)"
    return None


def compiled_files() -> list[str]:
    """Return the source files that `[tool.quorumd] compiled` names, packages by their directory."""
    with open("pyproject.toml", "rb") as file:
        named = tomllib.load(file)["tool"]["quorumd"]["compiled"]
    files = []
    for path in named:
        if os.path.isdir(path):
            for directory, _, names in sorted(os.walk(path)):
                files += [f"{directory}/{name}" for name in sorted(names) if name.endswith(".py")]
        else:
            files.append(path)
    return files


def extensions(directory: str) -> list[Any]:
    """Translate the sources to C in `directory` and return the extensions to compile."""
    from mypyc.build import mypycify

    # The project's settings for mypy need plugins and packages that the build environment lacks.
    options = ["--config-file=", "--ignore-missing-imports"]
    # A single C file takes gcc twice as long and six times the memory, on one processor.
    files = [*options, *compiled_files()]
    made = mypycify(files, opt_level="2", debug_level="0", multi_file=True, target_dir=directory)
    for extension in made:
        # mypyc sets -Werror: warnings of a newer compiler must not break the installation. Only Python loads the
        # module, by its init functions, which are exported: direct calls between its files make less code.
        extension.extra_compile_args += ["-Wno-error", "-fvisibility=hidden", "-fno-plt"]
    return list(made)


_backend = Backend()
build_editable = _backend.build_editable
build_sdist = _backend.build_sdist
build_wheel = _backend.build_wheel
get_requires_for_build_editable = _backend.get_requires_for_build_editable
get_requires_for_build_sdist = _backend.get_requires_for_build_sdist
get_requires_for_build_wheel = _backend.get_requires_for_build_wheel
prepare_metadata_for_build_editable = _backend.prepare_metadata_for_build_editable
prepare_metadata_for_build_wheel = _backend.prepare_metadata_for_build_wheel
