"""What the tests of cases share: verdicts, values at a case's own input, and kernels compiled in a test's own folder.

A case is a mistake that people make, with the right answer in numbers. A test shows that the product gives that answer:
`proved` and `refuted` ask the prover, `Point` evaluates both sides to 40 digits at the case's input, `compiled` makes
the kernel and runs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sympy

from codegen.checking.array_library import array_library
from codegen.checking.kernel_files import Kernel, opened
from codegen.generate import render_all, write
from derive.evaluation import Evaluator
from derive.language import Dim, Index, Tensor
from derive.numeric.arithmetic import reals
from derive.program import Program
from derive.prove import Verdict, prove
from derive.statements import Claim

CLOSE = {"rtol": 1e-9, "atol": 2e-12}  # the cases give twelve decimals


def exact(table: Any) -> Any:
    """Numbers as they are written, 0.1 as one tenth, in nested lists; whole numbers and truth values as they are."""
    if isinstance(table, (list, tuple)):
        return [exact(part) for part in table]
    return table if isinstance(table, (bool, int)) else Fraction(str(table))


class Point:
    """Inputs by name, at which expressions over a program are evaluated; sizes are those of the tables."""

    def __init__(self, program: Program, sizes: dict[str, int] | None = None, **inputs: Any) -> None:
        self.program = program
        self.inputs = {name: exact(table) for name, table in inputs.items()}
        self.sizes = dict(sizes or {})
        for known in program.all_inputs():
            table = self.inputs.get(str(known.name))
            for extent in known.shape if isinstance(known, Tensor) and table is not None else ():
                if isinstance(extent, Dim):
                    self.sizes[str(extent.name)] = len(table)
                table = table[0] if table else []

    def __call__(self, expression: Any, *over: Index) -> Any:
        """The values over the given free indices; a defined name means all of its entries."""
        if isinstance(expression, (Tensor, sympy.Symbol)):
            known = self.program.definition(str(expression.name))
            assert known is not None
            expression, over = known.left, known.indices
        evaluator = Evaluator([expression], self.program.definitions)
        environment = evaluator.at(reals(), self.sizes, self.inputs)
        sizes = {Dim(name): size for name, size in self.sizes.items()}
        shape = [int(index.extent.xreplace(sizes)) for index in over]
        values = np.empty(shape)
        free = [index for index in over if index in evaluator.free[0]]
        for place in np.ndindex(*shape):
            environment.move(free, [at for at, index in zip(place, over, strict=True) if index in free])
            values[place] = float(environment.value(0))
        return values if over else float(values)


def close(found: Any, expected: Any) -> bool:
    """Whether values agree to the digits that a case gives."""
    return bool(np.allclose(np.asarray(found, dtype=float), np.asarray(expected, dtype=float), **CLOSE))


def check_proved(*claims: Claim) -> list[Verdict]:
    """The verdicts on claims that have to be proved."""
    verdicts = [prove(claim) for claim in claims]
    for verdict in verdicts:
        assert verdict.status == "Proved", (
            f"{verdict.claim}: {verdict.status}: {verdict.reason or verdict.counterexample}"
        )
    return verdicts


def check_refuted(
    claim: Claim, at: Point | None = None, over: Sequence[Index] = (), *, left: Any = None, right: Any = None
) -> Verdict:
    """The verdict on a claim that has to be refuted, its sides having the given values at a point of the case's own."""
    verdict = prove(claim)
    assert verdict.status == "Refuted", f"{claim}: {verdict.status}: {verdict.reason}"
    assert verdict.counterexample is not None
    assert verdict.counterexample.left != verdict.counterexample.right
    for side, expected in ((claim.left, left), (claim.right, right)):
        if expected is not None:
            assert at is not None
            np.testing.assert_allclose(at(side, *over), expected, **CLOSE)
    return verdict


@pytest.fixture(scope="session")
def proved() -> Callable[..., list[Verdict]]:
    """Holds that claims are proved."""
    return check_proved


@pytest.fixture(scope="session")
def refuted() -> Callable[..., Verdict]:
    """Holds that a claim is refuted."""
    return check_refuted


@pytest.fixture(scope="session")
def point() -> type[Point]:
    """A point at which expressions are evaluated."""
    return Point


@pytest.fixture(scope="session")
def agrees() -> Callable[[Any, Any], bool]:
    """Whether values agree to the digits that a case gives."""
    return close


@pytest.fixture
def compiled(tmp_path: Path) -> Iterator[Callable[..., Kernel]]:
    """Makes the kernel of a program, for numpy or another target, and loads it."""
    with ExitStack() as stack:

        def compile_(program: Program, target: str = "numpy") -> Kernel:
            if target == "torch":
                pytest.importorskip("torch")
            assert program.request is not None
            folder = tmp_path / program.name
            write(render_all([program], [target]), folder, [target])
            return stack.enter_context(opened(program, program.request, folder, array_library(target)))

        yield compile_


@pytest.fixture
def source_of() -> Callable[..., str]:
    """The text of a program's generated kernel."""
    return lambda program, target="numpy": render_all([program], [target])[f"{target}/{program.name}.py"]
