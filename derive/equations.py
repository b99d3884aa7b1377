"""Equational hypotheses, read for the normal form: solved for each other as far as they can be, the rest kept as zeros.

Between `derive.attempts`, which asks for a proof, and `derive.normal.rewriting`, which puts one side of an equation in
place of the other. Like a linear system, equations are solved one after the other, each with those before it put in;
then it is put into those, so that none mentions what another one replaces: of s + r = 0 and s - r = 0 come s = 0 and
r = 0. An entry that is 0 beside brackets, A[i, j] [j > i] = 0, is itself beside the opposite ones. An equation in which
no single term stands for the rest, x^2 + y^2 = 1, is kept as a difference that is zero (`derive.normal.vanishing`).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from derive.normal.form import normal_form
from derive.normal.injective import without_exponentials, without_functions
from derive.normal.ledger import Ledger
from derive.normal.positivity import note_positive
from derive.normal.products import product
from derive.normal.rewriting import Rewrite, cofactors, masking, mentions, solved
from derive.normal.terms import ONE, ZERO, Polynomial
from derive.normal.vanishing import Vanishing, vanishing

__all__ = ["read_equations"]


@lru_cache(maxsize=2_000)
def _text_of(equation: Any) -> str:
    return str(equation)


def read_equations(ledger: Ledger, equations: Iterable[Any], reasons: list[str]) -> tuple[Vanishing, ...]:
    """What is zero by the equations that are not used as rewrites; the ledger is given the rewrites.

    Why an equation is of no use as a rewrite is added to the reasons.
    """
    rewrites: dict[Any, Rewrite] = {}
    unsolved: list[Any] = []
    for equation in dict.fromkeys(equations):
        left, right = _sides(ledger, equation, rewrites)
        rewrite = _solved(ledger, left, right, _text_of(equation))
        if rewrite is not None:
            before = [known.replacement for known in rewrites.values()]
            rewrites[equation] = rewrite
            if any(mentions(replacement, rewrite.pattern) for replacement in before):
                _put_in_each_other(ledger, rewrites)
        elif (left - right).constant():
            reasons.append(f"the hypothesis {equation} contradicts the ones before it")
        elif not (left - right).is_zero:
            unsolved.append(equation)
    for equation in tuple(unsolved):  # last, for what is rewritten to itself beside brackets is not solved for again
        left, right = _sides(ledger, equation, rewrites)
        mask = masking(ledger, left - right, _text_of(equation))
        if mask is None:
            reasons.append(f"the hypothesis {equation} could not be used: no single term stands for the rest")
        else:
            rewrites[equation] = mask
            unsolved.remove(equation)
    ledger.rewrites = tuple(rewrites.values())
    rest = ((_text_of(equation), _sides(ledger, equation, rewrites)) for equation in unsolved)
    return tuple(vanishing(left - right, text) for text, (left, right) in rest if not (left - right).is_zero)


def _put_in_each_other(ledger: Ledger, rewrites: dict[Any, Rewrite]) -> None:
    """Solve each equation again whose rewrite mentions what another one replaces, until none does or it goes on."""
    for _ in range(len(rewrites) - 1):
        stale = [
            equation
            for equation, known in rewrites.items()
            if any(other is not known and mentions(known.replacement, other.pattern) for other in rewrites.values())
        ]
        for equation in stale:
            others = {other: own for other, own in rewrites.items() if other != equation}
            again = _solved(ledger, *_sides(ledger, equation, others), rewrites[equation].text)
            rewrites[equation] = again if again is not None else rewrites[equation]
        if not stale:
            return


def _solved(ledger: Ledger, left: Polynomial, right: Polynomial, text: str) -> Rewrite | None:
    """The equation solved for an atom that stands alone, or else for one that is multiplied by something positive.

    What functions with an inverse are of comes first, and what exponentials are of where nothing stands alone.
    """
    inside = without_functions(ledger, left - right)
    rewrite = _solved(ledger, inside, ZERO, text) if inside is not None else None
    rewrite = rewrite or solved(left, right, text)
    if rewrite is not None:
        return rewrite
    for cofactor in cofactors(ledger, left - right):
        inverse = Polynomial({tuple((atom, -power) for atom, power in cofactor): ONE})
        rewrite = solved(product(ledger, [left - right, inverse]), ZERO, text)
        if rewrite is not None:
            note_positive(ledger, cofactor)
            return rewrite
    inside = without_exponentials(ledger, left - right)
    return _solved(ledger, inside, ZERO, text) if inside is not None else None


def _sides(ledger: Ledger, equation: Any, rewrites: dict[Any, Rewrite]) -> tuple[Polynomial, Polynomial]:
    """Both sides in normal form, with the rewrites put in."""
    ledger.rewrites = tuple(rewrites.values())
    left, right = (normal_form(ledger, side) for side in equation.args)
    return left, right
