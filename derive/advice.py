"""What a false claim lacks: the simple conditions under which it is true after all.

Beside `derive.prove`, whose verdict asks here when it is read. A refuted claim is specialised, one condition at a time:
two of its indices equal, a number 1 or 0, a tensor symmetric, constant along an axis, or normalised. A condition is a
*substitution* (B becomes (B + B^T)/2, y becomes y / Sum(y)), so that the specialised claim is an ordinary claim, which
the normal form proves and the second engine confirms. Only what is proved is said.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Any

import sympy
from sympy import Expr, Indexed

from derive.binders import all_names, free_indices, fresh_index, map_children, substitute, symbols_of
from derive.errors import AlarmError
from derive.exceptional import is_differentiable
from derive.language import Index, Lengths, Scalar, Sum, Tensor
from derive.prove import proof_of
from derive.refutation import confirm
from derive.statements import Claim, Definition

SECONDS_EACH, SECONDS = 0.3, 3.0  # for one condition, and for all of them
ATTEMPTS = 8  # ways of writing definitions in that are tried under one condition
MANY = 40  # definitions, or inputs; with more of them no conditions are tried


@dataclass(frozen=True)
class Special:
    """A claim under a condition, and how the condition is said."""

    text: str
    claim: Claim


def advice_on(claim: Claim, *, seed: int = 0) -> tuple[str, ...]:
    """The conditions under which a false claim is proved, such as "holds if B[i, j] = B[j, i]".

    Raises:
        AlarmError: the normal form proves what the second engine contradicts.
    """
    if claim.by is not None or len(claim.program.definitions) > MANY or len(_inputs(claim)) > MANY:
        return ()
    deadline = time.monotonic() + SECONDS
    said = []
    for special in special_cases(claim):
        remaining = min(SECONDS_EACH, deadline - time.monotonic())
        if remaining <= 0:
            break
        if any(side.has(sympy.zoo, sympy.nan, sympy.oo) for side in _everything(special.claim)):
            continue  # the condition leaves the statement without a value
        proof = proof_of(special.claim, seconds=remaining, attempts=ATTEMPTS)
        if proof is None or proof.narrows:
            continue  # what holds for positive bases only is not said to hold
        seen = confirm(special.claim, seed=seed)
        if seen.disagreement is not None and proof.may_leave_out(masked=seen.masked):
            continue
        if seen.disagreement is not None:
            raise AlarmError(
                f"internal alarm: claim {claim.id} of {claim.program.name} {special.text}, says the normal form, and "
                f"the second engine contradicts: {seen.disagreement}. Please report this statement."
            )
        if seen.points and not _vanishes(special.claim):
            said.append(special.text)
    return tuple(said)


def _everything(claim: Claim) -> list[Any]:
    return [claim.left, claim.right, *(definition.body for definition in claim.program.definitions)]


def _vanishes(claim: Claim) -> bool:
    """Whether both sides of a proved claim are 0, so that it says little: many gradients are 0 for constant tensors."""
    nothing = replace(claim, right=sympy.S.Zero)
    return claim.left != 0 and proof_of(nothing, seconds=SECONDS_EACH, attempts=ATTEMPTS) is not None


def special_cases(claim: Claim) -> Iterator[Special]:
    """The claim under each of the conditions, simplest first."""
    for kind in (
        _equal_indices,
        _exchanged_indices,
        _opposite_sign,
        _particular_numbers,
        _symmetric,
        _constant,
        _normalised,
    ):
        yield from kind(claim)


# ---------------------------------------------------------------------------------------------------------------------
# Conditions on the claim itself.


def _index_pairs(claim: Claim) -> Iterator[tuple[Index, Index]]:
    both = free_indices(claim.left) & free_indices(claim.right)
    for first, second in combinations(sorted(both, key=str), 2):
        if first.extent == second.extent:
            yield first, second


def _equal_indices(claim: Claim) -> Iterator[Special]:
    for first, second in _index_pairs(claim):
        sides = (substitute(side, {second: first}) for side in (claim.left, claim.right))
        left, right = sides
        yield Special(f"holds if {first} = {second}", replace(claim, left=left, right=right))


def _exchanged_indices(claim: Claim) -> Iterator[Special]:
    for first, second in _index_pairs(claim):
        right = substitute(claim.right, {first: second, second: first})
        text = f"holds with {first} and {second} exchanged on the right side, which is the transpose"
        yield Special(text, replace(claim, right=right))


def _opposite_sign(claim: Claim) -> Iterator[Special]:
    if claim.right != 0:
        yield Special("holds with the opposite sign on the right side", replace(claim, right=-claim.right))


# ---------------------------------------------------------------------------------------------------------------------
# Conditions on an input: a substitution in the sides and in every definition.


def _specialised(claim: Claim, change: Callable[[Any], Any]) -> Claim:
    """The claim with `change` applied to its sides and to the bodies of its program's definitions."""
    known = claim.program
    program = replace(
        known, definitions=[Definition(d.symbol, d.indices, change(d.body)) for d in known.definitions], claims=[]
    )
    return replace(
        claim,
        left=change(claim.left),
        right=change(claim.right),
        given=tuple(map(change, claim.given)),
        program=program,
    )


