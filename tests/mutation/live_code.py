"""Replace the code of existing functions, so that a process forked after all imports need not import them again."""

from __future__ import annotations

import ast
import gc
from collections import defaultdict
from collections.abc import Iterator
from types import CodeType, FunctionType

_Key = tuple[str, str, int]
"""The file, qualified name and first line of a function."""


class LiveFunctions:
    """The existing functions of the files below a directory."""

    def __init__(self, directory: str) -> None:
        self._by_key: defaultdict[_Key, list[FunctionType]] = defaultdict(list)
        for each in gc.get_objects():
            if isinstance(each, FunctionType) and each.__code__.co_filename.startswith(directory):
                self._by_key[_key(each.__code__)].append(each)

    def replace(self, tree: ast.Module, path: str) -> int:
        """Give the functions of `path` the code of `tree`, and return the number of changed functions."""
        changed = 0
        for code in _inner_codes(compile(tree, path, "exec", dont_inherit=True)):
            for function in self._by_key.get(_key(code), ()):
                if function.__code__ != code:
                    function.__code__ = code
                    changed += 1
        return changed


def _key(code: CodeType) -> _Key:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def _inner_codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _inner_codes(constant)
