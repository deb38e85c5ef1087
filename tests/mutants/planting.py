"""Plants a mutant into this process: its modules are compiled from patched source when they are imported.

No file is written and no compiled file is read, so that neither the working tree nor another process sees it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from types import CodeType, ModuleType

from tests.mutants.catalogue import Mutant


def plant(mutant: Mutant) -> None:
    """From now on the mutant's modules have its bug. Before any of them is imported."""
    imported = sorted(name for name in mutant.modules if name in sys.modules)
    if imported:
        raise RuntimeError(f"{mutant.name} comes too late: {', '.join(imported)} is imported already")
    sys.meta_path.insert(0, _Finder(mutant))


class _Finder(MetaPathFinder):
    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant
        self._modules = mutant.modules

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        file = self._modules.get(fullname)
        if file is None:
            return None
        return spec_from_file_location(fullname, file, loader=_Loader(fullname, str(file), self._mutant))


class _Loader(SourceFileLoader):
    def __init__(self, fullname: str, path: str, mutant: Mutant) -> None:
        super().__init__(fullname, path)
        self._mutant = mutant

    def get_code(self, fullname: str) -> CodeType:
        """Compile what the file says now, with the bug."""
        source = self._mutant.patched(fullname, self.get_data(self.path).decode())
        return compile(source, self.path, "exec", dont_inherit=True)
