"""What functions are of gets a name: products of matrices without one, and the exponents of a softmax.

After `codegen.algebra.parts`, which takes sums within sums apart; what is differentiated is what this pass leaves. A
statement may say in one formula what others say in two:

    A[i,j] = softmax(Sum_a(Q[i,a]*K[j,a])/sqrt(d), over=j)      A_argument[i,j] = Sum_a(Q[i,a]*K[j,a])/sqrt(d)
                                                                A[i,j] = softmax(A_argument[i,j], over=j)
    h[n,f] = Max(Sum_c(x[n,c]*W[c,f]), 0)^2                     h_product[n,f] = Sum_c(x[n,c]*W[c,f])
                                                                h[n,f] = Max(h_product[n,f], 0)^2
    g[n,f] = sigma(Sum_c(x[n,c]*W[c,f]) + b[f])                 g_argument[n,f] = Sum_c(x[n,c]*W[c,f]) + b[f]
                                                                g[n,f] = sigma(g_argument[n,f])

Without a name the adjoint of Q is that of A multiplied out, Sum_j(A dA K) - Sum_j(A dA) Sum_j(A K): two products of
matrices in place of one, and a difference of large terms. With one it reads the adjoint of the name, as every other
input that the argument is made of does, and the product is not computed again for each slope.

Only what has a value wherever it is computed gets a name, sums and products of entries and of bounded functions: a
logarithm in the branch of a selection is none of that. `codegen.algebra.elimination` writes in what costs more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import sympy
from sympy import Add, Expr, Indexed, Mul, Pow

from codegen.ir.sharing import fresh_defined_name
from derive.binders import free_indices, leaves_of, map_children, scope_of
from derive.folding import unify
from derive.functions import Defined
from derive.gradient import influenced_by
from derive.language import Dim, Index, Scalar, Tensor, entry
from derive.program import Program
from derive.statements import Definition

BOUNDED = (sympy.tanh, sympy.sin, sympy.cos)  # functions with a value of at most 1, wherever they are taken
FEWEST = 2  # kinds of arrays in a product, and variables in an exponent that is worth a name


def with_arguments_named(program: Program) -> Program:
    """The program with names for what functions are of, each before what reads it; itself if there is no gradient."""
    request = program.request
    if request is None or not request.wrt:
        return program
    symbols = {definition.symbol for definition in program.definitions}
    arguments = Arguments(influenced_by(program, request.wrt), symbols, program.declared_names())
    made: list[Definition] = []
    waiting = list(program.definitions)
    while waiting:
        definition = waiting.pop(0)
        count = len(arguments.known)
        body = arguments.read_in(definition)
        if body == definition.body:
            made.append(definition)
        else:
            # What is new may have such arguments itself.
            waiting[:0] = [*arguments.known[count:], replace(definition, body=body)]
    return program if made == program.definitions else replace(program, definitions=made)


@dataclass
class Arguments:
    """The names that were given so far; `active` is all that the variables of the gradient reach.

    `defined` are the names that the program has definitions of, `taken` all that have a meaning.
    """

    active: Collection[Any]
    defined: Collection[Any]
    taken: set[str]
    known: list[Definition] = field(default_factory=list)

    def read_in(self, definition: Definition) -> Expr:
        """The body of a definition with names in it."""
        found: dict[Expr, Expr] = {}
        for argument, around, kind in _arguments(definition.body, definition.indices, bent=False):
            is_read = any(argument == part or _multiple(part, argument) is not None for part in found)
            if not is_read and self._is_worth(argument, kind):
                found[argument] = self._name_of(argument, around, f"{definition.name}_{kind}")
        return _with(definition.body, found)

    def _is_worth(self, argument: Expr, kind: str) -> bool:
        variables = leaves_of(argument) & set(self.active)
        if not variables:
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
        name = fresh_defined_name(stem, self.taken)
        free = free_indices(argument)
        over = tuple(sorted((index for index in around if index in free), key=lambda index: not index.leading))
        made = Definition.named(name, over, argument)
        self.known.append(made)
        self.active, self.defined = {*self.active, made.symbol}, {*self.defined, made.symbol}
        return made.left


PRODUCT, ARGUMENT = "product", "argument"  # what a name ends in


def _arguments(node: Any, around: tuple[Index, ...], bent: bool) -> Iterator[tuple[Expr, tuple[Index, ...], str]]:
    """What may get a name, with the indices in whose scope it stands; `bent` says that a function is around it."""
    if isinstance(node, (Indexed, Index)):
        return
    scope = scope_of(node)
    inner = (*around, *(index for index in scope.bound if index not in around)) if scope is not None else around
    is_function = isinstance(node, Defined) and not node.linear
    if is_function and not isinstance(node.args[1], Indexed) and _has_value(node.args[1]):
        yield node.args[1], inner, ARGUMENT
        return
    if bent and isinstance(node, (sympy.Sum, Add)) and _has_value(node) and any(map(_has_product, Add.make_args(node))):
        others = [term for term in Add.make_args(node) if not _has_product(term)]
        deeper = [found for term in others for found in _arguments(term, around, bent)]
        # In u + u^3 it is u that gets the name; what is left is looked at again.
        yield from deeper or [(_primitive(node), around, PRODUCT if isinstance(node, sympy.Sum) else ARGUMENT)]
        return
    is_divisor = isinstance(node, Pow) and node.exp.is_negative
    is_mean = isinstance(node, Defined) and not is_function
    is_straight = isinstance(node, (Add, Mul, sympy.Sum)) or is_divisor or is_mean
    for part in scope.inside if scope is not None else node.args:
        yield from _arguments(part, inner, (bent or not is_straight) and not is_divisor)


def _primitive(node: Expr) -> Expr:
    """The expression without a number that all of its terms have: a sum, its opposite and its double share a name."""
    _, primitive = node.as_content_primitive()
    return -primitive if primitive.could_extract_minus_sign() else primitive


def _has_product(term: Expr) -> bool:
    """Whether a term is a sum of products, or a multiple of one."""
    return any(isinstance(factor, sympy.Sum) and _is_product(factor) for factor in Mul.make_args(term))


def _is_product(node: Any) -> bool:
    """Whether entries of arrays with other indices each are multiplied, or subtracted, and summed."""
    bound = {limit[0] for limit in node.limits}
    reads = [read for read in node.function.atoms(Indexed) if free_indices(read) & bound]
    return len({free_indices(read) - bound for read in reads}) >= FEWEST


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


def _with(node: Any, found: Mapping[Expr, Expr]) -> Any:
    """The expression with the names that were found for its parts, or for multiples of these, wherever they stand."""
    if node in found:
        return found[node]
    for part, name in found.items() if isinstance(node, Add) else ():
        number = _multiple(part, node)
        if number is not None:
            return number * name + _with(node - Add(*(number * term for term in Add.make_args(part))), found)
    return map_children(node, lambda inner: _with(inner, found))


def _multiple(part: Expr, whole: Expr) -> Expr | None:
    """The number c for which all terms of c times a sum are terms of another one."""
    if not isinstance(part, Add) or not isinstance(whole, Add):
        return None
    own, value = part.args[0].as_coeff_Mul()
    for number in (term.as_coeff_Mul()[0] / own for term in whole.args if term.as_coeff_Mul()[1] == value):
        if {number * term for term in part.args} <= set(whole.args):
            return number
    return None
