"""Running the kernels of a statement that is not in the library."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from codegen.checking.array_library import array_library
from codegen.checking.kernel_files import opened
from codegen.generate import render_all, write
from derive.program import Program

Array = np.ndarray[Any, Any]


@pytest.fixture
def returned(tmp_path: Path) -> Any:
    """The output of a program's kernel, and the gradients for an upstream gradient of ones."""

    def run(program: Program, target: str, given: dict[str, Array], **options: float) -> list[Array]:
        library = array_library(target)
        write(render_all([program], [target]), tmp_path, [target])
        assert program.request is not None
        with opened(program, program.request, tmp_path, library) as kernel:
            (output,), saved = kernel.run({name: library.array(array) for name, array in given.items()}, options)
            upstream = library.array(np.ones(tuple(output.shape), next(iter(given.values())).dtype))
            return [np.array(library.plain(value)) for value in (output, *kernel.gradients(upstream, saved))]

    return run
