"""What functions are of gets a name: products of matrices without one, and the exponents of a softmax.

The very first of the algebraic passes (`codegen.algebra.passes`), on the statement: what is differentiated is what it
leaves. A statement may say in one formula what others say in two:

    A[i,j] = softmax(Sum_a(Q[i,a]*K[j,a])/sqrt(d), over=j)      A_argument[i,j] = Sum_a(Q[i,a]*K[j,a])/sqrt(d)
                                                                A[i,j] = softmax(A_argument[i,j], over=j)
    h[n,f] = Max(Sum_c(x[n,c]*W[c,f]), 0)^2                     h_product[n,f] = Sum_c(x[n,c]*W[c,f])
                                                                h[n,f] = Max(h_product[n,f], 0)^2

Without a name the adjoint of Q is that of A multiplied out, Sum_j(A dA K) - Sum_j(A dA) Sum_j(A K): two products of
matrices in place of one, and a difference of large terms. With one it reads the adjoint of the name, as every other
input that the argument is made of does, and the product is not computed again for each slope.

Only what has a value wherever it is computed gets a name, sums and products of entries and of bounded functions: a
logarithm in the branch of a selection is none of that. `codegen.algebra.elimination` writes in what costs more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import sympy
from sympy import Add, Expr, Indexed, Mul, Pow

from codegen.algebra.rewriting import Definitions, Rewrite, Setting
from derive.binders import free_indices, leaves_of, map_children, scope_of
from derive.folding import unify
from derive.functions import Defined
from derive.gradient import influenced_by
from derive.language import Dim, Index, Scalar, Tensor, entry
from derive.program import Program
from derive.statements import Definition, Name
from derive.symbols import axis_sizes

BOUNDED = (sympy.tanh, sympy.sin, sympy.cos)  # functions with a value of at most 1, wherever they are taken
FEWEST = 2  # arrays in a product, and variables in an exponent that is worth a name


def with_arguments_named(definitions: Definitions, setting: Setting) -> tuple[Definitions, tuple[Rewrite, ...]]:
    """The definitions with names for what functions are of, each before the one that reads it."""
    return named(definitions, setting.program)


def named(definitions: Sequence[Definition], program: Program) -> tuple[Definitions, tuple[Rewrite, ...]]:
    """The same for some definitions of a program; as they are where no gradient is asked for."""
    request = program.request
    if request is None or not request.wrt:
        return tuple(definitions), ()
    symbols = {definition.symbol for definition in definitions}
    arguments = Arguments(influenced_by(program, request.wrt), symbols, program.declared_names())
    made: list[Definition] = []
    rewrites: list[Rewrite] = []
    waiting = list(definitions)
    while waiting:
        definition = waiting.pop(0)
        count = len(arguments.known)
        found, body = arguments.read_in(definition)
        if found:
            # What is new may have such arguments itself.
            waiting[:0] = [*arguments.known[count:], replace(definition, body=body)]
            origin = next((made.definition for made in rewrites if made.definition.name == definition.name), definition)
            before = [change for made in rewrites if made.definition.name == definition.name for change in made.changes]
            rewrites = [made for made in rewrites if made.definition.name != definition.name]
            rewrites.append(Rewrite(origin, body, (*before, *found)))
        else:
            made.append(definition)
    return tuple(made), tuple(rewrites)


@dataclass
class Arguments:
    """The names that were given so far; `active` is all that the variables of the gradient reach.

    `defined` are the names that the program has definitions of, `taken` all that have a meaning.
    """

    active: Collection[Any]
    defined: Collection[Any]
    taken: set[str]
    known: list[Definition] = field(default_factory=list)

    def read_in(self, definition: Definition) -> tuple[tuple[tuple[Expr, Expr], ...], Expr]:
        """What gets a name in a definition, each with its name, and the body with the names in it."""
        found: dict[Expr, Expr] = {}
        for argument, around, kind in _arguments(definition.body, definition.indices, bent=False):
            if argument not in found and self._is_worth(argument, kind):
                found[argument] = self._name_of(argument, around, f"{definition.name}_{kind}")
        return tuple(found.items()), _with(definition.body, found)

    def _is_worth(self, argument: Expr, kind: str) -> bool:
        variables = leaves_of(argument) & set(self.active)
        if not variables or not _has_value(argument):
            return False
        if kind == PRODUCT or any(map(_is_product, argument.atoms(sympy.Sum))):
            return True
        # The slope in a number is the sum of adjoint times argument: not where a logit may be -inf, and its share 0.
        is_given = any(isinstance(leaf, Tensor) and leaf not in self.defined for leaf in leaves_of(argument))
        return len(variables) >= FEWEST and not (is_given and any(isinstance(leaf, Scalar) for leaf in variables))

    def _name_of(self, argument: Expr, around: Sequence[Index], stem: str) -> Expr:
        for definition in self.known:
            for binding in unify(definition.body, argument, {}):
                if binding.keys() >= set(definition.indices):
                    return entry(definition.symbol, [binding[index] for index in definition.indices])
        name, number = stem, 1
        while {name, f"d{name}"} & self.taken:
            number += 1
            name = f"{stem}_{number}"
        self.taken |= {name, f"d{name}"}
        free = free_indices(argument)
        over = tuple(sorted((index for index in around if index in free), key=lambda index: not index.leading))
        symbol: Name = Tensor(name, axis_sizes(over)) if over else Scalar(name)
        self.known.append(Definition(symbol, over, argument))
        self.active, self.defined = {*self.active, symbol}, {*self.defined, symbol}
        return self.known[-1].left


PRODUCT, ARGUMENT = "product", "argument"  # what a name ends in


def _arguments(node: Any, around: tuple[Index, ...], bent: bool) -> Iterator[tuple[Expr, tuple[Index, ...], str]]:
    """What may get a name, with the indices in whose scope it stands; `bent` says that a function is around it."""
    if isinstance(node, Defined) and node.name != "mean":  # which is as straight as a sum
        _, body, bound, _, _ = node.args
        if not isinstance(body, Indexed):
            yield body, (*around, *([] if bound in around else [bound])), ARGUMENT
        return
    if bent and isinstance(node, sympy.Sum) and _is_product(node):
        yield node, around, PRODUCT
        return
    if isinstance(node, (Indexed, Index)):
        return
    scope = scope_of(node)
    inner = (*around, *(index for index in scope.bound if index not in around)) if scope is not None else around
    is_divisor = isinstance(node, Pow) and node.exp.is_negative
    is_straight = isinstance(node, (Add, Mul, sympy.Sum, Defined)) or is_divisor
    for part in scope.inside if scope is not None else node.args:
        yield from _arguments(part, inner, (bent or not is_straight) and not is_divisor)


def _is_product(node: Any) -> bool:
    """Whether entries of different arrays are multiplied, or subtracted, and summed."""
    bound = {limit[0] for limit in node.limits}
    arrays = {read.base for read in node.function.atoms(Indexed) if free_indices(read) & bound}
    return len(arrays) >= FEWEST


def _has_value(node: Any) -> bool:
    """Whether the structure of an expression shows that it has a value everywhere."""
    if isinstance(node, (Indexed, Scalar, Index, Dim)) or node.is_number:
        return True
    if isinstance(node, Pow):
        is_on_host = not node.base.atoms(Indexed) and not free_indices(node.base)
        return is_on_host or (bool(node.exp.is_Integer and node.exp.is_positive) and _has_value(node.base))
    if isinstance(node, sympy.Sum):
        return all(isinstance(limit[0].extent, Dim) for limit in node.limits) and _has_value(node.function)
    return isinstance(node, (Add, Mul, *BOUNDED)) and all(map(_has_value, node.args))


def _with(node: Any, found: dict[Expr, Expr]) -> Any:
    """The expression with the names that were found for its parts, wherever they stand."""
    if node in found:
        return found[node]
    return map_children(node, lambda part: _with(part, found))
