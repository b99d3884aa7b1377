"""From a SymPy expression to its normal form, and the test whether it is zero.

The entrance of the decision procedure. `normal_form` reads an expression bottom up, one row of READERS for each kind
of node; bound indices get fresh names as they are met. `is_zero` is the question every proof ends in: left - right = 0?
What the normal form leaves open about quotients is settled there by a common denominator: the whole is multiplied by
every base that still stands under a negative power.

SOUND: every step is an identity over the reals wherever both sides are defined, under the hypotheses in the ledger.
INCOMPLETE: identities between functions of which only the parity is known (erf, atan), and rational identities inside a
sum whose terms have different denominators, can be missed. A miss is Undecided or Refuted by numbers, never Proved.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import sympy
from sympy import Indexed, KroneckerDelta, Rational

from derive.errors import NoLawError, StatementError
from derive.functions import unfold
from derive.language import Dim, Flag, Index, Lengths, Scalar, Tensor, Where, extent_of
from derive.normal import (
    case_analysis,
    comparisons,
    functions,
    positivity,
    powers,
    products,
    ranged_products,
    renaming,
    rewriting,
    signs,
    sums,
)
from derive.normal.ledger import Ledger
from derive.normal.terms import (
    ONE,
    UNIT,
    UNITY,
    ZERO,
    Atom,
    Base,
    Constant,
    Entry,
    Exp,
    Fixed,
    Polynomial,
    Var,
    from_atom,
    number,
    position,
    total,
)
from derive.operators import OverInput

Scope = Mapping[Index, Var]
MAX_ROUNDS = 6  # of clearing denominators; each one that does something removes the outermost level of quotients


def normal_form(ledger: Ledger, expression: Any, scope: Scope | None = None) -> Polynomial:
    """The normal form of a well-formed expression.

    Raises:
        StatementError: the expression has no value anywhere (division by zero), or is not of the language.
        BudgetExceededError: it takes more terms or time than the ledger allows.
    """
    return _read(ledger, unfold(expression), scope or {})


def _read(ledger: Ledger, node: Any, scope: Scope) -> Polynomial:
    ledger.spend()
    for kind, reader in READERS:
        if isinstance(node, kind):
            return reader(ledger, node, scope)
    raise StatementError(f"{node}: {type(node).__name__} has no normal form")


def _rational(_ledger: Ledger, node: Any, _scope: Scope) -> Polynomial:
    # A decimal is read as it was written: 0.1 is one tenth.
    value = Rational(str(node)) if isinstance(node, sympy.Float) else node
    return number(Fraction(int(value.p), int(value.q)))


def _size(_ledger: Ledger, node: Any, _scope: Scope) -> Polynomial:
    return from_atom(Entry(node.name, (), "+", True))


def _scalar(ledger: Ledger, node: Any, _scope: Scope) -> Polynomial:
    atom = Entry(node.name, (), "+" if node.is_positive else "", bool(node.is_integer))
    return rewriting.rewritten(ledger, atom) or from_atom(atom)


def _index(_ledger: Ledger, node: Any, scope: Scope) -> Polynomial:
    return from_atom(_position(_ledger, node, scope))


def _position(ledger: Ledger, part: Any, scope: Scope) -> Atom:
    """An index expression as an atom."""
    if isinstance(part, Index):
        return scope[part] if part in scope else Var(part.name, _read(ledger, part.extent, scope))
    if isinstance(part, sympy.Integer):
        return Fixed(int(part))
    if isinstance(part, Indexed):
        atom = _entry_atom(ledger, part, scope)
        return position(from_atom(atom)) if isinstance(part.base, Lengths) else atom
    if isinstance(part, (sympy.Add, Dim)):
        return position(_read(ledger, part, scope))
    raise StatementError(f"{part}: expected an index")


def _entry_atom(ledger: Ledger, node: Any, scope: Scope) -> Entry:
    base: Tensor = node.base
    where = tuple(_position(ledger, part, scope) for part in node.indices)
    into = _read(ledger, base.into, scope) if base.into is not None else None
    return Entry(str(base.name), where, "+" if base.positive else "", bool(base.label.is_integer), into)


def _entry(ledger: Ledger, node: Any, scope: Scope) -> Polynomial:
    atom = _entry_atom(ledger, node, scope)
    return rewriting.rewritten(ledger, atom) or from_atom(atom)


def _add(ledger: Ledger, node: Any, scope: Scope) -> Polynomial:
    return total(_read(ledger, term, scope) for term in node.args)


def _mul(ledger: Ledger, node: Any, scope: Scope) -> Polynomial:
    return products.product(ledger, [_read(ledger, factor, scope) for factor in node.args])


def _read_positive(ledger: Ledger, node: Any, scope: Scope) -> Polynomial:
    """The normal form of a base or an argument of log, remembered as positive where its structure shows it."""
    inside = _read(ledger, node, scope)
    facts = signs.reasons_positive(node)
    if facts is not None and inside.constant() is None:
        ledger.know_positive(inside)
        for fact in facts:
            ledger.rest_on(fact)
    else:
        ledger.remember_writing(inside, _shown(node, scope))
    return inside


def _shown(node: Any, scope: Scope) -> str:
    """How a reader writes a part of the statement, bound indices by the names that they have in the ledger."""
    text = str(node).replace("~", "not ")
    for index, var in scope.items():
        text = re.sub(rf"\b{re.escape(index.name)}\b", var.name, text)
    return text


def _pow(ledger: Ledger, node: Any, scope: Scope) -> Polynomial:
    base, exponent = node.args
    if exponent.is_Rational and exponent.is_nonnegative and exponent.is_integer:
        return powers.power(ledger, _read(ledger, base, scope), Fraction(int(exponent)))
    inside = _read_positive(ledger, base, scope)
    if exponent.is_Rational:
        return powers.power(ledger, inside, Fraction(int(exponent.p), int(exponent.q)))
    if isinstance(exponent, sympy.Float):
        return powers.power(ledger, inside, Fraction(str(exponent)))
    return powers.general_power(ledger, inside, _read(ledger, exponent, scope))


def _exp(ledger: Ledger, node: Any, scope: Scope) -> Polynomial:
    return powers.exponential(ledger, _read(ledger, node.args[0], scope))


def _log(ledger: Ledger, node: Any, scope: Scope) -> Polynomial:
    return powers.logarithm(ledger, _read_positive(ledger, node.args[0], scope))


def _sum(ledger: Ledger, node: Any, scope: Scope) -> Polynomial:
    inner, bound = _bound(ledger, node, scope)
    return sums.sum_over(ledger, bound, _read(ledger, node.function, inner))


def _product(ledger: Ledger, node: Any, scope: Scope) -> Polynomial:
    inner, bound = _bound(ledger, node, scope)
    result = _read(ledger, node.function, inner)
    for var in reversed(bound):
        result = ranged_products.product_over(ledger, var, result)
    return result


def _bound(ledger: Ledger, node: Any, scope: Scope) -> tuple[Scope, list[Var]]:
    inner, bound = dict(scope), []
    for index, *_ in reversed(node.limits):
        var = ledger.fresh_var(_read(ledger, index.extent, inner))
        # Indices whose range depends on an outer one are found again by name and range, as the statement wrote them.
        inner[index] = var
        bound.append(var)
    return inner, bound


def _delta(ledger: Ledger, node: Any, scope: Scope) -> Polynomial:
    return products.delta(ledger, *(_position(ledger, part, scope) for part in node.args[:2]))


def _where(ledger: Ledger, node: Any, scope: Scope) -> Polynomial:
    condition, *cases = node.args
    held = _condition(ledger, condition, scope)
    if held.constant() is not None:
        return _read(ledger, cases[held.is_zero], scope)  # the other case need not have a value
    yes = _read_case(ledger, held, condition, cases[0], scope)
    no = _read_case(ledger, UNITY - held, sympy.Not(condition), cases[1], scope)
    gap, difference = yes - no, _difference(ledger, condition, scope)
    if difference is not None and _is_multiple(gap, difference):
        # The cases meet where the two sides are equal, so that it does not matter which way the comparison is written.
        ledger.use("p [p > 0] = p - p [p < 0]")
        if products.leading_term(difference)[1] > 0:
            return no + products.product(ledger, [comparisons.bracket(ledger, difference), gap])
        return yes - products.product(ledger, [comparisons.bracket(ledger, difference.scaled(-ONE)), gap])
    held = _condition(ledger, condition, scope)
    return products.product(ledger, [held, yes]) + products.product(ledger, [UNITY - held, no])


def _read_case(ledger: Ledger, form: Polynomial, condition: Any, case: Any, scope: Scope) -> Polynomial:
    """One case of a selection; what it needs to have a value, it needs where its condition holds."""
    with ledger.within(form, _shown(condition, scope)):
        return _read(ledger, case, scope)


def _difference(ledger: Ledger, condition: Any, scope: Scope) -> Polynomial | None:
    """The polynomial p of a comparison p > 0 or p >= 0, None for any other condition."""
    if not isinstance(condition, (sympy.Gt, sympy.Ge, sympy.Lt, sympy.Le)):
        return None
    return _read(ledger, condition.gts, scope) - _read(ledger, condition.lts, scope)


def _is_multiple(polynomial: Polynomial, of: Polynomial) -> bool:
    """Whether the polynomial is a rational number times the other one, which is not 0."""
    ratios = {c / of.terms[m] if m in of.terms else None for m, c in polynomial.terms.items()}
    return len(ratios) == 1 and None not in ratios and len(polynomial.terms) == len(of.terms)


def _condition(ledger: Ledger, node: Any, scope: Scope) -> Polynomial:
    """A condition as a polynomial with values 0 and 1."""
    if node == sympy.true or node == sympy.false:
        return UNITY if node == sympy.true else ZERO
    if isinstance(node, Flag):
        return from_atom(Entry(node.name, (), "01"))
    if isinstance(node, sympy.Not):
        return UNITY - _condition(ledger, node.args[0], scope)
    if isinstance(node, (sympy.And, sympy.Or)):
        parts = [_condition(ledger, part, scope) for part in node.args]
        if isinstance(node, sympy.And):
            return products.product(ledger, parts)
        return UNITY - products.product(ledger, [UNITY - part for part in parts])
    for kind, reader in COMPARISONS:
        if isinstance(node, kind):
            left, right = node.args
            return reader(ledger, left, right, scope)
    raise StatementError(f"{node}: expected a condition")


def _greater(ledger: Ledger, left: Any, right: Any, scope: Scope) -> Polynomial:
    return comparisons.bracket(ledger, _read(ledger, left, scope) - _read(ledger, right, scope))


def _equal(ledger: Ledger, left: Any, right: Any, scope: Scope) -> Polynomial:
    if all(_is_position(side) for side in (left, right)):
        return products.delta(ledger, _position(ledger, left, scope), _position(ledger, right, scope))
    neither = [UNITY - _greater(ledger, *sides, scope) for sides in ((left, right), (right, left))]
    return products.product(ledger, neither)


def _is_position(side: Any) -> bool:
    """Whether one side of an equation is an index expression, so that the equation is a delta."""
    plain = isinstance(side, (Index, Indexed, sympy.Integer)) and side.is_integer
    return bool(plain) or (isinstance(side, sympy.Add) and extent_of(side) is not None)


COMPARISONS: tuple[tuple[Any, Callable[[Ledger, Any, Any, Scope], Polynomial]], ...] = (
    (sympy.StrictGreaterThan, _greater),
    (sympy.StrictLessThan, lambda ledger, left, right, scope: _greater(ledger, right, left, scope)),
    (sympy.GreaterThan, lambda ledger, left, right, scope: UNITY - _greater(ledger, right, left, scope)),
    (sympy.LessThan, lambda ledger, left, right, scope: UNITY - _greater(ledger, left, right, scope)),
    (sympy.Equality, _equal),
    (sympy.Unequality, lambda ledger, left, right, scope: UNITY - _equal(ledger, left, right, scope)),
)


def _hyperbolic(ledger: Ledger, node: Any, scope: Scope) -> Polynomial:
    x = _read(ledger, node.args[0], scope)
    up, down = powers.exponential(ledger, x), powers.exponential(ledger, x.scaled(-ONE))
    ledger.use(f"{node.func.__name__} by its definition in exp")
    if isinstance(node, sympy.cosh):
        return (up + down).scaled(Fraction(1, 2))
    if isinstance(node, sympy.sinh):
        return (up - down).scaled(Fraction(1, 2))
    return products.product(ledger, [up - down, powers.power(ledger, up + down, -ONE)])


def _erfc(ledger: Ledger, node: Any, scope: Scope) -> Polynomial:
    return UNITY - functions.applied(ledger, "erf", _read(ledger, node.args[0], scope))


def _sign(ledger: Ledger, node: Any, scope: Scope) -> Polynomial:
    x = _read(ledger, node.args[0], scope)
    return comparisons.bracket(ledger, x) - comparisons.bracket(ledger, x.scaled(-ONE))


def _function(ledger: Ledger, node: Any, scope: Scope) -> Polynomial:
    if not isinstance(node, (sympy.erf, sympy.sin, sympy.cos, sympy.atan)):
        raise StatementError(f"{node}: unknown function {type(node).__name__}")
    return functions.applied(ledger, node.func.__name__, _read(ledger, node.args[0], scope))


def _operator(_ledger: Ledger, node: Any, _scope: Scope) -> Polynomial:
    raise NoLawError(f"{node}: the normal form has no law for this ({node.meaning}); give the claim a rule with by=...")


Reader = Callable[[Ledger, Any, Scope], Polynomial]
READERS: tuple[tuple[Any, Reader], ...] = (
    ((sympy.Rational, sympy.Float), _rational),
    (type(sympy.pi), lambda ledger, node, scope: from_atom(Constant("\N{GREEK SMALL LETTER PI}"))),
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
    (Where, _where),
    ((sympy.tanh, sympy.sinh, sympy.cosh), _hyperbolic),
    (sympy.erfc, _erfc),
    (sympy.sign, _sign),
    (sympy.Function, _function),
    (OverInput, _operator),
)


# ---------------------------------------------------------------------------------------------------------------------


def condition_form(ledger: Ledger, condition: Any) -> Polynomial:
    """A condition as a polynomial with values 0 and 1."""
    return _condition(ledger, unfold(condition), {})


def is_zero(ledger: Ledger, polynomial: Polynomial) -> bool:
    """Whether a normal polynomial is zero, after bringing it to a common denominator."""
    for _ in range(MAX_ROUNDS):
        if polynomial.is_zero:
            return True
        cleared = _cleared(ledger, polynomial)
        if cleared is None:
            return _is_zero_everywhere(ledger, polynomial) or case_analysis.is_zero_by_cases(ledger, polynomial)
        ledger.use("common denominator")
        polynomial = cleared
    return polynomial.is_zero


def _is_zero_everywhere(ledger: Ledger, polynomial: Polynomial) -> bool:
    """Whether a polynomial is zero at each position of a free index with a short range; False without such an index."""
    atoms = {atom for monomial in polynomial.terms for factor, _ in monomial for atom in rewriting.index_atoms(factor)}
    short = [atom for atom in atoms if isinstance(atom, Var) and products.is_short(atom.extent)]
    index = min((atom for atom in short if atom.name in polynomial.free), key=lambda atom: atom.key, default=None)
    if index is None:
        return False
    ledger.use("an index of a short range, position by position")
    places = range(int(index.extent.constant() or 0))
    return all(is_zero(ledger, renaming.renamed(ledger, polynomial, {index.name: Fixed(place)})) for place in places)


def _cleared(ledger: Ledger, polynomial: Polynomial) -> Polynomial | None:
    """The polynomial times every base it is divided by; None when it is divided by none.

    Multiplying by B^k loses nothing where B != 0, and B != 0 wherever B^-k has a value. A sine counts as a base,
    because its square is written with the cosine.
    """
    lowest: dict[Atom, int] = {}
    for monomial in polynomial.terms:
        for atom, power in monomial:
            if (isinstance(atom, Base) or products.is_sine(atom)) and power < 0:
                lowest[atom] = min(lowest.get(atom, 0), math.floor(power))
    for base in sorted(lowest, key=lambda atom: atom.key):
        if ledger.partial and not base.positive:  # a base that was divided by in some branches now is in all
            positivity.assume(ledger, base.inside if isinstance(base, Base) else from_atom(base), "!= 0")
        # Each exponent is lifted before anything is multiplied out, so that no quotient is reduced half-way.
        terms = []
        for monomial, coefficient in polynomial.ordered():
            powers_ = dict(monomial)
            powers_[base] = powers_.get(base, Fraction(0)) - lowest[base]
            terms.append(products.normal_monomial(ledger, coefficient, powers_.items()))
        polynomial = total(terms)
    return polynomial if lowest else None
