"""Plant a mutant into this process: its modules are compiled with the bug when they are imported.

No file is written and no compiled file is read, so that the bug affects neither the working tree nor other processes.
The other modules of quorumd are loaded from their sources as well, since machine code would not use changed modules.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from types import CodeType, ModuleType

from tests.mutants.catalogue import PACKAGE, Mutant


def plant(mutant: Mutant) -> None:
    """Plant a mutant into this process. Raises RuntimeError if a module of quorumd is already imported."""
    imported = sorted(name for name in sys.modules if name.partition(".")[0] == PACKAGE.name)
    if imported:
        raise RuntimeError(f"mutant {mutant.name} must be planted before {imported[-1]} is imported")
    sys.meta_path.insert(0, _Finder(mutant))


class _Finder(MetaPathFinder):
    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] != PACKAGE.name:
            return None
        place = PACKAGE.parent.joinpath(*fullname.split("."))
        file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
        if fullname in self._mutant.modules:
            return spec_from_file_location(fullname, file, loader=_Patched(fullname, str(file), self._mutant))
        return spec_from_file_location(fullname, file)


class _Patched(SourceFileLoader):
    def __init__(self, fullname: str, path: str, mutant: Mutant) -> None:
        super().__init__(fullname, path)
        self._mutant = mutant

    def get_code(self, fullname: str) -> CodeType:
        """Compile the source with the bug."""
        tree = self._mutant.planted(fullname, self.get_data(self.path).decode())
        return compile(tree, self.path, "exec", dont_inherit=True)
