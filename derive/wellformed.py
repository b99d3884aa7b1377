"""What a well-formed statement is: one table of rules, read top to bottom.

Second stage of the data flow. Every body of a definition and both sides of a claim pass through `check_expression`
before anything is derived from them. A rule looks at one node and its scope and either returns None or says what is
wrong, naming the object, what was expected and what was found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import sympy
from sympy import Indexed, IndexedBase, KroneckerDelta, Piecewise, Symbol
from sympy.core.relational import Relational
from sympy.core.symbol import Str
from sympy.functions.elementary.piecewise import ExprCondPair
from sympy.logic.boolalg import And, Boolean, BooleanAtom, Not, Or

from derive.binders import Scope, free_indices, leaves_of, node_count, scope_of
from derive.errors import StatementError
from derive.functions import DEFINITIONS, Defined
from derive.language import Dim, Flag, Index, Lengths, Scalar, Tensor, Where, check_entry, condition_of, extent_of
from derive.operators import OverInput
from derive.symbols import are_comparable

SCALAR_FUNCTIONS: tuple[type, ...] = (
    sympy.exp, sympy.log, sympy.erf, sympy.erfc, sympy.tanh, sympy.sinh, sympy.cosh, sympy.sin, sympy.cos,
    sympy.atan, sympy.Abs, sympy.sign, sympy.Max, sympy.Min,
)  # fmt: skip
STRUCTURE: tuple[type, ...] = (
    sympy.Add, sympy.Mul, sympy.Pow, sympy.Sum, sympy.Product, KroneckerDelta, Piecewise, ExprCondPair, Relational,
    And, Or, Not, Defined, Indexed, Where, OverInput,
)  # fmt: skip
LARGEST = 50_000  # nodes of an expression; what is larger is refused before anything walks through it
LARGEST_EXPONENT = 1_000_000  # of a power with a number as its exponent: 2**x is worked out when x becomes a number
LINEAR = (sympy.Add, sympy.Mul)  # what positions are made with: 2 i, T - 1
LEAVES: tuple[type, ...] = (Dim, Scalar, Flag, Index, Tensor, BooleanAtom, Str)


def _is_known(node: Any, _bound: tuple[Index, ...]) -> str | None:
    if isinstance(node, (*STRUCTURE, *LEAVES, *SCALAR_FUNCTIONS)):
        return None
    if node in (sympy.oo, -sympy.oo, sympy.zoo, sympy.nan):
        return (
            f"{node}: no real number; what a mask leaves out is said by a condition, as in softmax(x[i, j], over=j, "
            "where=j <= i), Sum(where(j <= i, x[i, j], 0), j)"
        )
    if node.is_Atom and node.is_number and node != sympy.I:
        return None
    if isinstance(node, IndexedBase):
        return f"{node}: expected a tensor made by tensor(...), found SymPy's own IndexedBase, which carries no sizes"
    if isinstance(node, Symbol):
        return f"{node}: unknown symbol; make it with scalar(...), dim(...), index(...) or flag(...)"
    if isinstance(node, sympy.Function):
        known = ", ".join(sorted(kind.__name__ for kind in SCALAR_FUNCTIONS) + sorted(DEFINITIONS))
        return f"{node}: unknown function {type(node).__name__}; known are {known}"
    return f"{node}: {type(node).__name__} has no meaning in a statement; expected a real expression in index notation"


def _has_its_indices(node: Any, _bound: tuple[Index, ...]) -> str | None:
    if isinstance(node, Tensor):
        places = ", ".join("ijklmnpq"[: len(node.shape)])
        return (
            f"{node.name}: a tensor stands without its indices; write an entry such as {node.name}[{places}], or "
            f"matrix({node.name}) in matrix notation"
        )
    return None


def _is_defined_name(node: Any, _bound: tuple[Index, ...]) -> str | None:
    if isinstance(node, Defined) and node.name not in DEFINITIONS:
        return f"{node.name}: unknown function; known are {', '.join(sorted(DEFINITIONS))}"
    return None


def _binds_once(node: Any, bound: tuple[Index, ...]) -> str | None:
    scope = scope_of(node)
    if scope is None:
        return None
    if isinstance(node, Defined) and node.positional and scope.outside == scope.bound:
        return None  # softmax(f[j], over=j) is a vector over j, read at j: the outer j may be bound as well
    names = [index.name for index in bound]
    for index in scope.bound:
        if index.name in names:
            return f"{node}: index {index} is bound twice; rename the inner one"
        names.append(index.name)
    return None


def _sums_whole_range(node: Any, _bound: tuple[Index, ...]) -> str | None:
    if not isinstance(node, (sympy.Sum, sympy.Product)):
        return None
    for index, *limits in node.limits:
        if not isinstance(index, Index):
            return f"{node}: expected an index made by index(...), found {index}, which carries no extent"
        if limits and (len(limits) != 2 or limits[0] != 0 or limits[1] != index.extent - 1):
            return (
                f"{node}: index {index} runs over 0 .. {index.extent - 1}, found {limits[0]} .. {limits[-1]}; "
                "restrict a range with where(condition, ...) instead"
            )
    return None


def _entry_fits(node: Any, _bound: tuple[Index, ...]) -> str | None:
    if isinstance(node, Indexed) and isinstance(node.base, Tensor):
        try:
            check_entry(node.base, node.indices)
        except StatementError as error:
            return str(error)
    return None


def _delta_fits(node: Any, _bound: tuple[Index, ...]) -> str | None:
    if isinstance(node, KroneckerDelta):
        left, right = node.args[:2]
        if not are_comparable(left, right):
            return f"{node}: size mismatch: {left} runs over {extent_of(left)} but {right} runs over {extent_of(right)}"
    return None


def _owns_each_input_once(node: Any, _bound: tuple[Index, ...]) -> str | None:
    if not isinstance(node, OverInput):
        return None
    inner = {known for part in node.body.atoms(OverInput) for known in part.inputs}
    for known in node.inputs:
        if known in inner or node.inputs.count(known) > 1:
            return f"{node}: {known.name} is taken twice; an operator inside another one needs an input of its own"
    return None


def _has_a_small_exponent(node: Any, _bound: tuple[Index, ...]) -> str | None:
    if isinstance(node, sympy.Pow) and node.exp.is_Integer and abs(node.exp) > LARGEST_EXPONENT:
        return f"{node}: expected an exponent of at most {LARGEST_EXPONENT}; give a larger one a name with scalar(...)"
    return None


def _takes_truth_or_number(node: Any, _bound: tuple[Index, ...]) -> str | None:
    parts: tuple[Any, ...] = node.args
    for kinds, conditions, values in OPERANDS if parts else ():
        if isinstance(node, kinds):
            for part in filter(_is_condition, parts[values]):
                return f"{node}: expected a value, found the condition {part}; iverson({part}) is 1 where it holds"
            for part in parts[conditions]:
                if not _is_condition(part):
                    return f"{node}: expected a condition, found the value {part}; compare it, as in {part} > 0"
    return None


NONE, ALL = slice(0), slice(None)
OPERANDS: tuple[tuple[tuple[type, ...], slice, slice], ...] = (  # kinds of nodes, their conditions, their values
    ((Where,), slice(1), slice(1, None)),
    ((Defined,), slice(4, None), slice(1, 2)),
    ((ExprCondPair,), slice(1, None), slice(1)),
    ((And, Or, Not), ALL, NONE),
    ((sympy.Sum, sympy.Product), NONE, slice(1)),
    ((sympy.Add, sympy.Mul, sympy.Pow, Relational, *SCALAR_FUNCTIONS), NONE, ALL),
)


def _covers_all_cases(node: Any, _bound: tuple[Index, ...]) -> str | None:
    if isinstance(node, Piecewise) and node.args[-1][1] != sympy.true:
        return f"{node}: no branch covers the remaining cases; end with (value, True)"
    return None


Rule = Callable[[Any, tuple[Index, ...]], str | None]
RULES: tuple[tuple[str, Rule], ...] = (
    ("only symbols and functions of the language", _is_known),
    ("a tensor is read at indices", _has_its_indices),
    ("every named function has a definition", _is_defined_name),
    ("sums run over whole extents", _sums_whole_range),
    ("no index is bound inside its own scope", _binds_once),
    ("entries fit their tensor's shape", _entry_fits),
    ("operators have inputs of their own", _owns_each_input_once),
    ("conditions and values stand where they are expected", _takes_truth_or_number),
    ("cases are complete", _covers_all_cases),
    ("powers can be worked out", _has_a_small_exponent),
    ("deltas compare indices of one extent", _delta_fits),
)


def check_expression(expression: Any, what: str) -> None:
    """Raise StatementError, its message starting with `what`, unless the expression is well-formed."""
    try:
        nodes = node_count(expression)
        if nodes > LARGEST:
            raise StatementError(
                f"{what}: an expression of {nodes} nodes, expected at most {LARGEST}; give names to its parts with "
                "define(...)"
            )
        _check(expression, what, ())
        check_names(expression, what)
    except RecursionError:
        raise StatementError(f"{what}: nested too deeply; give names to its parts with define(...)") from None


def _check(node: Any, what: str, bound: tuple[Index, ...]) -> None:
    """Refuse the first node, from the top, that a rule finds fault with; `bound` are the indices bound around it."""
    for _name, rule in RULES:
        problem = rule(node, bound)
        if problem is not None:
            raise StatementError(f"{what}: {problem}")
    if not node.args:
        return
    scope: Scope | None = scope_of(node)
    if scope is None:
        for argument in _values_of(node):
            _check(argument, what, bound)
        return
    for part in scope.inside:
        _check(part, what, (*bound, *scope.bound))
    for part in scope.outside:
        _check(part, what, bound)


def _values_of(node: Any) -> tuple[Any, ...]:
    """The parts of a node that are values: the indices of an entry, the body of an operator."""
    if isinstance(node, Indexed) and isinstance(node.base, Tensor):
        return tuple(node.indices)
    return (node.body,) if isinstance(node, OverInput) else tuple(node.args)


def check_names(expression: Any, what: str, known: Mapping[str, Any] | None = None) -> None:
    """One name, one meaning: whatever has a name is declared once, with one shape and one set of assumptions.

    `known` are names that mean something already. Two sums side by side may bind the same index name over different
    ranges; that name may then not be free as well.
    """
    meaning: dict[str, Any] = dict(known or {})
    for symbol in named_symbols(expression):
        other = meaning.setdefault(str(symbol.name), symbol)
        if other != symbol:
            raise StatementError(
                f"{what}: the name {symbol.name} is used for {described(other)} and for {described(symbol)}; declare "
                "it once, or rename one"
            )
    free = {index.name for index in free_indices(expression)}
    first: dict[str, Index] = {}
    for index in sorted(_indices_in(expression), key=lambda index: (index.name, str(index.extent), index.leading)):
        if index.name in meaning:
            raise StatementError(
                f"{what}: the name {index.name} is used for an index and for {described(meaning[index.name])}; rename "
                "one"
            )
        other = first.setdefault(index.name, index)
        if other != index and index.name in free:
            between = f"with two extents, {other.extent} and {index.extent}"
            if other.extent == index.extent:
                between = "as a leading index and as one that is not"
            raise StatementError(f"{what}: index {index.name} is used {between}; rename one")


def _indices_in(expression: Any) -> list[Index]:
    return [leaf for leaf in leaves_of(expression) if isinstance(leaf, Index)]


@lru_cache(maxsize=20_000)
def named_symbols(expression: Any) -> tuple[Any, ...]:
    """The tensors, scalars, sizes and flags in an expression, also in the ranges of its indices, by name."""
    leaves = leaves_of(expression)
    ranges = (leaves_of(leaf.extent) for leaf in leaves if isinstance(leaf, Index))
    found = {leaf for leaf in leaves.union(*ranges) if not isinstance(leaf, Index)}
    return tuple(sorted(found, key=lambda symbol: (str(symbol.name), described(symbol))))


def described(symbol: Any) -> str:
    """What a symbol was declared as: a tensor of shape (T, d), a positive scalar."""
    if isinstance(symbol, Tensor):
        shape = ", ".join(map(str, symbol.shape))
        if isinstance(symbol, Lengths):
            return f"lengths of shape ({shape})"
        kind = f"a tensor of indices below {symbol.into}" if symbol.into is not None else "a tensor"
        return f"{kind} of shape ({shape}){', positive' if symbol.positive else ''}"
    if isinstance(symbol, Scalar):
        words = [word for word, holds in (("positive", symbol.is_positive), ("integer", symbol.is_integer)) if holds]
        return f"a {' '.join([*words, 'scalar'])}"
    return "a size" if isinstance(symbol, Dim) else "a flag"


def check_free(expression: Any, allowed: Iterable[Index], what: str, *, exactly: bool) -> None:
    """Raise unless the free indices are among (or exactly) the allowed ones."""
    free, given = free_indices(expression), set(allowed)
    extra = sorted(free - given, key=str)
    if extra:
        raise StatementError(
            f"{what}: index {extra[0]} is free on the right side only; the left side has "
            f"[{', '.join(sorted(map(str, given)))}]; sum over {extra[0]} or add it on the left"
        )
    missing = sorted(given - free, key=str)
    if exactly and missing:
        raise StatementError(
            f"{what}: index {missing[0]} is on the left side only; the right side has "
            f"[{', '.join(sorted(map(str, free)))}], so it would be constant along {missing[0]}"
        )


def is_equation(condition: Any) -> bool:
    """Whether a condition equates values, and is thus a hypothesis about tensors and not about indices."""
    return isinstance(condition, sympy.Eq) and not _is_about_positions(condition)


def _is_about_positions(condition: Any) -> bool:
    """Whether an equation says where indices are: i = j, tok[i] = tok[j], i + r = t, i = 0, 2 i = T - 1."""
    parts = [part for side in condition.args for part in sympy.preorder_traversal(side)]
    if free_indices(condition) and all(isinstance(part, (Index, Dim, sympy.Rational, *LINEAR)) for part in parts):
        return True
    return all(
        isinstance(side, Index)
        or (isinstance(side, Indexed) and side.is_integer)
        or (isinstance(side, sympy.Add) and extent_of(side) is not None)
        for side in condition.args
    )


def _is_condition(node: Any) -> bool:
    """Whether a node is a truth value; to SymPy every symbol is one."""
    return isinstance(node, Flag) or (isinstance(node, Boolean) and not isinstance(node, sympy.Expr))


def check_value(expression: Any, what: str, advice: str) -> None:
    """Raise when an expression is a condition, which is no value; `advice` says what else to do with it."""
    if _is_condition(expression):
        raise StatementError(f"{what}: {expression} is a condition, not a value; {advice}")


def check_conditions(given: Any, what: str) -> None:
    """Raise unless the hypotheses of a claim are a sequence of conditions."""
    if isinstance(given, (sympy.Basic, str)) or not isinstance(given, Sequence):
        raise StatementError(f"{what}: expected given= a list of conditions such as [Ne(i, j)], found {given!r}")
    for condition in given:
        check_condition(condition, f"{what}: given=")


def check_condition(condition: Any, what: str) -> None:
    """Raise unless it is a condition."""
    if not _is_condition(condition_of(condition, what) if isinstance(condition, bool) else condition):
        raise StatementError(f"{what}: expected a condition, such as Ne(i, j) or a >= b, found {condition!r}")


def check_rule(rule: Any, what: str) -> None:
    """Raise unless a claim's rule, if it has one, is an inference rule."""
    parts = ("name", "statement", "source", "obligations", "hypotheses")
    if rule is not None and (isinstance(rule, type) or not all(hasattr(rule, part) for part in parts)):
        raise StatementError(f"{what}: expected by= an inference rule, such as Gibbs(p, q, v), found {rule!r}")


def check_equations(given: Iterable[Any], what: str) -> None:
    """Raise when a condition never holds, or when an equation of values shares a free index with another condition.

    An equation of values is meant for all of its indices.
    """
    conditions = list(given)
    for number, condition in enumerate(conditions, 1):
        if condition == sympy.false:
            raise StatementError(f"{what}: hypothesis {number} never holds, so that the claim would say nothing")
    for equation in filter(is_equation, conditions):
        for other in conditions:
            shared = free_indices(equation) & free_indices(other) if not is_equation(other) else frozenset()
            if shared:
                raise StatementError(
                    f"{what}: the hypothesis {equation} is meant for all {min(shared, key=str)}, but {other} restricts "
                    "that index; write the restricted hypothesis as one equation with a bracket"
                )
