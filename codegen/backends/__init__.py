"""The backends: a table and a few templates each. All that differs between array libraries is here.

Both tables have the same keys; a test holds that.
"""

from __future__ import annotations

from codegen.backends.library import Library
from codegen.backends.numpy_library import NUMPY
from codegen.backends.torch_library import TORCH

__all__ = ["LIBRARIES", "Library"]

LIBRARIES: dict[str, Library] = {library.name: library for library in (NUMPY, TORCH)}
