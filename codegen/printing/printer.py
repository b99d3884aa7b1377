"""From nodes to expressions of an array library: alignment of axes, elementwise operations, selections, reductions.

Fifth stage of the compiler. A node knows its axes by index; here they become positions. `aligned` prints a node so
that it broadcasts against given axes, `laid_out` so that it has exactly given axes. Contractions are printed by
`codegen.printing.products`, look-ups by `codegen.printing.lookups`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from codegen.backends import Library
from codegen.backends.spelling import ATOM, HOST, MUL, POSTFIX, TERNARY, UNARY
from codegen.errors import KernelError
from codegen.ir.nodes import (
    Axes,
    Contract,
    Counter,
    Gather,
    Identity,
    Literal,
    Map,
    Named,
    Node,
    Option,
    Position,
    Read,
    Reduce,
    Scatter,
    Select,
    Size,
    View,
)
from codegen.ir.sharing import COMPARISONS, Statement
from codegen.ir.trees import flagged, fused, sum_of_products
from codegen.planning.summed import PLAIN
from codegen.printing.lookups import looked_up, scatter
from codegen.printing.products import MATRIX, added_up, contraction, root_of_squares, sum_of_matrix_products
from codegen.printing.text import Text, literal, spelled, spelling_in
from derive.language import Dim, Index

WIDTH = 112  # of a line inside a function
JOINING = frozenset({"add", "sub", "mul", "div"})


@dataclass(frozen=True)
class Printer:
    """Prints nodes for one array library.

    Inside a loop an index may have one value, or run over a part of its range: `variables` names the number or the
    slice that stands for it there, `spans` are the indices of the second kind. `nonempty` are the sizes that are never
    0: over another one, a maximum may be over nothing. What is `rough` is a bound, and not wanted to the last digit;
    `beside_products` of matrices, sums along rows are added up as these are. What is `returned` is an array also where
    it is a number. `matrices` are the names of arrays that several products read laid out anew, by what does so.
    """

    library: Library
    variables: Mapping[Index, str] = field(default_factory=dict)
    spans: frozenset[Index] = frozenset()
    nonempty: frozenset[str] = frozenset()
    rough: bool = False
    beside_products: bool = False
    returned: frozenset[str] = frozenset()
    matrices: Mapping[str, str] = field(default_factory=dict)

    # -- statements --------------------------------------------------------------------------------------------------

    def statement(self, statement: Statement) -> list[str]:
        """The lines that compute one named value."""
        node = statement.node
        if isinstance(node, Scatter):
            return scatter(self, statement.name, node)
        if node.is_host and (statement.axes or statement.name in self.returned):
            return [f"{statement.name} = {self.filled(node, statement.axes).text}"]
        if isinstance(node, Read) and not node.is_host and node.axes == statement.axes:
            return [f"{statement.name} = {node.name}{self.library.clone}"]
        if set(node.axes) != set(statement.axes):
            return [f"{statement.name} = {self.spread(node, statement.axes).text}{self.library.clone}"]
        if isinstance(node, Select) and _is_choice(node):
            return [f"{statement.name} = {self._select(node, statement.axes, fresh=True).text}"]
        value = self.laid_out(node, statement.axes).text
        if isinstance(node, Contract) and node.axes != statement.axes and len(statement.axes) > MATRIX:
            value += self.library.contiguous  # it is read more often than once
        line = f"{statement.name} = {value}"
        if len(line) <= WIDTH or not isinstance(node, Map):
            return [line]
        terms = sum_of_products(node) if self.library.adds_products else ()
        if len(terms) > 1:
            return added_up(self, statement.name, terms, statement.axes)
        return [f"{statement.name} = (", *(f"    {part}" for part in self._broken(node, statement.axes)), ")"]

    def _broken(self, node: Node, target: Axes) -> list[str]:
        """A long expression as lines, each but the first beginning with the operator that joins it to those before."""
        text = self.aligned(node, target)
        if not isinstance(node, Map) or node.operation not in JOINING or len(text.text) <= WIDTH - 8:
            return [text.text]
        spelling = spelling_in(self.library.operators, node.operation)
        left, right = node.operands
        sign = spelling.text.replace("{0}", "").replace("{1}", "").strip()
        right_text = self.aligned(right, target).within(spelling.operands[1])
        left_text = self.aligned(left, target)
        if left.is_host or left_text.precedence < spelling.operands[0] or set(left.axes) != set(target):
            return [left_text.within(spelling.operands[0]), f"{sign} {right_text}"]
        return [*self._broken(left, target), f"{sign} {right_text}"]

    def shape(self, axes: Axes) -> str:
        """The sizes of the axes, as what a shape is made from."""
        sizes = [self.extent(index) for index in axes]
        return f"{sizes[0]}," if len(sizes) == 1 else ", ".join(sizes)

    # -- expressions -------------------------------------------------------------------------------------------------

    def aligned(self, node: Node, target: Axes, beside: frozenset[Index] = frozenset()) -> Text:
        """The node so that it broadcasts against arrays over the target axes; what stands `beside` it has these."""
        if node.is_host:
            return self._host(node)
        if beside and isinstance(node, Select) and _is_choice(node) and beside.issuperset(node.axes):
            return self._select(node, target, loose=True)
        if isinstance(node, Map) and node.operation in JOINING and beside and set(node.axes) == set(target):
            return self.elementwise(node, target, beside)
        own = [index for index in target if index in node.axes]
        first = next((place for place, index in enumerate(target) if index in own), len(target))
        shown = [":" if index in own else "None" for index in target[first:]]
        if "None" not in shown:
            return self.laid_out(node, tuple(own))
        if isinstance(node, Map) and node.operation in COMPARISONS:
            return self.elementwise(node, target)  # positions are cheaper to align than a mask
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
            return self.elementwise(node, order)
        if isinstance(node, Select):
            return self._select(node, order)
        text, axes = self.structural(node)
        if axes == order or (isinstance(node, Identity) and set(axes) == set(order)):
            return text
        if len(axes) != len(order):
            raise KernelError(f"axes {[str(i) for i in axes]} cannot be laid out as {[str(i) for i in order]}")
        return Text(f"{text.within(POSTFIX)}{self.permutation(axes, order)}", POSTFIX)

    def permutation(self, axes: Axes, order: Axes) -> str:
        """What turns an array with these axes into one with them in another order."""
        if len(order) >= 2 and (*order[:-2], order[-1], order[-2]) == axes:
            return ".T" if len(order) == 2 else ".swapaxes(-1, -2)"
        return f".{self.library.permute}({', '.join(str(axes.index(index)) for index in order)})"

    def structural(self, node: Node) -> tuple[Text, Axes]:
        """A node that is no elementwise operation, in the order of axes that it comes in, and these."""
        if isinstance(node, Read):
            return Text(node.name, ATOM), node.axes
        if isinstance(node, View):
            return self._view(node), node.axes
        if isinstance(node, Position):
            spelling = self.library.arange if node.whole else self.library.arange_number
            return Text(spelling.format(range=self.range_of(node.index)), POSTFIX), node.axes
        if isinstance(node, Identity):
            return Text(self.library.eye.format(size=self.extent(node.row)), POSTFIX), node.axes
        if isinstance(node, Reduce):
            return self._reduce(node), node.axes
        if isinstance(node, Contract):
            return contraction(self, node)
        if isinstance(node, Gather):
            return looked_up(self, node), node.axes
        raise KernelError(f"{type(node).__name__}: cannot stand inside an expression")

    def _view(self, node: View) -> Text:
        shown = [self.variables.get(index, ":") for index in node.where]
        while shown and shown[-1] == ":":
            shown.pop()
        return Text(f"{node.name}[{', '.join(shown)}]", POSTFIX) if shown else Text(node.name, ATOM)

    def range_of(self, index: Index) -> str:
        """What the values of an index are counted from and to."""
        if index not in self.spans:
            variable = self.variables.get(index)
            return f"{variable}.stop - {variable}.start" if variable else str(index.extent)
        return "{0}.start, {0}.stop".format(self.variables[index])

    def filled(self, number: Node, axes: Axes) -> Text:
        """A number as an array with these axes, which may be none."""
        value = self.library.full.format(value=self._host(number).text, shape=self.shape(axes))
        return Text(value, POSTFIX)

    def spread(self, node: Node, axes: Axes) -> Text:
        """The node at every place of these axes, some of which it has not; its entries share memory."""
        value = self.library.spread.format(value=self.aligned(node, axes).text, shape=self.shape(axes))
        return Text(value, POSTFIX)

    def whole(self, node: Node, axes: Axes) -> Text:
        """The node with exactly these axes, whether it has them or is the same along some, or a number."""
        if node.is_host:
            return self.filled(node, axes)
        return self.laid_out(node, axes) if set(node.axes) == set(axes) else self.spread(node, axes)

    # -- elementwise -------------------------------------------------------------------------------------------------

    def elementwise(self, node: Map, target: Axes, beside: frozenset[Index] = frozenset()) -> Text:
        """An elementwise operation on operands that broadcast against the target axes, and against what is beside."""
        node = fused(node)
        terms = sum_of_products(node) if self.library.adds_products else ()
        if len(terms) > 1:
            return sum_of_matrix_products(self, terms, target)
        spelling = spelling_in(self.library.operators, node.operation)
        if node.operation == "power" and isinstance(node.operands[1], Literal) and isinstance(node.operands[0], Read):
            exponent = node.operands[1]
            if exponent.denominator == 1 and exponent.numerator in (3, 4):
                # A power by multiplication: a general power costs an order of magnitude more.
                base = self.aligned(node.operands[0], target).within(UNARY)
                return Text(" * ".join([base] * exponent.numerator), MUL)
        first = node.operands[0]
        is_norm = node.operation == "sqrt" and isinstance(first, Contract) and first.left == first.right
        if (self.rough or self.spans) and self.library.norm and isinstance(first, Contract) and is_norm:
            return root_of_squares(self, first, target)
        if node.operation in COMPARISONS:
            return spelled(spelling, [self.compared(operand, target) for operand in node.operands])
        if node.operation not in JOINING:
            return spelled(spelling, [self.aligned(operand, target) for operand in node.operands])
        left, right = node.operands
        pairs = ((left, beside | _given_axes(right)), (right, beside | _given_axes(left)))
        return spelled(spelling, [self.aligned(operand, target, others) for operand, others in pairs])

    def compared(self, node: Node, target: Axes) -> Text:
        """An operand of a comparison or a look-up: an index stays whole numbers."""
        if isinstance(node, Position):
            return self.position(node, target)
        return self.aligned(node, target)

    def position(self, node: Position, target: Axes) -> Text:
        """An index as whole numbers, for comparisons and look-ups."""
        text = self.library.arange.format(range=self.range_of(node.index))
        after = target[target.index(node.index) + 1 :]
        return Text(f"{text}[:{', None' * len(after)}]" if after else text, POSTFIX)

    def _select(self, node: Select, target: Axes, *, fresh: bool = False, loose: bool = False) -> Text:
        """The selection with exactly these axes, if `loose` so that it broadcasts; with `fresh` in its own memory."""
        option, condition = flagged(node.condition)
        if option is not None:
            branches: tuple[Node, ...] = Select(condition, node.yes, node.no), node.yes
            return self._choice(Text(option.name, ATOM), branches, target, fresh=fresh, loose=loose)
        if node.condition.is_host:
            branches = node.yes, node.no
            return self._choice(self._host(node.condition), branches, target, fresh=fresh, loose=loose)
        condition_text = self.aligned(node.condition, target).text
        yes, no = self.aligned(node.yes, target).text, self.aligned(node.no, target).text
        if node.yes.is_host and node.no.is_host:
            if not self.library.number or (_is_whole(node.yes) and _is_whole(node.no)):
                return Text(self.library.where_host.format(condition=condition_text, yes=yes, no=no), POSTFIX)
            yes, no = (self.library.number.format(value=text) for text in (yes, no))
        return Text(f"{self.library.prefix}.where({condition_text}, {yes}, {no})", POSTFIX)

    def _choice(
        self, condition: Text, branches: Sequence[Node], target: Axes, *, fresh: bool, loose: bool
    ) -> Text:  # fmt: skip
        """One of two values, taken before an array is touched: each has the axes that both have together."""
        if loose:
            texts = [self.aligned(branch, target) for branch in branches]
        else:
            texts = [self._branch(branch, target, fresh=fresh) for branch in branches]
        shown = [text.within(TERNARY + 1) for text in texts]
        return Text(f"{shown[0]} if {condition.within(TERNARY + 1)} else {shown[1]}", TERNARY)

    def _branch(self, node: Node, target: Axes, *, fresh: bool) -> Text:
        if isinstance(node, Select) and set(node.axes) == set(target) and not node.is_host:
            return self._select(node, target, fresh=fresh)
        text = self.whole(node, target)
        is_view = not node.is_host and (isinstance(node, (Read, View)) or set(node.axes) != set(target))
        return Text(f"{text.within(POSTFIX)}{self.library.clone}", POSTFIX) if fresh and is_view else text

    # -- reductions --------------------------------------------------------------------------------------------------

    def _reduce(self, node: Reduce) -> Text:
        inner = node.operand.axes
        axis = self.axis(inner, node.over)
        operation = node.operation
        if operation == "max" and any(self._may_be_empty(index) for index in node.over):
            operation = "max of any"
        if operation == "sum" and self.library.sum_of_rows and len(inner) == MATRIX and node.over == inner[:1]:
            shown = self.laid_out(node.operand, inner).text
            return Text(self.library.sum_of_rows.format(operand=shown), POSTFIX)
        is_along_rows = operation == "sum" and node.over == inner[-1:] != inner
        if is_along_rows and self.beside_products and self.library.sum_along_rows:
            shown = self.laid_out(node.operand, inner).text
            return Text(self.library.sum_along_rows.format(operand=shown), POSTFIX)
        operand = self.laid_out(node.operand, inner).within(POSTFIX)
        return Text(self.library.reductions[operation].format(operand=operand, axis=axis), POSTFIX)

    def axis(self, inner: Axes, over: Axes) -> str:
        """The places of what is reduced over."""
        places = [inner.index(index) for index in over]
        if places == [len(inner) - 1]:
            return "-1"
        return str(places[0]) if len(places) == 1 else f"({', '.join(map(str, sorted(places)))})"

    def _may_be_empty(self, index: Index) -> bool:
        return index in self.spans or (isinstance(index.extent, Dim) and str(index.extent) not in self.nonempty)

    # -- on the host -------------------------------------------------------------------------------------------------

    def _host(self, node: Node) -> Text:
        if isinstance(node, Literal):
            return literal(node)
        if isinstance(node, Size):
            return Text(str(node.extent), ATOM)
        if isinstance(node, Option):
            return Text(node.name, ATOM)
        if isinstance(node, Counter):
            return Text(self.variables[node.index], ATOM)
        if isinstance(node, Named):
            return Text(node.name, ATOM)
        if isinstance(node, Map) and node.operation in PLAIN:
            return self._host(PLAIN[node.operation](*node.operands))  # Python computes in double precision
        if isinstance(node, Map):
            return spelled(spelling_in(HOST, node.operation), [self._host(operand) for operand in node.operands])
        if isinstance(node, Select):
            condition, yes, no = (self._host(child) for child in node.children)
            return Text(f"{yes.within(1)} if {condition.within(1)} else {no.within(1)}", TERNARY)
        raise KernelError(f"{type(node).__name__}: is no host value")

    def extent(self, index: Index) -> str:
        """How many values an index has, here."""
        return "({0}.stop - {0}.start)".format(self.variables[index]) if index in self.spans else str(index.extent)


def _is_choice(node: Select) -> bool:
    """Whether a selection is one of two values that a number or a flag decides on, before any array is touched."""
    return node.condition.is_host or flagged(node.condition)[0] is not None


def _given_axes(node: Node) -> frozenset[Index]:
    """The axes that a value has in any case; one of two values may lack what the other has."""
    if isinstance(node, Select) and _is_choice(node):
        return frozenset()
    if isinstance(node, Map) and node.operation in JOINING:
        return frozenset().union(*map(_given_axes, node.operands))
    return frozenset(node.axes)


def _is_whole(node: Node) -> bool:
    return isinstance(node, Literal) and node.denominator == 1 and not node.constant