def _each_entry(base: Tensor, value: Callable[[Sequence[Expr]], Expr]) -> Callable[[Any], Any]:
    """The change that puts value(indices) in place of every entry of a tensor."""

    def change(node: Any) -> Any:
        if isinstance(node, Indexed) and node.base == base:
            return value([change(part) for part in node.indices])
        return map_children(node, change)

    return change


def _inputs(claim: Claim) -> list[Any]:
    """The real inputs that the claim depends on, by name."""
    used = symbols_of(claim.left) | symbols_of(claim.right)
    for definition in reversed(claim.program.definitions):
        if definition.symbol in used:
            used |= symbols_of(definition.body)
    defined = {definition.symbol for definition in claim.program.definitions}
    return sorted((known for known in used - defined if is_differentiable(known)), key=lambda known: str(known.name))


def _tensors(claim: Claim) -> list[Tensor]:
    """The tensors among them, without ragged ones: their axes cannot be exchanged or left out."""
    tensors = [known for known in _inputs(claim) if isinstance(known, Tensor)]
    return [known for known in tensors if not any(size.has(Lengths) for size in known.shape)]


def _particular_numbers(claim: Claim) -> Iterator[Special]:
    for known in _inputs(claim):
        if isinstance(known, Scalar):
            for number in (1,) if known.is_positive else (1, 0):
                change = partial(substitute, replacements={known: sympy.Integer(number)})
                yield Special(f"holds if {known} = {number}", _specialised(claim, change))


def _named(claim: Claim, base: Tensor) -> list[Index]:
    """Indices to write the entries of a tensor at, by the claim's own names where they fit."""
    chosen: list[Index] = []
    own = sorted(free_indices(claim.left) | free_indices(claim.right), key=str)
    for extent in base.shape:
        names = [i.name for i in own if i.extent == extent] + list("ijklabc")
        taken = {index.name for index in chosen}
        chosen.append(Index(next(name for name in names if name not in taken), extent))
    return chosen


def _symmetric(claim: Claim) -> Iterator[Special]:
    for base in _tensors(claim):
        if len(base.shape) == 2 and base.shape[0] == base.shape[1]:
            first, second = _named(claim, base)

            def value(at: Sequence[Expr], base: Tensor = base) -> Expr:
                return (base[at[0], at[1]] + base[at[1], at[0]]) / 2

            text = f"holds if {base[first, second]} = {base[second, first]}"
            yield Special(text, _specialised(claim, _each_entry(base, value)))


def _constant(claim: Claim) -> Iterator[Special]:
    """The claim for tensors that are the same all along one of their axes."""
    for base in _tensors(claim):
        for axis in range(len(base.shape)):
            rest = [size for place, size in enumerate(base.shape) if place != axis]
            like: Any = (
                Tensor(str(base.name), rest, positive=base.positive)
                if rest
                else Scalar(str(base.name), positive=base.positive)
            )

            def value(at: Sequence[Expr], axis: int = axis, like: Any = like) -> Expr:
                kept = tuple(part for place, part in enumerate(at) if place != axis)
                return like[kept] if kept else like

            text = f"holds if {base.name} is constant{f' along axis {axis}' if rest else ''}"
            yield Special(text, _specialised(claim, _each_entry(base, value)))


def _normalised(claim: Claim) -> Iterator[Special]:
    taken = all_names(claim.left) | all_names(claim.right)
    taken = taken.union(*(all_names(definition.body) for definition in claim.program.definitions))
    for base in _tensors(claim):
        shown = _named(claim, base)
        for axis, size in enumerate(base.shape):
            bound = fresh_index(Index(shown[axis].name, size), taken)

            def value(at: Sequence[Expr], base: Tensor = base, axis: int = axis, bound: Index = bound) -> Expr:
                moved = [bound if place == axis else part for place, part in enumerate(at)]
                return base[tuple(at)] / Sum(base[tuple(moved)], bound)

            text = f"holds if {Sum(base[tuple(shown)], shown[axis])} = 1"
            yield Special(text, _specialised(claim, _each_entry(base, value)))
