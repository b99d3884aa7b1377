"""What the mutation suite shares: the modules of this folder, which is no package, as fixtures."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


def sibling(name: str) -> ModuleType:
    known = f"mutation_{name}"
    if known not in sys.modules:
        spec = importlib.util.spec_from_file_location(known, Path(__file__).parent / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules[known] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[known])
    return sys.modules[known]


@pytest.fixture(scope="session")
def mutants() -> ModuleType:
    return sibling("mutants")


@pytest.fixture(scope="session")
def brute_force() -> ModuleType:
    return sibling("brute_force")
