"""Jacobian-vector products: forward mode over a program, every tangent a named definition.

A sibling of `derive.gradient`. Given tangents tX of some inputs, the tangent of Y = f(X) is the sum over the leaves
of f of the derivative at the leaf times the leaf's tangent. The derivative at a leaf is what `derive.differentiation`
pulls back from a cotangent of 1, so both modes rest on the same rules and on the same axiom.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sympy import Add, Expr, Indexed, S

from derive.binders import unshadowed
from derive.differentiation import contracted_sum, pull_back
from derive.errors import StatementError
from derive.exceptional import is_differentiable, record_points
from derive.folding import Known, fold
from derive.gradient import Gradient, depends_on, differentiated_form, influenced_by
from derive.language import Index, Scalar, Tensor, axis_sizes, entry, listed
from derive.program import Program
from derive.requests import check_names_of
from derive.statements import Definition, Name


def forward(program: Program, output: Name, wrt: Sequence[Name], prefix: str) -> Gradient:
    """The program extended by the tangents of everything between `wrt` and `output`; its `["tY"]` is that of Y.

    Raises:
        StatementError: the output does not depend on a `wrt` name, or the name of a tangent is taken.
    """
    check_names_of("tangent", (output,), program.name)
    needed = depends_on(program, output)
    every = tuple(x for x in program.all_inputs() if is_differentiable(x) and x in needed)
    sources = listed(wrt, f"{program.name}: tangent wrt", "names") or every
    for source in sources:
        if source not in needed:
            raise StatementError(f"{program.name}: {output} does not depend on {source}")
    active = needed & influenced_by(program, sources)
    tangents: dict[Any, Name] = {symbol: _like(symbol, prefix) for symbol in sources}
    made = Gradient(
        f"{program.name}_tangent",
        f"tangents of {program.name}",
        [*program.inputs, *tangents.values()],
        list(program.definitions),
        forward=program,
        output=output,
    )
    at_hand = Known.of(program.definitions)
    known = set(program.names()) | {str(symbol.name) for symbol in program.all_inputs()}
    for definition in program.definitions:
        if definition.symbol not in active:
            continue
        record_points(made, [definition], program, active)
        name = f"{prefix}{definition.name}"
        if name in known:
            raise StatementError(f"{made.name}: the tangent's name {name} is taken; choose another prefix")
        body = unshadowed(fold(_tangent(definition, program, tangents), at_hand))
        symbol: Name = Tensor(name, axis_sizes(definition.indices)) if definition.indices else Scalar(name)
        tangents[definition.symbol] = symbol
        made.definitions.append(Definition(symbol, definition.indices, body))
    for value, tangent in tangents.items():
        made.adjoints[str(value.name)] = str(tangent.name)
    return made


def _like(symbol: Name, prefix: str) -> Name:
    name = f"{prefix}{symbol.name}"
    return Tensor(name, symbol.shape) if isinstance(symbol, Tensor) else Scalar(name)


def _tangent(definition: Definition, program: Program, tangents: dict[Any, Name]) -> Expr:
    terms = []
    scope: tuple[Index, ...] = definition.indices
    body = differentiated_form(definition.body, program)
    for found in pull_back(body, S.One, scope, lambda leaf: leaf in tangents):
        leaf = found.leaf.base if isinstance(found.leaf, Indexed) else found.leaf
        where = found.leaf.indices if isinstance(found.leaf, Indexed) else ()
        inner = [index for index in found.scope if index not in scope]
        terms.append(contracted_sum(found.cotangent * entry(tangents[leaf], where), inner))
    return Add(*terms)
