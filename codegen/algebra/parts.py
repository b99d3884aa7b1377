"""Names for the parts of a statement that was written in one piece: what a reader would have given a name.

The first pass of the compiler, before the program is differentiated (`codegen.algebra.trace`). A statement may nest
sums in sums in sums:

    O[i, c] = Sum(softmax(Sum(Q[i, a]*K[j, a], a)/sqrt(d), over=j)*V[j, c], j)

Its derivative, taken through one expression, repeats the inner sums at every place where the outer ones are met, and
what is quadratic becomes cubic. Under names it is a chain: the adjoint of the softmax, then that of its argument. So a
statement with sums within sums gets names for

- what stands at several places, its indices apart (`codegen.algebra.forms`);
- the argument of a function over a row of exponentials, and the function, where it stands in a sum;
- a sum that another function is taken of, or that stands beside other sums in a product. One that is but a factor of
  the sum around it is contracted with it, in the order that costs least, and is left there.

Nothing means another thing for that: with every name written out again, the statement is the one that was given.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from sympy import Add, Expr, Indexed, Mul, Pow, Sum, exp, true

from codegen.algebra.axes import is_leading, laid_out
from codegen.algebra.everywhere import has_value_everywhere
from codegen.algebra.forms import Forms, nesting
from codegen.ir.sharing import fresh_defined_name
from derive.binders import all_names, map_children, scope_of
from derive.functions import DEFINITIONS, Defined
from derive.language import Index, Where, entry, is_bracket
from derive.program import Program
from derive.statements import Definition, Name

DEEP = 2  # sums within sums
LINEAR = (Add, Mul, Where)  # of one of their operands, the others given


def with_parts_named(program: Program) -> Program:
    """The program with names for the parts of its nested statements; itself where there are none."""
    deep = {definition.name for definition in program.definitions if nesting(definition.body) >= DEEP}
    if not deep:
        return program
    forms = Forms()
    for definition in program.definitions:
        forms.of(definition.body)  # how often each part is used
    naming = Naming(forms, _taken(program))
    definitions: list[Definition] = []
    for definition in program.definitions:
        if definition.name in deep:
            definition, parts = naming.applied(definition)
            definitions += parts
        definitions.append(definition)
    return replace(program, definitions=definitions)


def _taken(program: Program) -> set[str]:
    """The names that mean something in the program, those of its indices among them."""
    indices = (all_names(d.body) | {index.name for index in d.indices} for d in program.definitions)
    return program.declared_names().union(*indices)


@dataclass(frozen=True)
class Surroundings:
    """Where a part of a statement stands: the indices in scope, and what is around it.

    `within` says that a sum is, `bent` that what is around it, up to the next sum, is not linear in it, and `beside`
    that another factor of the same product has sums. `guarded` says that it stands under a condition, where a value may
    be wanted that there is none of elsewhere.
    """

    indices: tuple[Index, ...]
    within: bool = False
    bent: bool = False
    beside: bool = False
    guarded: bool = False

    def below(self, expression: Any) -> Surroundings:
        """Those of the parts of an expression that stands here."""
        scope = scope_of(expression)
        guarded = self.guarded or _is_guard(expression) or any(map(_is_guard, Mul.make_args(expression)))
        if scope is not None:
            is_function = isinstance(expression, Defined) and not expression.linear
            beside = self.beside and not is_function
            return Surroundings((*self.indices, *scope.bound), True, is_function, beside, guarded)
        beside = self.beside or (isinstance(expression, Mul) and sum(map(bool, map(nesting, expression.args))) > 1)
        bent = self.bent or not isinstance(expression, LINEAR)
        return replace(self, bent=bent, beside=beside, guarded=guarded)


@dataclass
class Naming:
    """The parts that have names so far: by the number of a form, its name, and where in its form each index stands."""

    forms: Forms
    taken: set[str]
    named: dict[int, tuple[Name, tuple[int, ...]]] = field(default_factory=dict)

    def applied(self, definition: Definition) -> tuple[Definition, list[Definition]]:
        """The definition with names for its parts, and before it the definitions of these."""
        made: list[Definition] = []

        def descended(expression: Any, around: Surroundings) -> Any:
            """The expression with its parts under names."""
            argument = expression.args[1] if _has_exponentials(expression) else None
            inner = around.below(expression)
            return map_children(expression, lambda child: under_name(child, inner, child is argument))

        def under_name(expression: Any, around: Surroundings, is_argument: bool) -> Any:
            if not nesting(expression):
                return expression
            form = self.forms.of(expression)
            if form.number not in self.named:
                may_be_named = form.plain and _is_value(expression, around)
                is_used = self.forms.uses[form.number] > 1
                is_own = is_argument or is_used or (around.bent and _is_shifted_sum(expression))
                alone = Surroundings(around.indices, guarded=around.guarded)
                part = descended(expression, alone if is_own and may_be_named else around)
                if not may_be_named or not (is_own or _is_read_by_adjoints(expression, part, around)):
                    return part
                over = laid_out(expression, part, form.free, around.indices)
                name = fresh_defined_name(f"{definition.name}_{_role(expression, is_argument)}", self.taken)
                made.append(Definition.named(name, over, part))
                self.named[form.number] = made[-1].symbol, tuple(form.free.index(index) for index in over)
            symbol, places = self.named[form.number]
            return entry(symbol, [form.free[place] for place in places])

        return replace(definition, body=descended(definition.body, Surroundings(definition.indices))), made


def _is_read_by_adjoints(expression: Any, part: Any, around: Surroundings) -> bool:
    """Whether it is a sum that is not just contracted with the one around it; `part` is what it is with names in it.

    That is a function over a row, a mean with weights over a row, or a projection beside other sums. Other products of
    what is in three sums are left whole: in which order they are taken is a question of cost.
    """
    scope = scope_of(expression)
    if scope is None:
        return False
    factors = () if isinstance(expression, Defined) else Mul.make_args(scope.inside[0])
    is_whole = not factors or any(isinstance(factor, Defined) for factor in factors)
    is_projection = (
        around.beside and nesting(part) == 1 and (nesting(expression) == 1 or _has_one_set_of_examples(part))
    )
    return around.bent or (around.within and (is_whole or is_projection))


def _is_value(expression: Any, around: Surroundings) -> bool:
    """Whether it is a number that may be computed for all indices: no condition, and nothing that one keeps away."""
    if not isinstance(expression, Expr) or isinstance(expression, Indexed) or is_bracket(expression):
        return False
    if _divides_by_exponentials(expression):
        return False  # beside the exponentials that it divides it is in log space
    return not around.guarded or has_value_everywhere(expression)


def _divides_by_exponentials(expression: Any) -> bool:
    """Whether it is 1 by a sum of exponentials, or by one and other terms."""
    if not isinstance(expression, Pow) or not expression.exp.is_negative:
        return False
    factors = [factor for term in Add.make_args(expression.base) for factor in Mul.make_args(term)]
    return any(isinstance(factor, Sum) and factor.function.has(exp) for factor in factors)


def _is_guard(expression: Any) -> bool:
    """Whether it is a selection, or a function over a set of places."""
    return isinstance(expression, Where) or (isinstance(expression, Defined) and expression.args[4] != true)


def _is_shifted_sum(expression: Any) -> bool:
    """Whether it is one sum and a bias: what a function of them is, it is of both."""
    terms = [term.as_coeff_Mul()[1] for term in expression.args] if isinstance(expression, Add) else []
    sums = [term for term in terms if scope_of(term) is not None]
    return len(sums) == 1 and all(isinstance(term, Indexed) for term in terms if term not in sums)


def _has_one_set_of_examples(part: Any) -> bool:
    """Whether one array in it has a leading index, and the others are the same for all examples."""
    return len({read for read in part.atoms(Indexed) if any(map(is_leading, read.indices))}) == 1


def _has_exponentials(expression: Any) -> bool:
    """Whether it is a function over a row of exponentials; a mean reads its argument once, and needs no array of it."""
    if not isinstance(expression, Defined):
        return False
    bound = expression.args[2]
    return bool(DEFINITIONS[expression.name].meaning(bound, bound, true).has(exp))


def _role(expression: Any, is_argument: bool) -> str:
    if isinstance(expression, Defined):
        return expression.name
    return "argument" if is_argument else "sum" if scope_of(expression) is not None else "part"
