"""Names of exponentials are written in where something is divided by them, or a logarithm is taken of them.

The first of the algebraic passes (`codegen.passes`), on the statement: what is differentiated is what it leaves. A name
stands for a number, and exp(1e4) is none; a share of exp(-1e4) is 0. Written in, the exponential meets the factors of
its reader, and `codegen.stability` does the rest:

    Z = Sum(exp(x[j]), j)   p = exp(x[i]) / Z     p = exp(x[i]) / Sum(exp(x[j]), j)         the softmax of x
    p = softmax(x)          L = -log(p[k])        L = -log(softmax(x)[k])                   logsumexp(x) - x[k]
    p = sigmoid(x)          L = -log(1 - p)       L = -log(1 - 1/(1 + exp(-x)))             softplus(x)

Their slopes are in log space then as well: that of the last is a logistic function, where p'/(1 - p) would be 0/0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import sympy
from sympy import Add, Expr, Indexed, Mul, Pow

from codegen.networks import names_in
from codegen.rewriting import Changes, Definitions, Rewrite, Setting, name_of, written_in
from derive.binders import map_children, unshadowed
from derive.functions import unfold
from derive.program import Definition


def in_log_space(definitions: Definitions, setting: Setting) -> tuple[Definitions, tuple[Rewrite, ...]]:
    """The definitions with names of exponentials written in where they divide, or have their logarithm taken."""
    rewrites = log_space_rewrites(definitions, setting.forward)
    bodies = {rewrite.definition.name: rewrite.body for rewrite in rewrites}
    kept: list[Definition] = []
    read = set(setting.wanted)
    for definition in reversed(definitions):
        if definition.name in read:
            body = bodies.get(definition.name, definition.body)
            kept.insert(0, replace(definition, body=body))
            read |= names_in(body)
    return tuple(kept), rewrites


def log_space_rewrites(definitions: Sequence[Definition], given: Sequence[Definition] = ()) -> tuple[Rewrite, ...]:
    """What the pass does, definition by definition; `given` are those whose values are at hand."""
    exponentials = {known.name: known for known in given if _is_exponential(unfold(known.body))}
    rewrites: list[Rewrite] = []
    for definition in definitions:
        met: dict[str, Definition] = {}
        body = _resolved(definition.body, exponentials, met)
        if met:
            body = unshadowed(body)
            changes: Changes = tuple((known.left, known.body) for known in met.values())
            rewrites.append(Rewrite(definition, body, changes))
        if _is_exponential(unfold(body)):
            exponentials[definition.name] = replace(definition, body=body)
    return tuple(rewrites)


def _resolved(node: Any, exponentials: dict[str, Definition], met: dict[str, Definition]) -> Any:
    """The expression with exponentials written in under the powers and logarithms that it has."""
    inner = map_children(node, lambda part: _resolved(part, exponentials, met))
    if isinstance(inner, Pow) and inner.exp.is_negative:
        return _opened(inner.base, exponentials, met) ** inner.exp
    if isinstance(inner, sympy.log):
        return sympy.log(_opened(inner.args[0], exponentials, met))
    return inner


def _opened(node: Any, exponentials: dict[str, Definition], met: dict[str, Definition]) -> Any:
    """A divisor, or the argument of a logarithm, with the exponentials among its terms and factors written in."""
    if isinstance(node, (Add, Mul, Pow)):
        return node.func(*(_opened(part, exponentials, met) for part in node.args))
    known = exponentials.get(name_of(node)) if isinstance(node, (Indexed, sympy.Symbol)) else None
    if known is None:
        return node
    met[known.name] = known
    return written_in(node, known)


def _is_exponential(body: Expr) -> bool:
    """Whether a body is an exponential, a product or power with one, or a sum of nothing but such and numbers."""
    if isinstance(body, sympy.exp):
        return True
    if isinstance(body, Pow):
        return _is_exponential(body.base)
    if isinstance(body, Mul):
        return any(map(_is_exponential, body.args))
    if isinstance(body, sympy.Sum):
        return _is_exponential(body.function)
    if isinstance(body, Add):
        terms = [term for term in body.args if not term.is_number]
        return bool(terms) and all(map(_is_exponential, terms))
    return False
