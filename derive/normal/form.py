"""From a SymPy expression to its normal form.

The entrance of the decision procedure. `normal_form` reads an expression bottom up, one row of READERS for each kind
of node; bound indices get fresh names as they are met. Conditions are read in `derive.normal.selections`; whether what
comes out is zero, the question that every proof ends in, is settled in `derive.normal.zero`.

SOUND: every step is an identity over the reals wherever both sides are defined, under the hypotheses in the ledger.
INCOMPLETE: identities between functions of which only the parity is known (erf, atan), and rational identities inside a
sum whose terms have different denominators, can be missed. A miss is Undecided or Refuted by numbers, never Proved.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import partial
from typing import Any

import sympy
from sympy import Indexed, KroneckerDelta

from derive.errors import NoLawError, StatementError
from derive.functions import unfold
from derive.language import Dim, Index, Lengths, Scalar, Tensor, Where
from derive.normal import (
    comparisons,
    deltas,
    functions,
    logarithms,
    powers,
    products,
    ranged_products,
    rewriting,
    selections,
    shares,
    signs,
    splitting,
    sums,
)
from derive.normal.ledger import Ledger
from derive.normal.terms import (
    ONE,
    UNIT,
    UNITY,
    Atom,
    Entry,
    Exp,
    Fixed,
    Polynomial,
    Var,
    from_atom,
    number,
    position,
    ratio,
    total,
)
from derive.normal.zero import is_zero
from derive.operators import OverInput

__all__ = ["Scope", "index_atom", "is_zero", "normal_form", "read", "shown"]

Scope = Mapping[Index, Var]
POSITIONS = (Index, sympy.Integer, Indexed, sympy.Add, Dim)  # what `index_atom` reads


def normal_form(ledger: Ledger, expression: Any, scope: Scope | None = None) -> Polynomial:
    """The normal form of a well-formed expression.

    Raises:
        StatementError: the expression has no value anywhere (division by zero), or is not of the language.
        BudgetExceededError: it takes more terms or time than the ledger allows.
    """
    return read(ledger, unfold(expression), scope or {})


def read(ledger: Ledger, node: Any, scope: Scope) -> Polynomial:
    """The normal form of an unfolded node, the indices in scope under their names in the ledger."""
    ledger.spend()
    for kind, reader in READERS:
        if isinstance(node, kind):
            return reader(ledger, node, scope)
    raise StatementError(f"{node}: {type(node).__name__} has no normal form")


def _rational(_ledger: Ledger, node: Any, _scope: Scope) -> Polynomial:
    # A decimal is read as it was written: 0.1 is one tenth.
    value = sympy.Rational(str(node)) if isinstance(node, sympy.Float) else node
    return number(ratio(int(value.p), int(value.q)))


def _size(ledger: Ledger, node: Any, _scope: Scope) -> Polynomial:
    atom = Entry(node.name, (), "+", True)
    return rewriting.rewritten(ledger, atom) or from_atom(atom)


def _scalar(ledger: Ledger, node: Any, _scope: Scope) -> Polynomial:
    atom = Entry(node.name, (), "+" if node.is_positive else "", bool(node.is_integer))
    return rewriting.rewritten(ledger, atom) or from_atom(atom)


def _index(_ledger: Ledger, node: Any, scope: Scope) -> Polynomial:
    return from_atom(index_atom(_ledger, node, scope))


def index_atom(ledger: Ledger, part: Any, scope: Scope) -> Atom:
    """An index expression as an atom."""
    if isinstance(part, Index):
        return scope[part] if part in scope else Var(part.name, read(ledger, part.extent, scope))
    if isinstance(part, sympy.Integer):
        return Fixed(int(part))
    if isinstance(part, Indexed):
        atom = _entry_atom(ledger, part, scope)
        return position(from_atom(atom)) if isinstance(part.base, Lengths) else atom
    if isinstance(part, (sympy.Add, Dim)):
        return position(read(ledger, part, scope))
    raise StatementError(f"{part}: expected an index")


def _entry_atom(ledger: Ledger, node: Any, scope: Scope) -> Entry:
    base: Tensor = node.base
    where = tuple(index_atom(ledger, part, scope) for part in node.indices)
    into = read(ledger, base.into, scope) if base.into is not None else None
    return Entry(str(base.name), where, "+" if base.positive else "", bool(base.label.is_integer), into)


def _entry(ledger: Ledger, node: Any, scope: Scope) -> Polynomial:
    atom = _entry_atom(ledger, node, scope)
    return rewriting.rewritten(ledger, atom) or from_atom(atom)


def _add(ledger: Ledger, node: Any, scope: Scope) -> Polynomial:
    return total(read(ledger, term, scope) for term in node.args)


def _mul(ledger: Ledger, node: Any, scope: Scope) -> Polynomial:
    return products.product(ledger, [read(ledger, factor, scope) for factor in node.args])


def _read_positive(ledger: Ledger, node: Any, scope: Scope) -> Polynomial:
    """The normal form of a base or an argument of log, remembered as positive where its structure shows it."""
    inside = read(ledger, node, scope)
    facts = signs.reasons_positive(node)
    if facts is not None and inside.constant() is None:
        ledger.know_positive(inside)
        for fact in facts:
            ledger.rest_on(fact)
    else:
        ledger.remember_writing(inside, partial(shown, node, scope))
    return inside


def shown(node: Any, scope: Scope) -> str:
    """How a reader writes a part of the statement, bound indices by the names that they have in the ledger."""
    text = str(node).replace("~", "not ")
    for index, var in scope.items():
        text = re.sub(rf"\b{re.escape(index.name)}\b", var.name, text)
    return text


def _pow(ledger: Ledger, node: Any, scope: Scope) -> Polynomial:
    base, exponent = node.args
    if exponent.is_Rational and exponent.is_nonnegative and exponent.is_integer:
        return powers.power(ledger, read(ledger, base, scope), int(exponent))
    inside = _read_positive(ledger, base, scope)
    if exponent.is_Rational:
        return powers.power(ledger, inside, ratio(int(exponent.p), int(exponent.q)))
    if isinstance(exponent, sympy.Float):
        return powers.power(ledger, inside, Fraction(str(exponent)))
    return powers.general_power(ledger, inside, read(ledger, exponent, scope))


def _exp(ledger: Ledger, node: Any, scope: Scope) -> Polynomial:
    return powers.exponential(ledger, read(ledger, node.args[0], scope))


def _log(ledger: Ledger, node: Any, scope: Scope) -> Polynomial:
    return logarithms.logarithm(ledger, _read_positive(ledger, node.args[0], scope))


def _sum(ledger: Ledger, node: Any, scope: Scope) -> Polynomial:
    below = shares.divided_by(node)
    if below is not None:
        whole = _read_positive(ledger, below, scope)
        if splitting.first_bracket(whole) is not None:  # an inverse would be split by cases
            return shares.added(ledger, whole)
    inner, bound = _bound(ledger, node, scope)
    return sums.sum_over(ledger, bound, read(ledger, node.function, inner))


def _product(ledger: Ledger, node: Any, scope: Scope) -> Polynomial:
    inner, bound = _bound(ledger, node, scope)
    result = read(ledger, node.function, inner)
    for var in reversed(bound):
        result = ranged_products.product_over(ledger, var, result)
    return result


def _bound(ledger: Ledger, node: Any, scope: Scope) -> tuple[Scope, list[Var]]:
    inner, bound = dict(scope), []
    for index, *_ in reversed(node.limits):
        var = ledger.fresh_var(read(ledger, index.extent, inner))
        # Indices whose range depends on an outer one are found again by name and range, as the statement wrote them.
        inner[index] = var
        bound.append(var)
    return inner, bound


def _delta(ledger: Ledger, node: Any, scope: Scope) -> Polynomial:
    left, right = node.args[:2]
    if not all(side.is_integer and isinstance(side, POSITIONS) for side in (left, right)):
        return selections.equal(ledger, left, right, scope)  # s + 1 may lie between two positions
    return deltas.delta(ledger, index_atom(ledger, left, scope), index_atom(ledger, right, scope))


def _hyperbolic(ledger: Ledger, node: Any, scope: Scope) -> Polynomial:
    x = read(ledger, node.args[0], scope)
    up, down = powers.exponential(ledger, x), powers.exponential(ledger, x.scaled(-ONE))
    ledger.use(f"{node.func.__name__} by its definition in exp")
    if isinstance(node, sympy.cosh):
        return (up + down).scaled(ratio(1, 2))
    if isinstance(node, sympy.sinh):
        return (up - down).scaled(ratio(1, 2))
    return products.product(ledger, [up - down, powers.power(ledger, up + down, -ONE)])


def _erfc(ledger: Ledger, node: Any, scope: Scope) -> Polynomial:
    return UNITY - functions.applied(ledger, "erf", read(ledger, node.args[0], scope))


def _sign(ledger: Ledger, node: Any, scope: Scope) -> Polynomial:
    x = read(ledger, node.args[0], scope)
    return comparisons.bracket(ledger, x) - comparisons.bracket(ledger, x.scaled(-ONE))


def _function(ledger: Ledger, node: Any, scope: Scope) -> Polynomial:
    if not isinstance(node, (sympy.erf, sympy.sin, sympy.cos, sympy.atan)):
        raise StatementError(f"{node}: unknown function {type(node).__name__}")
    return functions.applied(ledger, node.func.__name__, read(ledger, node.args[0], scope))


def _operator(_ledger: Ledger, node: Any, _scope: Scope) -> Polynomial:
    raise NoLawError(f"{node}: the normal form has no law for this ({node.meaning}); give the claim a rule with by=...")


Reader = Callable[[Ledger, Any, Scope], Polynomial]
READERS: tuple[tuple[Any, Reader], ...] = (
    ((sympy.Rational, sympy.Float), _rational),
    (type(sympy.pi), lambda ledger, node, scope: from_atom(functions.PI)),
    (type(sympy.E), lambda ledger, node, scope: from_atom(Exp(UNIT))),
    (Dim, _size),
    (Scalar, _scalar),
    (Index, _index),
    (Indexed, _entry),
    (sympy.Add, _add),
    (sympy.Mul, _mul),
    (sympy.Pow, _pow),
    (sympy.exp, _exp),
    (sympy.log, _log),
    (sympy.Sum, _sum),
    (sympy.Product, _product),
    (KroneckerDelta, _delta),
    (Where, lambda ledger, node, scope: selections.where(ledger, node, scope)),  # which is made after this table
    ((sympy.tanh, sympy.sinh, sympy.cosh), _hyperbolic),
    (sympy.erfc, _erfc),
    (sympy.sign, _sign),
    (sympy.Function, _function),
    (OverInput, _operator),
)
