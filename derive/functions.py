"""Functions that have a definition and keep their identity: softmax, logsumexp, mean, and their kin.

A statement that says `softmax(S[i, j], over=j)` should print as it was written and still mean
`exp(S[i, j]) / Sum(exp(S[i, k]), k)` to the prover. So each function is one SymPy node, `Defined`, whose meaning is a
row of the table DEFINITIONS; `unfold` replaces every node by its row, and no other module knows the functions by name.

Every node binds an index. The functions that return one value for each position (softmax) are applied *at* an index:
`softmax(S[i, j], over=j)` is the vector over j, read at j.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import sympy
from sympy import Expr, Max, Piecewise, Rational, erf, exp, log, pi, sqrt, tanh
from sympy.core.symbol import Str

from derive.calls import called_as
from derive.errors import StatementError
from derive.language import Index, Product, Sum, Where, condition_of, expression_of, iverson, value_of

__all__ = [
    "DEFINITIONS",
    "Defined",
    "argmax",
    "argmin",
    "gelu",
    "gelu_tanh",
    "log_softmax",
    "logsumexp",
    "mean",
    "relu",
    "sigmoid",
    "silu",
    "softmax",
    "softplus",
    "unfold",
    "variance",
]


class Defined(Expr):
    """A function with a definition: args are (name, body, bound index, place, condition).

    `place` is where a position-wise function is read; for a reduction it is the bound index again and means nothing.
    The body and the condition lie inside the scope of the bound index, the place outside.
    """

    is_commutative = True

    def __new__(cls, name: Any, body: Expr, bound: Expr, place: Expr, condition: Any) -> Defined:
        """The node; use the functions below to make one."""
        return Expr.__new__(cls, Str(str(name)), body, bound, place, expression_of(condition, str(name)))  # type: ignore[no-any-return]

    @property
    def name(self) -> str:
        """The function's name, a key of DEFINITIONS."""
        return str(self.args[0].name)

    @property
    def positional(self) -> bool:
        """Whether the function returns one value for each position of the bound index."""
        return DEFINITIONS[self.name].positional

    @property
    def linear(self) -> bool:
        """Whether the function is linear in its body."""
        return DEFINITIONS[self.name].linear

    @property
    def free_symbols(self) -> set[Any]:
        """The free symbols: those of body and condition less the bound index, and those of the place."""
        _, body, bound, place, condition = self.args
        inner: set[Any] = (body.free_symbols | condition.free_symbols) - {bound}
        return inner | set(place.free_symbols) if self.positional else inner

    def _eval_is_extended_real(self) -> bool:
        return True

    def _eval_is_positive(self) -> bool | None:
        return True if self.name == "softmax" and self.args[4] == sympy.true else None

    def _sympystr(self, printer: Any) -> str:
        _, body, bound, place, condition = self.args
        shown = f"{self.name}({printer._print(body)}, over={bound}"
        if condition != sympy.true:
            shown += f", where={printer._print(condition)}"
        if self.positional and place != bound:
            shown += f", at={place}"
        return shown + ")"

    def _latex(self, printer: Any) -> str:
        _, body, bound, place, _condition = self.args
        at = f"_{{{printer._print(place)}}}" if self.positional and place != bound else ""
        name = self.name.replace("_", r"\_")
        return rf"\operatorname{{{name}}}_{{{printer._print(bound)}}}\left({printer._print(body)}\right){at}"


# ---------------------------------------------------------------------------------------------------------------------
# What each function means. A row says whether the function is read at a position and gives its definition from
# (body, bound index, condition). A position-wise definition is written *at* the bound index itself; `definition_of`
# moves it to the place, without capture.


def bracketed(body: Expr, condition: Any) -> Expr:
    """The body inside the index set that the condition cuts out: a masked sum is a sum over an index set."""
    return body if condition == sympy.true else iverson(condition) * body


def _set_size(bound: Index, condition: Any) -> Expr:
    return bound.extent if condition == sympy.true else Sum(iverson(condition), bound)


def _mean(body: Expr, bound: Index, condition: Any) -> Expr:
    return Sum(bracketed(body, condition), bound) / _set_size(bound, condition)


@dataclass(frozen=True)
class Definition:
    """A row of the table: whether the function is read at a position, its definition, and what it is over nothing.

    That is a limit or a convention, where the definition is 0/0 or the logarithm of 0. `linear` says that the function
    of a sum is the sum of the functions.
    """

    positional: bool
    meaning: Callable[[Expr, Index, Any], Expr]
    over_nothing: str
    linear: bool = False


DEFINITIONS: dict[str, Definition] = {
    "softmax": Definition(True, lambda f, i, c: bracketed(exp(f), c) / Sum(bracketed(exp(f), c), i), "0"),
    "log_softmax": Definition(True, lambda f, i, c: f - log(Sum(bracketed(exp(f), c), i)), "inf"),
    "logsumexp": Definition(False, lambda f, i, c: log(Sum(bracketed(exp(f), c), i)), "-inf"),
    "mean": Definition(False, _mean, "0", linear=True),
    "variance": Definition(False, lambda f, i, c: _mean((f - Defined("mean", f, i, i, c)) ** 2, i, c), "0"),
}


def apply_to(name: str, body: Any, over: Any, where: Any) -> Expr:
    """The node for function `name` of `body` over index `over`, restricted to where the condition holds."""
    if not isinstance(over, Index):
        raise StatementError(f"{name}({body}): expected over= an index made by index(...), found {over!r}")
    if where is False:
        condition_of(where, f"{name}({body}): where=")
    return Defined(name, value_of(body, name), over, over, where)


