"""Existing functions get the code of a changed tree."""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.mutation.live_code import LiveFunctions
from tests.mutation.operators import mutated, mutations

SOURCE = '''
from functools import cache

class Base:
    def __init__(self):
        self.is_ready = True

class Derived(Base):
    """A class."""
    is_ready = False

    def __init__(self):
        super().__init__()

    @property
    def size(self):
        return 2 + 1

@cache
def limit(x):
    return x < 3

def outer():
    def inner(x):
        return x < 3
    return inner

def numbers():
    yield from (x for x in range(5) if x > 2)

TABLE = {"limit": limit, "inner": outer()}
'''


@pytest.fixture
def module(tmp_path: Path) -> Iterator[ModuleType]:
    path = tmp_path / "example.py"
    path.write_text(SOURCE)
    spec = importlib.util.spec_from_file_location("live_code_example", path)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules["live_code_example"] = loaded
    spec.loader.exec_module(loaded)
    yield loaded
    del sys.modules["live_code_example"]


def mutate(module: ModuleType, place: str) -> int:
    """Apply the first mutation of a function."""
    found = next(each for each in mutations("example", SOURCE) if each.place == f"example.{place}")
    path = str(module.__file__)
    return LiveFunctions(str(Path(path).parent)).replace(mutated("example", SOURCE, found), path)


def test_equal_code_changes_nothing(module: ModuleType) -> None:
    functions = LiveFunctions(str(Path(str(module.__file__)).parent))
    assert functions.replace(ast.parse(SOURCE), str(module.__file__)) == 0


def test_functions_of_other_directories_are_left_alone(module: ModuleType) -> None:
    tree = ast.parse(SOURCE.replace("x < 3", "x > 3"))
    assert LiveFunctions("/elsewhere/").replace(tree, str(module.__file__)) == 0


def test_method_loses_a_call_to_its_base_class(module: ModuleType) -> None:
    assert mutate(module, "Derived.__init__") == 1
    assert not module.Derived().is_ready
    assert module.Base().is_ready


def test_property_changes(module: ModuleType) -> None:
    mutate(module, "Derived.size")
    assert module.Derived().size == 1


def test_decorated_function_changes_wherever_it_is_known(module: ModuleType) -> None:
    mutate(module, "limit")
    assert module.TABLE["limit"](3)


def test_inner_functions_change_those_that_exist_and_those_to_come(module: ModuleType) -> None:
    assert mutate(module, "outer.inner") == 2
    assert module.TABLE["inner"](3)
    assert module.outer()(3)


def test_generator_changes(module: ModuleType) -> None:
    mutate(module, "numbers")
    assert list(module.numbers()) == [0, 1, 2]
