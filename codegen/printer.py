"""From nodes to expressions of an array library: alignment of axes, matrix products, selections, look-ups.

Fifth stage of the compiler. A node knows its axes by index; here they become positions. `aligned` prints a node so
that it broadcasts against given axes, `laid_out` so that it has exactly given axes, and a contraction becomes one
matrix product whenever each side has something of its own: [shared | own | summed] @ [shared | summed | own].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import overload

from codegen.backends.tables import ATOM, HOST, MUL, POSTFIX, TERNARY, UNARY, Library, Spelling
from codegen.context import ONE
from codegen.errors import KernelError
from codegen.nodes import (
    Axes,
    Contract,
    Counter,
    Gather,
    Identity,
    Literal,
    Map,
    Node,
    Option,
    Position,
    Read,
    Reduce,
    Scatter,
    Select,
    Size,
    View,
    flagged,
    sum_of_products,
)
from codegen.sharing import COMPARISONS, Statement
from derive.language import Dim, Index

WIDTH = 112  # of a line inside a function
MATRIX = 2  # axes
JOINING = frozenset({"add", "sub", "mul", "div"})


@dataclass(frozen=True)
class Text:
    """A printed expression and how tightly it binds."""

    text: str
    precedence: int

    def within(self, needed: int) -> str:
        """The expression as an operand that needs this precedence."""
        return self.text if self.precedence >= needed else f"({self.text})"


@dataclass(frozen=True)
class Printer:
    """Prints nodes for one array library.

    Inside a loop an index may have one value, or run over a part of its range: `variables` names the number or the
    slice that stands for it there, `spans` are the indices of the second kind. `nonempty` are the sizes that are never
    0: over another one, a maximum may be over nothing. What is `rough` is a bound, and not wanted to the last digit.
    """

    library: Library
    variables: Mapping[Index, str] = field(default_factory=dict)
    spans: frozenset[Index] = frozenset()
    nonempty: frozenset[str] = frozenset()
    rough: bool = False

    # -- statements --------------------------------------------------------------------------------------------------

    def statement(self, statement: Statement) -> list[str]:
        """The lines that compute one named value."""
        node = statement.node
        if isinstance(node, Scatter):
            return self._scatter(statement.name, node)
        if isinstance(node, Read) and node.axes == statement.axes:
            return [f"{statement.name} = {node.name}{self.library.clone}"]
        if node.is_host and statement.axes:
            value, shape = self.laid_out(node, ()).text, self._shape(statement.axes)
            return [f"{statement.name} = {self.library.full.format(value=value, shape=shape)}"]
        if set(node.axes) != set(statement.axes):
            value, shape = self.aligned(node, statement.axes).text, self._shape(statement.axes)
            return [f"{statement.name} = {self.library.expand.format(value=value, shape=shape)}"]
        value = self.laid_out(node, statement.axes).text
        if isinstance(node, Contract) and node.axes != statement.axes and len(statement.axes) > MATRIX:
            value += self.library.contiguous  # it is read more often than once
        line = f"{statement.name} = {value}"
        if len(line) <= WIDTH or not isinstance(node, Map):
            return [line]
        terms = sum_of_products(node) if self.library.adds_products else ()
        if len(terms) > 1:
            return self._added_up(statement.name, terms, statement.axes)
        return [f"{statement.name} = (", *(f"    {part}" for part in self._broken(node, statement.axes)), ")"]

    def _broken(self, node: Node, target: Axes) -> list[str]:
        """A long expression as lines, each but the first beginning with the operator that joins it to those before."""
        text = self.aligned(node, target)
        if not isinstance(node, Map) or node.operation not in JOINING or len(text.text) <= WIDTH - 8:
            return [text.text]
        spelling = self._spelling(self.library.operators, node.operation)
        left, right = node.operands
        sign = spelling.text.replace("{0}", "").replace("{1}", "").strip()
        right_text = self.aligned(right, target).within(spelling.operands[1])
        left_text = self.aligned(left, target)
        if left.is_host or left_text.precedence < spelling.operands[0] or set(left.axes) != set(target):
            return [left_text.within(spelling.operands[0]), f"{sign} {right_text}"]
        return [*self._broken(left, target), f"{sign} {right_text}"]

    def _scatter(self, name: str, node: Scatter) -> list[str]:
        if node.base is None:
            lines = [f"{name} = {self.library.zeros.format(shape=self._shape(node.targets))}"]
        elif isinstance(node.base, Scatter):
            lines = self._scatter(name, node.base)
        else:
            lines = self.statement(Statement(name, node.base, node.targets))
        return [*lines, *self.scattered(name, node)]

    def scattered(self, name: str, node: Scatter, relative: frozenset[Index] = frozenset()) -> list[str]:
        """The lines that add the values of a scatter into an array.

        The array may be a block: positions along the `relative` indices are then counted from its first entry.
        """
        sliced = self._sliced(node.positions)
        plain = node.positions[: len(node.positions) - len(sliced)]
        axes: list[Index] = []
        for position in plain:
            axes += [index for index in position.axes if index not in axes]
        counted = replace(self, spans=self.spans - relative)
        where = ", ".join(
            (counted if isinstance(position, Position) and position.index == place else self)
            ._compared(position, tuple(axes)).text
            for position, place in zip(plain, node.targets, strict=False)
        )  # fmt: skip
        value = self.aligned(node.value, (*axes, *sliced))
        placed = {position.index for position in node.positions if isinstance(position, Position)}
        if set(axes) <= placed:
            # Every place occurs once: each row of the positions is a row of the result.
            subtracted = isinstance(node.value, Map) and node.value.operation == "neg"
            amount = self.aligned(node.value.children[0] if subtracted else node.value, (*axes, *sliced))
            return [f"{name}[{where}] {'-' if subtracted else '+'}= {amount.text}"]
        text = value.text
        if self.library.number and node.value.is_host:
            text = self.library.number.format(value=text)
        return [self.library.scatter.format(array=name, where=f"({where},)", value=text)]

    def _shape(self, axes: Axes) -> str:
        return (
            "".join(f"{self._extent(index)}, " for index in axes).strip()
            if len(axes) == 1
            else ", ".join(self._extent(index) for index in axes)
        )

    # -- expressions -------------------------------------------------------------------------------------------------

    def aligned(self, node: Node, target: Axes) -> Text:
        """The node so that it broadcasts against arrays over the target axes."""
        if node.is_host:
            return self._host(node)
        own = [index for index in target if index in node.axes]
        first = next((place for place, index in enumerate(target) if index in own), len(target))
        shown = [":" if index in own else "None" for index in target[first:]]
        if "None" not in shown:
            return self.laid_out(node, tuple(own))
        if isinstance(node, Map) and node.operation in COMPARISONS:
            return self._map(node, target)  # positions are cheaper to align than a mask
        text = self.laid_out(node, tuple(own))
        while len(shown) > 1 and shown[0] == ":" and shown[1] == ":":
            shown = shown[1:]
        if shown[0] == ":":
            shown = ["...", *shown[1:]] if ":" not in shown[1:] else [*[":"] * (len(own) - shown.count(":")), *shown]
        while shown[-1] == ":":
            shown = shown[:-1]
        return Text(f"{text.within(POSTFIX)}[{', '.join(shown)}]", POSTFIX)

    def laid_out(self, node: Node, order: Axes) -> Text:
        """The node with exactly these axes, in this order."""
        if node.is_host:
            return self._host(node)
        if isinstance(node, Map):
            return self._map(node, order)
        if isinstance(node, Select):
            return self._select(node, order)
        text, axes = self._structural(node)
        if axes == order or (isinstance(node, Identity) and set(axes) == set(order)):
            return text
        if len(axes) != len(order):
            raise KernelError(f"axes {[str(i) for i in axes]} cannot be laid out as {[str(i) for i in order]}")
        return Text(f"{text.within(POSTFIX)}{self._permutation(axes, order)}", POSTFIX)

    def _permutation(self, axes: Axes, order: Axes) -> str:
        if len(order) >= 2 and (*order[:-2], order[-1], order[-2]) == axes:
            return ".T" if len(order) == 2 else ".swapaxes(-1, -2)"
        return f".{self.library.permute}({', '.join(str(axes.index(index)) for index in order)})"

    def _structural(self, node: Node) -> tuple[Text, Axes]:
        if isinstance(node, Read):
            return Text(node.name, ATOM), node.axes
        if isinstance(node, View):
            return self._view(node), node.axes
        if isinstance(node, Position):
            return Text(self.library.arange_number.format(range=self._range(node.index)), POSTFIX), node.axes
        if isinstance(node, Identity):
            return Text(self.library.eye.format(size=self._extent(node.row)), POSTFIX), node.axes
        if isinstance(node, Reduce):
            return self._reduce(node), node.axes
        if isinstance(node, Contract):
            return self._contract(node)
        if isinstance(node, Gather):
            return self._gather(node), node.axes
        raise KernelError(f"{type(node).__name__}: cannot stand inside an expression")

    def _view(self, node: View) -> Text:
        shown = [self.variables.get(index, ":") for index in node.where]
        while shown and shown[-1] == ":":
            shown.pop()
        return Text(f"{node.name}[{', '.join(shown)}]", POSTFIX) if shown else Text(node.name, ATOM)

    def _range(self, index: Index) -> str:
        if index not in self.spans:
            variable = self.variables.get(index)
            return f"{variable}.stop - {variable}.start" if variable else str(index.extent)
        return "{0}.start, {0}.stop".format(self.variables[index])

    # -- elementwise -------------------------------------------------------------------------------------------------

    def _map(self, node: Map, target: Axes) -> Text:
        node = fused(node)
        terms = sum_of_products(node) if self.library.adds_products else ()
        if len(terms) > 1:
            return self._sum_of_products(terms, target)
        spelling = self._spelling(self.library.operators, node.operation)
        if node.operation == "power" and isinstance(node.operands[1], Literal) and isinstance(node.operands[0], Read):
            exponent = node.operands[1]
            if exponent.denominator == 1 and exponent.numerator in (3, 4):
                # A power by multiplication: a general power costs an order of magnitude more.
                base = self.aligned(node.operands[0], target).within(UNARY)
                return Text(" * ".join([base] * exponent.numerator), MUL)
        first = node.operands[0]
        is_norm = node.operation == "sqrt" and isinstance(first, Contract) and first.left == first.right
        if (self.rough or self.spans) and self.library.norm and isinstance(first, Contract) and is_norm:
            return self._norm(first, target)
        if node.operation in COMPARISONS:
            return self._spelled(spelling, [self._compared(operand, target) for operand in node.operands])
        return self._spelled(spelling, [self.aligned(operand, target) for operand in node.operands])

    def _norm(self, node: Contract, target: Axes) -> Text:
        """The root of a sum of squares."""
        axis = self._axis(node.left.axes, node.over)
        operand = self.laid_out(node.left, node.left.axes)
        text = Text(self.library.norm.format(operand=operand.text, axis=axis), POSTFIX)
        return text if node.axes == target else Text(f"{text.text}{self._permutation(node.axes, target)}", POSTFIX)

    def _compared(self, node: Node, target: Axes) -> Text:
        if isinstance(node, Position):
            return self._position(node, target)
        return self.aligned(node, target)

    def _position(self, node: Position, target: Axes) -> Text:
        """An index as whole numbers, for comparisons and look-ups."""
        text = self.library.arange.format(range=self._range(node.index))
        after = target[target.index(node.index) + 1 :]
        return Text(f"{text}[:{', None' * len(after)}]" if after else text, POSTFIX)

    def _select(self, node: Select, target: Axes) -> Text:
        option, condition = flagged(node.condition)
        if option is not None:
            masked = self._select(Select(condition, node.yes, node.no), target)
            plain = self.aligned(node.yes, target)
            return Text(f"{masked.within(TERNARY + 1)} if {option.name} else {plain.within(TERNARY + 1)}", TERNARY)
        if node.condition.is_host:
            chosen = [self.aligned(branch, target).within(TERNARY + 1) for branch in (node.yes, node.no)]
            return Text(f"{chosen[0]} if {self._host(node.condition).within(TERNARY + 1)} else {chosen[1]}", TERNARY)
        condition_text = self.aligned(node.condition, target).text
        yes, no = self.aligned(node.yes, target).text, self.aligned(node.no, target).text
        if node.yes.is_host and node.no.is_host:
            if not self.library.number or (_is_whole(node.yes) and _is_whole(node.no)):
                return Text(self.library.where_host.format(condition=condition_text, yes=yes, no=no), POSTFIX)
            yes, no = (self.library.number.format(value=text) for text in (yes, no))
        return Text(f"{self.library.prefix}.where({condition_text}, {yes}, {no})", POSTFIX)

    # -- reductions, products, look-ups ------------------------------------------------------------------------------

    def _reduce(self, node: Reduce) -> Text:
        inner = node.operand.axes
        axis = self._axis(inner, node.over)
        operation = node.operation
        if operation == "max" and any(self._may_be_empty(index) for index in node.over):
            operation = "max of any"
        if operation == "sum" and self.library.sum_of_rows and len(inner) == MATRIX and node.over == inner[:1]:
            shown = self.laid_out(node.operand, inner).text
            return Text(self.library.sum_of_rows.format(operand=shown), POSTFIX)
        operand = self.laid_out(node.operand, inner).within(POSTFIX)
        return Text(self.library.reductions[operation].format(operand=operand, axis=axis), POSTFIX)

    def _axis(self, inner: Axes, over: Axes) -> str:
        """The places of what is reduced over."""
        places = [inner.index(index) for index in over]
        if places == [len(inner) - 1]:
            return "-1"
        return str(places[0]) if len(places) == 1 else f"({', '.join(map(str, sorted(places)))})"

    def _may_be_empty(self, index: Index) -> bool:
        return index in self.spans or (isinstance(index.extent, Dim) and str(index.extent) not in self.nonempty)

    def matrices(self, node: Contract) -> tuple[Text, Text] | None:
        """The two factors of a contraction that is one product of matrices, axes as they are; None for any other."""
        if len(node.left_only) != 1 or len(node.right_only) != 1:
            return None
        return self._factors(node)

    def _factors(self, node: Contract) -> tuple[Text, Text]:
        left = self._matrix(node.left, node.shared, node.left_only, node.over)
        return left, self._matrix(node.right, node.shared, node.over, node.right_only)

    def _contract(self, node: Contract) -> tuple[Text, Axes]:
        rows, columns = node.left_only, node.right_only
        if not rows or not columns:
            text = self._with_vector(node)
            return self._einsum(node) if text is None else text, node.axes
        return self._unflattened(self._product(node), node, node.axes), node.axes

    def _sum_of_products(self, terms: Sequence[Contract], target: Axes) -> Text:
        """Products of matrices, each but the first added to those before by the call that computes it."""
        text = self._product(terms[0])
        for term in terms[1:]:
            text = Text(self._adding(text.within(POSTFIX), term), POSTFIX)
        return self._unflattened(text, terms[0], target)

    def _added_up(self, name: str, terms: Sequence[Contract], target: Axes) -> list[str]:
        """The same as lines, one for each product."""
        shaped = self._unflattened(Text(name, ATOM), terms[0], target).text
        added = [self._adding(name, term) for term in terms[1:]]
        return [f"{name} = {self._product(terms[0]).text}", *added, *([f"{name} = {shaped}"] if shaped != name else [])]

    def _product(self, node: Contract) -> Text:
        left, right = self._factors(node)
        return Text(f"{left.within(MUL)} @ {right.within(UNARY)}", MUL)

    def _adding(self, whole: str, node: Contract) -> str:
        """The call that adds a product of two matrices to what is there."""
        return self.library.adds_products[2].format(
            *(factor.text for factor in self._factors(node)), out=whole, beta=""
        )

    def _unflattened(self, text: Text, node: Contract, target: Axes) -> Text:
        """A product of matrices with the axes that were flattened for it."""
        if len(node.left_only) > 1 or len(node.right_only) > 1:
            text = Text(f"{text.within(POSTFIX)}.reshape({self._shape(node.axes)})", POSTFIX)
        if node.axes == target:
            return text
        return Text(f"{text.within(POSTFIX)}{self._permutation(node.axes, target)}", POSTFIX)

    def _matrix(self, node: Node, shared: Axes, rows: Axes, columns: Axes) -> Text:
        """The node as a stack of matrices, several axes on one side flattened into one."""
        wanted, turned = (*shared, *rows, *columns), (*shared, *columns, *rows)
        if len(rows) == 1 and len(columns) == 1:
            return self.laid_out(node, wanted)
        if self.library.contiguous and not isinstance(node, Contract) and node.axes and node.axes[-1] == rows[-1]:
            # A copy in the order that the entries lie in is cheaper, and a product takes a turned factor as it is.
            flat = self._flattened(self.laid_out(node, turned), shared, columns, rows)
            return Text(f"{flat}{'.T' if not shared else '.swapaxes(-1, -2)'}", POSTFIX)
        if not isinstance(node, (Map, Select)) and self._structural(node)[1] == turned:
            flat = self._flattened(self.laid_out(node, turned), shared, columns, rows)
            return Text(f"{flat}{'.T' if not shared else '.swapaxes(-1, -2)'}", POSTFIX)
        return Text(self._flattened(self.laid_out(node, wanted), shared, rows, columns), POSTFIX)

    def _flattened(self, text: Text, shared: Axes, rows: Axes, columns: Axes) -> str:
        def size(group: Axes) -> str:
            return " * ".join(self._extent(index) for index in group)

        parts = [*(self._extent(index) for index in shared), size(rows), size(columns)]
        return f"{text.within(POSTFIX)}.reshape({', '.join(parts)})"

    def _with_vector(self, node: Contract) -> Text | None:
        """A matrix times a vector, on either side; None for what is neither."""
        matrix, vector = (node.left, node.right) if node.left_only else (node.right, node.left)
        if len(node.over) != 1 or vector.axes != node.over or node.over[0] not in (matrix.axes[0], matrix.axes[-1]):
            return None
        shown = self.laid_out(matrix, matrix.axes), self.laid_out(vector, vector.axes)
        is_matrix, comes_last = len(matrix.axes) == MATRIX, matrix.axes[-1] == node.over[0]
        if not is_matrix:
            return Text(f"{shown[0].within(MUL)} @ {shown[1].within(UNARY)}", MUL) if comes_last else None
        return self._spelled(self.library.times_vector if comes_last else self.library.vector_first, shown)

    def _einsum(self, node: Contract) -> Text:
        if self.library.norm and node.left == node.right and len(node.left.axes) > 1 and self.spans:
            return Text(f"{self._norm(node, node.axes).text}.square()", POSTFIX)
        if self.library.sums_products and set(node.left.axes) == set(node.right.axes):
            product = self._map(Map("mul", (node.left, node.right)), node.left.axes).within(TERNARY)
            places = sorted(node.left.axes.index(index) for index in node.over)
            axis = str(places[0]) if len(places) == 1 else f"({', '.join(map(str, places))})"
            return Text(self.library.reductions["sum"].format(operand=f"({product})", axis=axis), POSTFIX)
        if (
            self.library.dots
            and node.left.axes == node.right.axes
            and node.over == node.left.axes[-1:] != node.left.axes
        ):
            shown = [self.laid_out(side, side.axes).text for side in (node.left, node.right)]
            return Text(self.library.dots.format(*shown), POSTFIX)
        letters: dict[Index, str] = {}
        for index in (*node.left.axes, *node.right.axes):
            if index not in letters:
                first = index.name[0].lower()
                free = [first, *"abcdefghijklmnopqrstuvwxyz"]
                letters[index] = next(letter for letter in free if letter not in letters.values())
        spec = ["".join(letters[index] for index in axes) for axes in (node.left.axes, node.right.axes, node.axes)]
        operands = [self.laid_out(side, side.axes).text for side in (node.left, node.right)]
        return Text(
            f'{self.library.prefix}.einsum("{spec[0]},{spec[1]}->{spec[2]}", {operands[0]}, {operands[1]})', POSTFIX
        )

    def _sliced(self, positions: Sequence[Node]) -> Axes:
        """The trailing positions that are whole axes and occur nowhere else: they are slices, not look-ups."""
        kept = len(positions)
        while kept > 0:
            candidate = positions[kept - 1]
            if not isinstance(candidate, Position):
                break
            others = [node for place, node in enumerate(positions) if place != kept - 1]
            if any(candidate.index in other.axes for other in others):
                break
            kept -= 1
        return tuple(node.index for node in positions[kept:] if isinstance(node, Position))

    def _gather(self, node: Gather) -> Text:
        plain = node.positions[: len(node.positions) - len(self._sliced(node.positions))]
        axes: list[Index] = []
        for position in plain:
            axes += [index for index in position.axes if index not in axes]
        shown = [
            self._position(position, tuple(axes)).text if isinstance(position, Position)
            else self.aligned(position, tuple(axes)).text
            for position in plain
        ]  # fmt: skip
        return Text(f"{node.name}[{', '.join(shown)}]", POSTFIX)

    # -- on the host -------------------------------------------------------------------------------------------------

    def _host(self, node: Node) -> Text:
        if isinstance(node, Literal):
            return _literal(node)
        if isinstance(node, Size):
            return Text(str(node.extent), ATOM)
        if isinstance(node, Option):
            return Text(node.name, ATOM)
        if isinstance(node, Counter):
            return Text(self.variables[node.index], ATOM)
        if isinstance(node, Map):
            return self._spelled(
                self._spelling(HOST, node.operation), [self._host(operand) for operand in node.operands]
            )
        if isinstance(node, Select):
            condition, yes, no = (self._host(child) for child in node.children)
            return Text(f"{yes.within(1)} if {condition.within(1)} else {no.within(1)}", TERNARY)
        raise KernelError(f"{type(node).__name__}: is no host value")

    @staticmethod
    def _spelling(table: object, operation: str) -> Spelling:
        if isinstance(table, dict) and operation in table:
            return table[operation]  # type: ignore[no-any-return]
        raise KernelError(f"operation {operation}: not in the operator table")

    @staticmethod
    def _spelled(spelling: Spelling, operands: Sequence[Text]) -> Text:
        shown = [operand.within(needed) for operand, needed in zip(operands, spelling.operands, strict=True)]
        return Text(spelling.text.format(*shown), spelling.precedence)

    def _extent(self, index: Index) -> str:
        return "({0}.stop - {0}.start)".format(self.variables[index]) if index in self.spans else str(index.extent)


def _is_whole(node: Node) -> bool:
    return isinstance(node, Literal) and node.denominator == 1 and not node.constant


@overload
def fused(node: Map) -> Map: ...
@overload
def fused(node: Node) -> Node: ...
def fused(node: Node) -> Node:
    """The reciprocal of a square root as one operation; any other node as it is."""
    if isinstance(node, Map) and node.operation == "div" and node.operands[0] == ONE:
        below = node.operands[1]
        if isinstance(below, Map) and below.operation == "sqrt" and not below.is_host:
            return Map("rsqrt", below.operands)
    return node


def _literal(node: Literal) -> Text:
    if node.constant:
        name = {"inf": "inf", "pi": "pi", "E": "e"}.get(node.constant)
        text = f"math.{name}" if name is not None else node.constant
        return Text(f"-{text}" if node.numerator < 0 else text, UNARY if node.numerator < 0 else ATOM)
    if node.denominator == 1:
        return Text(str(node.numerator), ATOM if node.numerator >= 0 else UNARY)
    value = node.numerator / node.denominator
    if str(value).rstrip("0").rstrip(".") and len(repr(value)) <= 8 and value * node.denominator == node.numerator:
        return Text(repr(value), ATOM if value >= 0 else UNARY)
    return Text(f"{node.numerator} / {node.denominator}", MUL)
