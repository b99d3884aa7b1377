"""A normal polynomial as a reader writes it: r - 1 instead of -1*1 + r, r**T instead of exp(T*ln(r)).

Used by `derive.normal.ledger` for the hypotheses of a verdict, where the statement has no words of its own. Nothing is
computed here. Bound indices keep the names they have in the normal form; `derive.verdicts.readable` gives them letters.
"""

from __future__ import annotations

from derive.normal.terms import (
    UNIT,
    Apply,
    Atom,
    Base,
    Bracket,
    Delta,
    Exp,
    Log,
    Monomial,
    Polynomial,
    Prod,
    Rational,
    Total,
    magnitude,
    monomial_key,
)

SUM, PRODUCT, POWER, ATOM = range(4)  # how tightly a text binds, loosest first
Text = tuple[str, int]


def worded(polynomial: Polynomial) -> str:
    """The polynomial in the notation of the language, constants last."""
    return _sum(polynomial)[0]


def _sum(polynomial: Polynomial) -> Text:
    terms = sorted(polynomial.terms.items(), key=lambda term: (term[0] == UNIT, term[1] < 0, monomial_key(term[0])))
    if not terms:
        return "0", ATOM
    if len(terms) == 1:
        return _term(*terms[0])
    text = ""
    for monomial, coefficient in terms:
        shown = _bound(_term(monomial, magnitude(coefficient)), PRODUCT)
        sign = "-" if coefficient < 0 else "+"
        text = f"{text} {sign} {shown}" if text else shown if coefficient > 0 else f"-{shown}"
    return text, SUM


def _term(monomial: Monomial, coefficient: Rational) -> Text:
    above = [_power(atom, power) for atom, power in monomial if power > 0 or isinstance(atom, Exp)]
    below = [_power(atom, -power) for atom, power in monomial if power < 0 and not isinstance(atom, Exp)]
    if abs(coefficient.numerator) != 1 or not above:
        above = [(str(abs(coefficient.numerator)), ATOM), *above]
    if coefficient.denominator != 1:
        below = [(str(coefficient.denominator), ATOM), *below]
    text, binding = _product(above)
    if below:
        under = _product(below)
        text, binding = f"{_bound((text, binding), PRODUCT)}/{_bound(under, POWER)}", PRODUCT
    return (f"-{_bound((text, binding), PRODUCT)}", PRODUCT) if coefficient < 0 else (text, binding)


def _product(factors: list[Text]) -> Text:
    return factors[0] if len(factors) == 1 else ("*".join(_bound(factor, PRODUCT) for factor in factors), PRODUCT)


def _power(atom: Atom, power: Rational) -> Text:
    if isinstance(atom, Exp):
        return _exponential(atom, power)
    base = _atom(atom)
    if power == 1:
        return base
    if 2 * power == 1:
        return f"sqrt({base[0]})", ATOM
    shown = str(power) if power.denominator == 1 and power > 0 else f"({power})"
    return f"{_bound(base, ATOM)}**{shown}", POWER


def _exponential(atom: Exp, power: Rational) -> Text:
    formal = next((inner for inner, e in atom.monomial if isinstance(inner, Log) and inner.formal and e == 1), None)
    if formal is None:
        return f"exp({worded(Polynomial({atom.monomial: power}))})", ATOM
    rest = tuple(pair for pair in atom.monomial if pair[0] != formal)
    exponent = _sum(Polynomial({rest: power}))
    return f"{_bound(_sum(formal.inside), ATOM)}**{_bound(exponent, ATOM)}", POWER


def _atom(atom: Atom) -> Text:
    if isinstance(atom, Base):
        return _sum(atom.inside)
    if isinstance(atom, Log):
        return f"log({worded(atom.inside)})", ATOM
    if isinstance(atom, Apply):
        return f"{atom.function}({worded(atom.argument)})", ATOM
    if isinstance(atom, Bracket):
        return f"[{worded(atom.inside)} > 0]", ATOM
    if isinstance(atom, Delta):
        return f"[{atom.left.key} = {atom.right.key}]", ATOM
    if isinstance(atom, Total):
        ranges = ",".join(f"{var.name}<{worded(var.extent)}" for var in atom.bound)
        return f"sum[{ranges}]({worded(Polynomial({atom.monomial: 1}))})", ATOM
    if isinstance(atom, Prod):
        return f"prod[{atom.bound.name}<{worded(atom.bound.extent)}]({worded(atom.inside)})", ATOM
    return atom.key, ATOM


def _bound(text: Text, at_least: int) -> str:
    """The text, in parentheses where it does not bind as tightly as its place asks for."""
    return text[0] if text[1] >= at_least else f"({text[0]})"