@called_as("softmax(S[i, j], over=j)")
def softmax(body: Any, *, over: Index, where: Any = True) -> Expr:
    """exp(body) / Sum(exp(body), over), read at `over`; outside `where` it is 0 and does not count in the sum."""
    return apply_to("softmax", body, over, where)


@called_as("log_softmax(S[i, j], over=j)")
def log_softmax(body: Any, *, over: Index, where: Any = True) -> Expr:
    """Body - logsumexp(body, over), read at `over`."""
    return apply_to("log_softmax", body, over, where)


@called_as("logsumexp(S[i, j], over=j)")
def logsumexp(body: Any, *, over: Index, where: Any = True) -> Expr:
    """log(Sum(exp(body), over))."""
    return apply_to("logsumexp", body, over, where)


@called_as("mean(x[i], over=i)")
def mean(body: Any, *, over: Index, where: Any = True) -> Expr:
    """Sum(body, over) divided by the number of positions."""
    return apply_to("mean", body, over, where)


@called_as("variance(x[i], over=i)")
def variance(body: Any, *, over: Index, where: Any = True) -> Expr:
    """The population variance: mean((body - mean(body))**2)."""
    return apply_to("variance", body, over, where)


# Scalar functions are abbreviations: they return their definition.


def sigmoid(x: Any) -> Expr:
    """1 / (1 + exp(-x))."""
    return 1 / (1 + exp(-value_of(x, "sigmoid")))


def softplus(x: Any) -> Expr:
    """log(1 + exp(x))."""
    return log(1 + exp(value_of(x, "softplus")))


def relu(x: Any) -> Expr:
    """Max(x, 0)."""
    return Max(value_of(x, "relu"), 0)


def gelu(x: Any) -> Expr:
    """X Phi(x) with the exact normal distribution function. Hendrycks and Gimpel 2016."""
    x = value_of(x, "gelu")
    return x * (1 + erf(x / sqrt(2))) / 2


def gelu_tanh(x: Any) -> Expr:
    """The tanh approximation of GELU. Hendrycks and Gimpel 2016, section 2."""
    x = value_of(x, "gelu_tanh")
    return x * (1 + tanh(sqrt(2 / pi) * (x + Rational(44715, 1000000) * x**3))) / 2


def silu(x: Any) -> Expr:
    """X sigmoid(x)."""
    x = value_of(x, "silu")
    return x * sigmoid(x)


@called_as("argmax(f, over=i, among=j)")
def argmax(body: Expr, *, over: Index, among: Index) -> Expr:
    """The indicator of the set of maximisers: 1 where body at `over` is at least body at every `among`, else 0.

    Two functions have the same argmax exactly when these indicators are equal, so statements about argmax are
    equalities like any other. `among` is a second index over the same range.

    Raises:
        StatementError: the two indices are one, or run over different ranges, or the body has the second one as well.
    """
    here, there = _two_places(body, over, among, "argmax")
    return Product(iverson(here >= there), among)


@called_as("argmin(f, over=i, among=j)")
def argmin(body: Expr, *, over: Index, among: Index) -> Expr:
    """The indicator of the set of minimisers, see `argmax`."""
    here, there = _two_places(body, over, among, "argmin")
    return Product(iverson(here <= there), among)


def _two_places(body: Any, over: Index, among: Index, what: str) -> tuple[Expr, Expr]:
    """The body, and the body at the second index instead of the first."""
    from derive.binders import free_indices, substitute

    value = value_of(body, what)
    for role, index in (("over", over), ("among", among)):
        if not isinstance(index, Index):
            raise StatementError(f"{what}({body}): expected {role}= an index made by index(...), found {index!r}")
    if over == among or over.extent != among.extent:
        raise StatementError(
            f"{what}({body}): expected among= a second index over {over.extent}, found {among} over {among.extent}"
        )
    if among in free_indices(value):
        raise StatementError(f"{what}({body}): {among} is in the body already; compare with an index of its own")
    return value, substitute(value, {over: among})


# ---------------------------------------------------------------------------------------------------------------------


def definition_of(node: Defined) -> Expr:
    """The definition of one node, with the place substituted for the bound index without capture."""
    from derive.binders import substitute

    _, body, bound, place, condition = node.args
    meaning = DEFINITIONS[node.name].meaning(body, bound, condition)
    return substitute(meaning, {bound: place}) if node.positional and place != bound else meaning


@lru_cache(maxsize=20_000)
def unfold(expression: Any) -> Any:
    """The expression with every Defined node replaced by its definition, Max, Min, Abs and Piecewise by `Where`."""
    from derive.binders import compared, map_children

    if isinstance(expression, Defined):
        return unfold(definition_of(expression))
    if isinstance(expression, (sympy.Max, sympy.Min)):
        wins = sympy.Ge if isinstance(expression, sympy.Max) else sympy.Le
        first, *rest = [unfold(argument) for argument in sorted(expression.args, key=sympy.default_sort_key)]
        for other in rest:
            first = Where(compared(wins, first, other), first, other)
        return first
    if isinstance(expression, sympy.Abs):
        inner = unfold(expression.args[0])
        return Where(compared(sympy.Ge, inner, sympy.S.Zero), inner, -inner)
    if isinstance(expression, Piecewise):
        result = unfold(expression.args[-1][0])
        for value, condition in reversed(expression.args[:-1]):
            result = Where(unfold(condition), unfold(value), result)
        return result
    made = expression if isinstance(expression, sympy.Indexed) else map_children(expression, unfold)
    # SymPy knows that a selection is real, and makes the root of its square an absolute value.
    return unfold(made) if isinstance(expression, sympy.Pow) and made.has(sympy.Abs) else made
