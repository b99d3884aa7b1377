"""A Program: named definitions in order, what is claimed about them, and which kernels are wanted.

Third stage of the data flow. A program is the statement as a paper has it: inputs, then one definition after another,
each a tensor over explicit indices. Its gradient (`derive.gradient`) is a program again, with the adjoints as further
definitions. Claims are equalities about any of these names; `derive.prove` decides them. A program for which a kernel
is wanted says so with `kernel(...)`; `codegen` reads that and nothing else.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import sympy
from sympy import Expr

from derive.binders import free_indices, symbols_of
from derive.calls import called_as
from derive.errors import StatementError
from derive.language import Flag, Index, Scalar, Tensor, checked_name, expression_of, iverson, listed
from derive.matrices import Matrix
from derive.requests import check_names_of, check_variables, checked_defaults, checked_sizes
from derive.statements import Claim, Definition, KernelRequest, Name
from derive.wellformed import (
    check_condition,
    check_conditions,
    check_equations,
    check_expression,
    check_free,
    check_names,
    check_rule,
    check_value,
    named_symbols,
)

if TYPE_CHECKING:
    from derive.gradient import Gradient
    from derive.rules import Rule

LANGUAGE = (__name__, "derive.calls", "derive.gradient", "derive.tangents")  # frames that are not the user's


@dataclass
class Program:
    """Named definitions over given inputs.

    `inputs` fixes the order of the inputs, which is the order of the kernel's parameters; an input that is used but
    not listed comes after the listed ones, by name. `assumptions` are hypotheses in words that every verdict on a claim
    of the program repeats; `switches` are the conditions on values by which what was differentiated takes its cases,
    and `has_unnamed_derivatives` tells that some of that is an expression, which may stand in any claim.
    """

    name: str
    title: str = ""
    inputs: Sequence[Tensor | Scalar | Flag] = ()
    definitions: list[Definition] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    request: KernelRequest | None = None
    assumptions: list[str] = field(default_factory=list)
    switches: list[Any] = field(default_factory=list)
    differentiated: bool = False
    has_unnamed_derivatives: bool = False
    origin: str = ""
    _meaning: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    _read: int = field(default=0, init=False, repr=False, compare=False)
    _by_name: dict[str, Definition] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        checked_name(self.name, "program")
        if not isinstance(self.title, str):
            raise StatementError(
                f"{self.name}: title: expected a text, found {self.title!r}; inputs come third, inputs=[...]"
            )
        self.inputs = list(listed(self.inputs, f"{self.name}: inputs", "tensors, scalars and flags"))
        for known in self.inputs:
            if not isinstance(known, (Tensor, Scalar, Flag)):
                raise StatementError(f"{self.name}: inputs: expected tensors, scalars and flags, found {known!r}")
        self.origin = self.origin or _caller()[0]

    # -- stating -----------------------------------------------------------------------------------------------------

    @called_as('program.define("y", [i], x[i]**2), or with [] for a number')
    def define(self, name: str, indices: Sequence[Index], body: Any) -> Any:
        """The tensor (or scalar, without indices) `name`, defined as `body` over the given indices.

        Raises:
            StatementError: the body is ill-formed, an index is free on one side only, or the name is taken.
        """
        checked_name(name, "definition")
        over = listed(indices, f"{self.name}: definition {name}", "indices")
        what = (
            f"{self.name}: definition {name}[{', '.join(map(str, over))}]"
            if over
            else f"{self.name}: definition {name}"
        )
        if isinstance(body, Matrix):
            place = ", ".join(map(str, over)) if len(over) == 2 else "i, j"
            raise StatementError(f"{what}: expected a value, found {body!r}; take its entry, M[{place}] of a matrix M")
        expression = expression_of(body, what)
        for index in over:
            if not isinstance(index, Index):
                raise StatementError(f"{what}: expected indices made by index(...), found {index!r}")
        if len({index.name for index in over}) != len(over):
            raise StatementError(f"{what}: an index stands twice on the left side")
        check_value(expression, what, "write iverson(...) of it, which is 1 where it holds")
        check_expression(expression, what)
        check_free(expression, over, what, exactly=True)
        check_names(expression, what, self._declared())
        if name in self._declared() or any(name == str(known.name) for known in named_symbols(expression)):
            raise StatementError(f"{what}: the name {name} is taken; choose another")
        self.definitions.append(Definition.named(name, over, expression))
        return self.definitions[-1].symbol

    @called_as('program.claim("id", left, right)')
    def claim(
        self, id: str, left: Any, right: Any, *, name: str = "", given: Sequence[Any] = (), over: Sequence[Index] = (),
        assuming: Sequence[str] = (), note: str = "", by: Rule | None = None,
    ) -> Claim:  # fmt: skip
        """The claim that left = right for all sizes, and all inputs that meet the `given` conditions.

        Both sides are expressions over the program's names, or matrices. An index that is free on one side only is
        refused, unless that side is compared with something that has no index at all, or `over` lists the indices.
        `assuming` are hypotheses in words, which the verdict repeats; `note` is a remark for the reader. `by` names the
        inference rule that reduces the claim to equalities, where the normal form alone does not decide it.

        Raises:
            StatementError: a side is ill-formed, sizes disagree, or an index is free on one side only.
        """
        what = f"{self.name}: claim {id}"
        if not isinstance(id, str):
            raise StatementError(f"{what}: expected a text as the claim's id, found {id!r}")
        check_conditions(given, what)
        check_rule(by, what)
        over = listed(over, f"{what}: over=", "indices")
        if isinstance(left, Matrix) or isinstance(right, Matrix):
            left, right, over = Matrix.entries_of(left, right, what)
        sides = expression_of(left, what), expression_of(right, what)
        for side in sides:
            check_value(side, what, "claim that it holds with claim_that(...)")
        for part in (*sides, *given):
            check_expression(part, what)
        check_names(sympy.Tuple(*sides, *given), what, self._declared())
        check_equations(given, what)
        if over:
            for side in sides:
                check_free(side, over, what, exactly=False)
        elif all(free_indices(side) for side in sides):
            try:
                check_free(sides[1], free_indices(sides[0]), what, exactly=True)
            except StatementError as error:
                raise StatementError(f"{error}; if that is meant, name the claim's indices with over=[...]") from None
        made = Claim(id, name, *sides, self, tuple(given), _caller()[1], note, tuple(assuming), by)
        self.claims.append(made)
        return made

    @called_as('program.claim_that("id", left >= right)')
    def claim_that(self, id: str, condition: Any, **more: Any) -> Claim:
        """The claim that a condition holds, such as an inequality: its bracket equals 1. Options as for `claim`."""
        check_condition(condition, f"{self.name}: claim {id}")
        return self.claim(id, iverson(condition), 1, **more)

    def steps(self, id: str, *chain: Any, because: Sequence[str] = (), **more: Any) -> list[Claim]:
        """The chain of equalities chain[0] = chain[1] = ..., each a claim of its own: `id.1`, `id.2`, ...

        `because` gives each step its name. A wrong step is that step's verdict; the others are decided all the same.
        """
        if len(chain) < 2:
            raise StatementError(f"{self.name}: steps {id}: expected at least two expressions, found {len(chain)}")
        if len(because) > len(chain) - 1:
            raise StatementError(f"{self.name}: steps {id}: {len(because)} reasons for {len(chain) - 1} steps")
        names = [*because, *[""] * (len(chain) - 1 - len(because))]
        return [
            self.claim(f"{id}.{number}", left, right, name=name, **more)
            for number, (left, right, name) in enumerate(zip(chain, chain[1:], names, strict=False), 1)
        ]

    @called_as("program.kernel(y, wrt=[x])")
    def kernel(
        self, *outputs: Name, wrt: Sequence[Name] = (), defaults: Mapping[Any, float | bool] | None = None,
        typical: Mapping[Any, int] | None = None,
    ) -> None:  # fmt: skip
        """Ask for generated code: a forward kernel for the outputs and, with `wrt`, a backward kernel for those.

        `defaults` maps scalars and flags to the value their parameter has when the caller leaves it out, `typical`
        sizes to values that are usual, where the compiler's own guess is not; they affect speed alone.

        Raises:
            StatementError: an output is not defined, a variable is, or a default fits no input.
        """
        known = self.names()
        if not outputs:
            raise StatementError(f"{self.name}: kernel: expected at least one output, one of {', '.join(known)}")
        wrt = listed(wrt, f"{self.name}: kernel wrt", "names")
        for role, named in (("output", outputs), ("wrt", wrt)):
            check_names_of(f"kernel {role}", named, self.name)
        for output in outputs:
            if str(output.name) not in known:
                raise StatementError(f"{self.name}: kernel output {output}: not defined here; defined are {known}")
        check_variables(wrt, known, self.name)
        plain = checked_defaults(defaults or {}, self.all_inputs(), self.name)
        usual = checked_sizes(typical or {}, self.name)
        self.request = KernelRequest(tuple(outputs), tuple(wrt), plain, usual)

    @called_as("program.gradient(y)")
    def gradient(
        self, output: Name, wrt: Sequence[Name] = (), *, upstream: str | None = None, prefix: str = "d"
    ) -> Gradient:
        """The program that computes the adjoints dX of all X that `output` depends on, given the adjoint of `output`.

        With `wrt`, only the adjoints needed for those. The result's `["dX"]` is the adjoint of X. A gradient is a
        program: its own gradient, with another `prefix`, is a Hessian-vector product.
        """
        from derive.gradient import reverse

        return reverse(self, output, listed(wrt, f"{self.name}: gradient wrt", "names"), upstream, prefix)

    @called_as("program.tangent(y)")
    def tangent(self, output: Name, wrt: Sequence[Name] = (), *, prefix: str = "t") -> Gradient:
        """The program that computes the Jacobian-vector product: tY for every Y from `wrt` to `output`, given tX."""
        from derive.tangents import forward

        return forward(self, output, wrt, prefix)

    @called_as("program.jacobian(y, x)")
    def jacobian(self, output: Name, variable: Name, name: str = "") -> Gradient:
        """The program with one more definition, d output / d variable, over the indices of both.

        It is called `name`, or `d<output>_d<variable>`. Indices of the variable that clash with the output's are
        renamed.
        """
        from derive.gradient import jacobian

        return jacobian(self, output, variable, name)

    @called_as("program.derivative(y[i], x[j])")
    def derivative(self, value: Expr, variable: Expr) -> Expr:
        """The total derivative of one entry with respect to one entry, through all definitions of this program.

        Where it may not exist becomes an assumption of the program, which every verdict on its claims repeats.
        """
        from derive.gradient import derivative_of

        self.has_unnamed_derivatives = True
        return derivative_of(self, value, variable, through_definitions=True)

    @called_as("program.partial(y[i], x[j])")
    def partial(self, value: Expr, variable: Expr) -> Expr:
        """The partial derivative of an expression with respect to one entry, every defined name in it held fixed.

        An entry of a defined name stands for its own definition: partial(y[i], x[j]) with y = f(x, z) and z = g(x)
        holds z fixed. Where the derivative may not exist is recorded as by `derivative`.
        """
        from derive.gradient import derivative_of

        self.has_unnamed_derivatives = True
        return derivative_of(self, value, variable, through_definitions=False)

    def _declared(self) -> dict[str, Any]:
        """What the names of the inputs and definitions mean. Grows with the definitions, which are only ever added."""
        if not self._meaning:
            self._meaning.update({str(symbol.name): symbol for symbol in self.inputs})
        for definition in self.definitions[self._read :]:
            self._meaning.update({str(symbol.name): symbol for symbol in named_symbols(definition.body)})
            self._meaning[definition.name] = definition.symbol
        self._read = len(self.definitions)
        return self._meaning

    # -- reading -----------------------------------------------------------------------------------------------------

    def names(self) -> list[str]:
        """The defined names, in order."""
        return [definition.name for definition in self.definitions]

    def declared_names(self) -> set[str]:
        """The names of the inputs, the definitions, and the sizes and flags in them."""
        return {*self._declared(), *self.names(), *(str(symbol.name) for symbol in self.all_inputs())}

    def __repr__(self) -> str:
        defined = ", ".join(self.names()) or "no definitions"
        return f"<{type(self).__name__} {self.name}: {defined}; {len(self.claims)} claims>"

    def __getattr__(self, name: str) -> Any:
        """Refused, with how a definition is asked for: a program has names of its own beside those that it defines."""
        known = vars(self).get("definitions", ())
        advice = f"; write program[{name!r}]" if any(name == definition.name for definition in known) else ""
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{advice}")

    def __iter__(self) -> Iterator[Definition]:
        return iter(self.definitions)

    def __getitem__(self, name: str) -> Any:
        """The tensor or scalar that is defined under `name`, or the input of that name."""
        for definition in self.definitions:
            if definition.name == name:
                return definition.symbol
        for known in self.all_inputs():
            if str(known.name) == name:
                return known
        raise StatementError(f"{self.name}: no name {name}; defined are {', '.join(self.names())}")

    def definition(self, name: str) -> Definition | None:
        """The definition of `name`, or None for an input."""
        if len(self._by_name) != len(self.definitions):
            self._by_name.update({known.name: known for known in self.definitions})
        return self._by_name.get(name)

    @property
    def bodies(self) -> dict[Name, Expr]:
        """What each defined name is defined as."""
        return {definition.symbol: definition.body for definition in self.definitions}

    def all_inputs(self, *more: Expr) -> list[Tensor | Scalar | Flag]:
        """The inputs, listed ones first, then the rest by name; `more` expressions count as used."""
        defined = {definition.symbol for definition in self.definitions}
        used: set[Any] = set()
        for body in (*(definition.body for definition in self.definitions), *more):
            used |= symbols_of(body)
        rest = sorted(used - defined - set(self.inputs), key=lambda symbol: str(symbol.name))
        return [*self.inputs, *rest]


def _caller() -> tuple[str, str]:
    """Module name, and file with line, of the statement that called into the language: `/home/me/attention.py:41`."""
    frame = inspect.currentframe()
    while frame is not None and (frame.f_globals.get("__name__") in LANGUAGE or frame.f_code.co_filename == "<string>"):
        frame = frame.f_back
    if frame is None:
        return "", ""
    return str(frame.f_globals.get("__name__")), f"{frame.f_code.co_filename}:{frame.f_lineno}"
