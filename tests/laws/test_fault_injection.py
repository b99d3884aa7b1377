"""A fault in a law of the normal form is not a false proof: the second engine disagrees, and the alarm goes off.

Each row breaks one function of `derive.normal` in a way a slip could, and claims something that is false and that the
broken law proves. Without the fault the claim is not proved; with it `prove` raises AlarmError, whose exit code is 70.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pytest
from sympy import Eq, exp, log, sqrt

from derive.errors import AlarmError
from derive.language import Product, Sum, delta, dims, index, indices, iverson, scalar, scalars, tensor
from derive.normal import comparisons, inner_sums, powers, products, sums
from derive.normal.terms import UNIT, UNITY, Polynomial, Total, number, total
from derive.program import Claim, Program
from derive.prove import PROVED, prove

verdicts = importlib.import_module("derive.prove")  # the package's attribute of that name may be the function
T, V = dims("T V")
i, j, k = indices("i j k", T)
v = index("v", V)
x, y, z = tensor("x", T), tensor("y", T), tensor("z", T)
F = tensor("F", T + 1)
P, R = tensor("P", T, positive=True), tensor("R", T, positive=True)
X, Y = tensor("X", T, T), tensor("Y", T, T)
s, r = scalars("s r")
p, q = scalar("p", positive=True), scalar("q", positive=True)


@dataclass(frozen=True)
class Fault:
    """What is broken, by what, and the false statement that it proves."""

    module: Any
    name: str
    broken: Callable[[Callable[..., Any]], Callable[..., Any]]
    left: Any
    right: Any
    given: tuple[Any, ...] = ()


def first_term(polynomial: Polynomial) -> Polynomial:
    """All but the first of several terms lost."""
    return Polynomial(dict(polynomial.ordered()[:1]))


def without_ends(reindexed: Polynomial | None) -> Polynomial | None:
    """A re-indexed sum without the terms at its two ends."""
    if reindexed is None:
        return None
    kept = {m: c for m, c in reindexed.terms.items() if any(isinstance(atom, Total) for atom, _ in m)}
    return Polynomial(kept)


def first_factor_only(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda ledger, monomial, coefficient: original(ledger, monomial[:1], coefficient)


FAULTS: dict[str, Fault] = {
    "sums are linear": Fault(
        sums,
        "sum_over",
        lambda f: lambda ledger, bound, body: f(ledger, bound, first_term(body)),
        Sum(x[i] + y[i], i),
        Sum(x[i], i),
    ),
    "sum of 1 over i gives the extent of i": Fault(
        sums,
        "sum_over",
        lambda f: (
            lambda ledger, bound, body: (
                f(ledger, bound, body) + (UNITY if body.constant() == 1 and bound else number(0))
            )
        ),
        Sum(delta(i, i) * x[j] ** 0, i),
        T + 1,
    ),
    "delta contraction": Fault(
        sums,
        "_contract",
        lambda f: (
            lambda ledger, bound, names, m: UNITY if any(a.key.startswith("delta") for a, _ in m) and bound else None
        ),
        Sum(delta(i, j) * x[i] * y[i], i),
        1,
    ),
    "exp(a + b) = exp(a) exp(b)": Fault(
        powers, "exponential", lambda f: lambda ledger, argument: f(ledger, first_term(argument)), exp(s + r), exp(r)
    ),
    "log(x y) = log x + log y": Fault(powers, "_log_of_monomial", first_factor_only, log(p * q * Sum(P[i], i)), log(p)),
    "(x y)^c = x^c y^c needs positive factors": Fault(
        powers,
        "factor_is_positive",
        lambda f: lambda atom, power: True,
        sqrt(Sum(x[i], i) ** 2),
        Sum(x[i], i),
    ),
    "re-indexing": Fault(
        inner_sums,
        "reindexed",
        lambda f: lambda ledger, variables, factors: without_ends(f(ledger, variables, factors)),
        Sum(F[i + 1] - F[i], i),
        0,
    ),
    "integers: [q > -1] = [q > 0] + [q = 0]": Fault(
        comparisons,
        "_whole",
        lambda f: lambda ledger, argument: f(ledger, total((argument, number(-argument.terms.get(UNIT, Fraction(0)))))),
        Sum(iverson(j <= i) * x[j], j),
        Sum(iverson(j < i) * x[j], j),
    ),
    "delta(i, i) = 1": Fault(
        products, "delta", lambda f: lambda ledger, left, right: UNITY, Sum(delta(i, j) * x[i], i), Sum(x[i], i)
    ),
    "hypothesis": Fault(
        verdicts,
        "solved",
        lambda f: lambda difference, *rest: f(total((difference, number(1))), *rest),
        Sum(x[i], i),
        0,
        (Eq(Sum(x[i], i), 1),),
    ),
    "a product of positive factors": Fault(
        sums, "product_over", lambda f: lambda ledger, bound, body: f(ledger, bound, UNITY), Product(P[i], i), 1
    ),
    "content of a power": Fault(
        powers,
        "content_of",
        lambda f: lambda ledger, polynomial, *, fractional: (UNITY, f(ledger, polynomial, fractional=fractional)[1]),
        1 / (2 * p + 2 * q),
        1 / (p + q),
    ),
}


def claim_of(fault: Fault) -> Claim:
    return Program("fault").claim("c", fault.left, fault.right, given=fault.given, over=[i, j, k])


@pytest.mark.parametrize("law", sorted(FAULTS))
def test_a_fault_raises_the_alarm(law: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fault = FAULTS[law]
    assert prove(claim_of(fault)).status != PROVED
    monkeypatch.setattr(fault.module, fault.name, fault.broken(getattr(fault.module, fault.name)))
    with pytest.raises(AlarmError):
        prove(claim_of(fault))


def test_the_alarm_has_its_own_exit_code() -> None:
    assert AlarmError.exit_code == 70
