"""The body of a loop as lines of code: one call for each operation, each into memory that is already there.

Stage 5c of the compiler, beside `codegen.printing.printer`. Outside of loops an expression is printed as it would be
written on paper, and the array library allocates what it needs. Inside, on blocks that fit in the cache, fresh memory
costs more than the arithmetic: each operation on a wide value is a call with `out=`. Where its result goes,
`codegen.blocking.memory` says:

    a stored value          into its block of the whole array
    an accumulated value    into scratch memory, then added to the whole array
    a local value           into the memory of an operand that is not read again, or into scratch memory

Where `codegen.blocking.tiles` can cut the long index, the statements that have it stand in a loop over tiles. The first
tile starts the sums over them, the others are added; if there is one tile only, nothing is done twice.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from codegen.backends.spelling import MUL, TERNARY
from codegen.blocking.loops import Loop
from codegen.blocking.memory import Memory, allocated
from codegen.blocking.pieces import Setting, apart
from codegen.blocking.supports import End
from codegen.blocking.tiles import MERGE, Tiling, Top, tiled
from codegen.errors import KernelError
from codegen.ir.nodes import Axes, Contract, Literal, Map, Node, Read, Scatter, Select, View
from codegen.ir.sharing import Statement, fresh_name
from codegen.ir.trees import fused, with_children
from codegen.printing.calls import Calls, Target
from codegen.printing.companions import is_companion, with_companions_next
from codegen.printing.lookups import scattered
from codegen.printing.printer import Printer
from codegen.printing.spans import visited
from codegen.printing.views import with_views
from derive.language import Index

COMMENT = 104  # letters of a comment line


@dataclass
class BlockPrinter:
    """Prints the body of one loop for one array library; `tile` is the index that may be cut into tiles.

    `rows` names the number of rows of a block, by which the runtime decides how many columns a tile has. `turned` names
    the arrays that have to be laid out anew, each with its name afterwards.
    """

    loop: Loop
    outside: Printer
    variables: Mapping[Index, str]
    restricted: Mapping[Index, tuple[End, ...]]
    taken: set[str]
    lots: Axes = ()
    bounded: bool = False
    tile: Index | None = None
    rows: str = "rows"
    turned: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.setting = Setting(self.loop, self.lots, self.bounded)
        self.library = self.outside.library
        statements = apart(self.setting, self.taken, products_first=self.library.sums_products)
        statements = with_companions_next(statements, self.library)
        if self.library.turned:
            statements = [replace(statement, node=self._turned(statement.node)) for statement in statements]
        self.tiling = tiled(statements, self.tile, self.setting, self.taken) if self.tile is not None else None
        self.statements = self.tiling.statements if self.tiling is not None else tuple(statements)
        cut = {self.tiling.index} if self.tiling is not None else set()
        spans = self.setting.blocked | self.restricted.keys() | cut
        self.variables = {
            index: name for index, name in self.variables.items() if index in spans | self.setting.indices
        }
        self.printer = replace(
            self.outside, variables=self.variables, spans=spans, beside_products=self.loop.has_products
        )
        span, lasting = (self.tiling.span, self.tiling.lasting) if self.tiling is not None else (range(0), ())
        self.memory: Memory = allocated(self.statements, self.setting, span, lasting)
        known = self.restricted
        self.calls = Calls(self.printer, self.setting, self.loop.row, known, self.taken, self.memory.spare, self._place)

    def _turned(self, node: Node) -> Node:
        """The node with products of stacks of matrices reading their right factor from an array laid out for them.

        A matrix that stands alone is typically large, and laid out by the product as fast as it comes.
        """
        if isinstance(node, (Map, Select)):
            return with_children(node, [self._turned(child) for child in node.children])
        right = node.right if isinstance(node, Contract) else None
        if not isinstance(node, Contract) or not isinstance(right, View):
            return node
        if [len(axes) for axes in (node.left_only, node.over, node.right_only)] != [1, 1, 1]:
            return node
        is_given = right.name not in self.setting.kept and self.loop.row not in right.where
        if not is_given or not right.where[:-2] or right.where[-2:] != (*node.right_only, *node.over):
            return node
        if right.name not in self.turned:
            self.turned[right.name] = fresh_name(f"{right.name}_turned", self.taken)
        self.taken.add(self.turned[right.name])
        where = (*right.where[:-2], *node.over, *node.right_only)
        return Contract(node.left, View(self.turned[right.name], where, right.fixed), node.over)

    # -- the body ----------------------------------------------------------------------------------------------------

    def body(self) -> list[str]:
        """The lines of the function that computes one block."""
        for index in self.restricted:
            if self.tiling is None or index != self.tiling.index:
                self.calls.line(f"{self.variables[index]} = {self._visited(index)}")
        if self.tiling is None:
            self._print(self.statements)
        else:
            self._tiled(self.tiling)
        slices = [self.variables[index] for index in self.setting.blocked]
        given = ["part", *slices, *(self.variables[index] for index in self.setting.indices)]
        return with_views(self.calls.lines, given, slices, self.taken)

    def _print(self, statements: Sequence[Statement]) -> None:
        waiting = list(statements)
        while waiting:
            statement = waiting.pop(0)
            self._explain(statement)
            if waiting and is_companion(statement, waiting[0], self.library) and self._along(statement, waiting[0]):
                waiting.pop(0)
            else:
                self._statement(statement)

    def _along(self, statement: Statement, other: Statement) -> bool:
        """A call that computes two statements; false where one of them has no memory of its own."""
        targets = []
        for each in (statement, other):
            memory, name = self._place(each.name), each.name
            if not memory or name in self.loop.accumulated:
                return False
            targets.append(self._target(name, memory))
        node = statement.node
        if not isinstance(node, Map) or not self.setting.is_text(node.operands[0]):
            return False
        self._explain(other)
        for target in targets:
            self.calls.bind(target)
        shown = self.printer.aligned(node.operands[0], statement.axes).text
        call = self.library.companions[node.operation].call
        self.calls.line(call.format(shown, out=targets[0].text, other=targets[1].text))
        return True

    def _explain(self, statement: Statement) -> None:
        for text in filter(None, (statement.formula, statement.because and f"    by {statement.because}")):
            self._comment(text)

    def _comment(self, text: str) -> None:
        for line in textwrap.wrap(text, COMMENT - 4 * self.calls.depth, subsequent_indent="    "):
            self.calls.line(f"# {line}")

    def _visited(self, index: Index) -> str:
        known = self.restricted.get(index, ())
        return visited(str(index.extent), known, self.variables[self.loop.row], self.printer)

    def _place(self, name: str) -> str:
        """The memory of a wide value, as text: nothing for a narrow one."""
        if name in self.memory.stored:
            whole = self.memory.stored[name]
            return self._block(whole, self.loop.stored[whole])
        axes = next(s.axes for s in self.statements if s.name == name)
        return self.calls.scratch(self.memory.slots[name], axes) if name in self.memory.slots else ""

    def _block(self, name: str, axes: Axes) -> str:
        fixed, seen = (tuple(i for i in axes if (i in self.setting.indices) == is_one) for is_one in (True, False))
        return self.printer.laid_out(View(name, axes, fixed), seen).text

    # -- tiles -------------------------------------------------------------------------------------------------------

    def _tiled(self, tiling: Tiling) -> None:
        """Lines for what the tiles need, the loop over them, and what reads their finished sums."""
        self._print(tiling.before)
        for statement in tiling.inside:
            name, is_narrow = statement.name, not self.setting.is_wide(statement.axes)
            if name in tiling.tops:
                self.calls.line(f"{name} = {self.library.lowest}")
            elif name in tiling.sums and is_narrow:
                self.calls.line(f"{name} = {self.library.zeros.format(shape='')}")
            elif name in tiling.sums and name in self.memory.slots:
                self.calls.line(f"{name} = {self._place(name)}")
        self.first = fresh_name("first", self.taken)
        span, variable = self._visited(tiling.index), self.variables[tiling.index]
        self.calls.line(f"for {self.first}, {variable} in workspace.tiles({span}, {self.rows}):")
        self.calls.depth += 1
        for statement in tiling.inside:
            self._explain(statement)
            if statement.name in tiling.sums:
                self._gather(statement)
            elif statement.name in tiling.tops:
                self._maximum(statement, tiling.tops[statement.name])
            else:
                self._statement(statement)
        self.calls.depth -= 1
        self._print([replace(statement, node=self._opened(statement.node)) for statement in tiling.after])

    def _opened(self, node: Node) -> Node:
        """The node with sums that lie in a block of a stored array read there."""
        if isinstance(node, Read) and self.memory.stored.get(node.name, node.name) != node.name:
            whole = self.memory.stored[node.name]
            axes = self.loop.stored[whole]
            return View(whole, axes, tuple(index for index in axes if index in self.setting.indices))
        return with_children(node, [self._opened(child) for child in node.children])

    def _so_far(self, name: str) -> str:
        """The text of a sum, or a maximum, over the tiles so far."""
        return self._place(name) if name in self.memory.stored else name

    def _gather(self, statement: Statement) -> None:
        """Lines that start a sum with the first tile, and add the others to it."""
        name, node, axes = statement.name, statement.node, statement.axes
        if not self.setting.is_wide(axes):
            self.calls.line(f"{name} = {name} + {self.printer.laid_out(node, axes).within(MUL)}")
            return
        whole = self._so_far(name)
        adding = self._adding(node, axes, whole, f", beta=0 if {self.first} else 1")
        if adding:
            self.calls.line(adding)
            return
        memory = f"{whole} if {self.first} else {self.calls.scratch(self.memory.parts[name], axes)}"
        target = Target(memory, fresh_name(f"{name.removesuffix('_so_far')}_tile", self.taken))
        self.calls.compute(node, axes, target)
        self.calls.line(f"if not {self.first}:")
        self.calls.line("    " + self._add(whole, target.text))

    def _add(self, whole: str, part: str) -> str:
        return self.library.in_place["add"].format(part, out=whole)

    def _adding(self, node: Node, axes: Axes, whole: str, beta: str = "") -> str:
        """One call that adds a product of matrices to what is there, or to beta times it; nothing for other nodes."""
        call = self.library.adds_products.get(len(axes))
        if call is None or not isinstance(node, Contract):
            return ""
        factors = self.calls.factors(node, axes)
        return call.format(*(factor.text for factor in factors), out=whole, beta=beta) if factors is not None else ""

    def _maximum(self, statement: Statement, top: Top) -> None:
        """Lines that compare a maximum with that of the tiles before, and bring the sums to the new one."""
        name, axes = statement.name, statement.axes
        found = self.library.operators["maximum"].text.format(name, self.printer.laid_out(statement.node, axes).text)
        if not top.sums:
            self.calls.line(f"{name} = {found}")
            return
        part = fresh_name(f"{name.removesuffix('_so_far')}_tile", self.taken)
        self.calls.line(f"{part} = {found}")
        self.calls.line(f"if not {self.first}:")
        self.calls.depth += 1
        self._comment(f"by {MERGE}")
        values = [Read(which, axes) for which in (name, part)]
        raised: list[Node] = list(values) if top.is_finite else [Map("finite", (value,)) for value in values]
        factor = Map("exp", (Map("sub", (raised[0], raised[1])),))
        self.calls.line(f"{top.factor} = {self.printer.laid_out(factor, axes).text}")
        for other in self.tiling.inside if self.tiling is not None else ():
            if other.name in top.sums:
                scale = self.printer.aligned(Read(top.factor, axes), other.axes).within(TERNARY)
                self.calls.line(self.library.in_place["mul"].format(scale, out=self._so_far(other.name)))
        self.calls.depth -= 1
        self.calls.line(f"{name} = {part}")

    # -- statements --------------------------------------------------------------------------------------------------

    def _statement(self, statement: Statement) -> None:
        name, node, memory = statement.name, statement.node, self._place(statement.name)
        self.calls.spare = self.memory.spare  # what an earlier statement took for its operands is free again
        if name in self.loop.accumulated:
            self._accumulate(statement, memory)
        elif isinstance(node, Scatter):
            self._scatter(statement, memory)
        elif not self.setting.is_wide(statement.axes):
            self._narrow(statement)
        else:
            self.calls.compute(node, statement.axes, self._target(name, memory))

    def _target(self, name: str, memory: str) -> Target:
        """The memory of a value, with a variable for it unless it lies in the block of a stored array."""
        return Target(memory, "" if name in self.loop.stored else name, name)

    def _narrow(self, statement: Statement) -> None:
        """A line for what is one number a row."""
        name, axes, node = statement.name, statement.axes, fused(statement.node)
        place = self._block(name, self.loop.stored[name]) if name in self.loop.stored else name
        call = self.library.into.get(node.operation) if isinstance(node, Map) else None
        if name in self.loop.stored and self.library.assigning_copies and call and len(node.children) == 1:
            self.calls.line(call.format(self.printer.aligned(node.children[0], axes).text, out=place))
            return
        self.calls.line(f"{place} = {self.printer.laid_out(node, axes).text}")

    def _accumulate(self, statement: Statement, memory: str) -> None:
        node, order, axes = statement.node, statement.axes, self.loop.accumulated[statement.name]
        shown = ["part", *(self.variables.get(index, ":") for index in axes)]
        while shown[-1] == ":":
            shown.pop()
        whole = f"{statement.name}[{', '.join(shown)}]"
        if not memory or (isinstance(node, Contract) and self.calls.factors(node, order) is None):
            self.calls.line(self._add(whole, self.printer.laid_out(node, order).text))
            return
        adding = self._adding(node, order, whole)
        if adding:
            self.calls.line(adding)
            return
        target = Target(memory, f"{statement.name}_block")
        self.calls.compute(node, order, target)
        self.calls.line(self._add(whole, target.text))

    def _scatter(self, statement: Statement, memory: str) -> None:
        node = statement.node
        if not isinstance(node, Scatter):
            raise KernelError(f"{statement.name}: expected a scatter")
        if not memory and statement.name in self.loop.stored:
            memory = self._block(statement.name, self.loop.stored[statement.name])
        target = self._target(statement.name, memory)
        base = node.base if node.base is not None else Literal(0)
        if isinstance(base, Scatter):
            raise KernelError(f"{statement.name}: two scatters into one block")
        self.calls.compute(base, statement.axes, target)
        self.calls.bind(target)
        for line in scattered(self.printer, target.text, node, relative=self.setting.blocked):
            self.calls.line(line)
