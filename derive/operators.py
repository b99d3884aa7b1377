"""Operators over an input: expectation over random entries, the limit as a number grows, expansion to first order.

Part of the language, beside `derive.functions`. Each is a SymPy node that takes an expression and an input which it
makes its own, as a sum does an index. The normal form has no law for them; an inference rule (`derive.rules`) reduces
claims about them to equalities, and the numeric side evaluates them, as a second witness.

    expectation(Sum(q[a] * k[a], a) ** 2, over=[q, k])      entries independent, with mean 0 and variance 1
    limit(softmax(c * s[i], over=i), of=c)                  as c grows without bound
    first_order((theta - eta * g) ** 2, eta=eta)            the value at 0 plus eta times the slope at 0
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sympy import Expr

from derive.errors import StatementError
from derive.language import Lengths, Scalar, Tensor, expression_of, listed

__all__ = ["Expectation", "FirstOrder", "Limit", "OverInput", "expectation", "first_order", "limit", "variance_over"]


class OverInput(Expr):
    """An operator applied to a body, over inputs of its own: args are (body, input, ...)."""

    is_commutative = True
    meaning = ""

    @property
    def body(self) -> Expr:
        """What the operator is applied to."""
        return self.args[0]

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The inputs that the operator makes its own."""
        return tuple(self.args[1:])

    @property
    def free_symbols(self) -> set[Any]:
        """The free symbols of the body, less those of the operator's own inputs."""
        own: set[Any] = set().union(*(known.free_symbols for known in self.inputs))
        return set(self.body.free_symbols) - own

    def _eval_is_extended_real(self) -> bool:
        return True

    def _sympystr(self, printer: Any) -> str:
        shown = ", ".join(str(known.name) for known in self.inputs)
        return f"{type(self).__name__.lower()}({printer._print(self.body)}, {shown})"


class Expectation(OverInput):
    """The expectation of the body when all entries of the inputs are independent, with mean 0 and variance 1."""

    meaning = "expectation over independent entries with mean 0 and variance 1"

    def _latex(self, printer: Any) -> str:
        return rf"\operatorname{{E}}\left[{printer._print(self.body)}\right]"


class Limit(OverInput):
    """The limit of the body as the input, a positive number, grows without bound."""

    meaning = "limit as the input grows without bound"

    def _latex(self, printer: Any) -> str:
        return rf"\lim_{{{printer._print(self.inputs[0])} \to \infty}} {printer._print(self.body)}"


class FirstOrder(OverInput):
    """The expansion of the body to first order in the input: its value at 0 plus the input times its slope at 0."""

    meaning = "value at 0 plus the input times the slope at 0"

    @property
    def free_symbols(self) -> set[Any]:
        """The free symbols of the body, the input included."""
        return set(self.body.free_symbols) | {self.inputs[0]}


def expectation(body: Any, *, over: Sequence[Tensor]) -> Expr:
    """The expectation of `body` when the entries of the given tensors are independent, with mean 0 and variance 1.

    Raises:
        StatementError: there is no tensor, or one is ragged or not of real entries of both signs.
    """
    expression = expression_of(body, "expectation")
    over = listed(over, f"expectation({expression}): over=", "tensors")
    if not over:
        raise StatementError(f"expectation({expression}): expected over= at least one tensor of random entries")
    for known in over:
        if not isinstance(known, Tensor) or known.into is not None or isinstance(known, Lengths) or known.positive:
            raise StatementError(
                f"expectation({expression}): expected over= tensors of real entries without a declared sign, "
                f"found {known!r}"
            )
        if any(isinstance(size, Lengths) or not (size.is_Symbol or size.is_Integer) for size in known.shape):
            raise StatementError(f"expectation({expression}): {known.name} has a ragged axis; expected plain sizes")
    return Expectation(expression, *over)


def variance_over(body: Any, *, over: Sequence[Tensor]) -> Expr:
    """The variance of a random `body`: E[body^2] - E[body]^2. Not to be confused with `derive.functions.variance`."""
    expression = expression_of(body, "variance_over")
    return expectation(expression**2, over=over) - expectation(expression, over=over) ** 2


def limit(body: Any, *, of: Scalar) -> Expr:
    """The limit of `body` as the positive scalar `of` grows without bound.

    Raises:
        StatementError: `of` is no scalar that is declared positive.
    """
    if not isinstance(of, Scalar) or not of.is_positive:
        raise StatementError(f"limit({body}): expected of= a scalar(..., positive=True), found {of!r}")
    return Limit(expression_of(body, "limit"), of)


def first_order(body: Any, *, eta: Scalar) -> Expr:
    """The expansion of `body` to first order in the scalar `eta`.

    Raises:
        StatementError: `eta` is no scalar.
    """
    if not isinstance(eta, Scalar) or eta.is_integer:
        raise StatementError(f"first_order({body}): expected eta= a real scalar(...), found {eta!r}")
    return FirstOrder(expression_of(body, "first_order"), eta)
