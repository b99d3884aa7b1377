"""The body of a loop as lines of code: one call for each operation, each into memory that is already there.

Stage 5b of the compiler, beside `codegen.printer`. Outside of loops an expression is printed as it would be written on
paper, and the array library allocates what it needs. Inside, on blocks that fit in the cache, fresh memory costs more
than the arithmetic, so the statements of a body are taken apart until each operation on a wide value (one with two
axes or more) is a call with `out=`. Where the result goes is decided by what dies:

    a stored value          into its block of the whole array
    an accumulated value    into scratch memory, then added to the whole array
    a local value           into the memory of an operand that is not read again, or into scratch memory

A value whose last reader is computed in place shares the reader's memory from the beginning, so that scores become
exponentials, and exponentials probabilities, in one buffer. Narrow values (one number a row) are plain expressions.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from codegen.backends.tables import ATOM, TERNARY
from codegen.errors import KernelError
from codegen.loops import Loop, is_condition, peeled
from codegen.nodes import (
    Axes,
    Contract,
    Gather,
    Literal,
    Map,
    Node,
    Position,
    Read,
    Reduce,
    Scatter,
    Select,
    View,
    flagged,
    walk,
    with_children,
)
from codegen.printer import Printer, Text
from codegen.sharing import Statement, fresh_name, label, reads
from codegen.spans import cut, negated, visited
from codegen.supports import End, conjuncts, ends
from derive.language import Index

COMMENT = 104  # letters of a comment line
LEAVES = (Read, View, Position, Gather)


@dataclass
class Target:
    """Where a value goes: an expression for the memory, and the variable that is bound to it by the first call."""

    memory: str
    variable: str = ""
    is_bound: bool = False

    @property
    def text(self) -> str:
        """The variable once it is bound, before that the memory."""
        return self.variable if self.is_bound and self.variable else self.memory


@dataclass
class BlockPrinter:
    """Prints the body of one loop for one array library."""

    loop: Loop
    outside: Printer
    variables: Mapping[Index, str]
    restricted: Mapping[Index, tuple[End, ...]]
    taken: set[str]
    lot: Index | None = None
    lines: list[str] = field(default_factory=list)
    depth: int = 0

    def __post_init__(self) -> None:
        self.blocked = frozenset({self.loop.row, *([self.lot] if self.lot is not None else [])})
        spans = self.blocked | frozenset(self.restricted)
        self.library = self.outside.library
        self.printer = replace(self.outside, variables=self.variables, spans=spans)
        self.indices = frozenset(self.loop.outer) - self.blocked
        names = {statement.name for statement in self.loop.body}
        self.kept = frozenset({*self.loop.stored, *self.loop.accumulated})
        self.local = frozenset(names - self.kept)
        self.slots: dict[str, int] = {}  # the piece of scratch memory that a value is in
        self.turned: dict[str, Axes] = {}  # accumulated arrays whose last two axes change places inside the loop

    def is_wide(self, axes: Axes) -> bool:
        """Whether a value with these axes is more than a number for each row."""
        return len(axes) >= 2 and not self.blocked.issuperset(axes)

    def _is_text(self, node: Node) -> bool:
        """Whether the value is an expression in a call, and needs no memory of its own."""
        return isinstance(node, LEAVES) or node.is_host or is_condition(node) or not self.is_wide(node.axes)

    # -- the body ----------------------------------------------------------------------------------------------------

    def body(self) -> list[str]:
        """The lines of the function that computes one block."""
        statements = [s for statement in self.loop.body for s in self._apart(statement)]
        last = {name: place for place, s in enumerate(statements) for name in reads(s.node)}
        self.memory = self._memory(statements, last)
        for index, known in self.restricted.items():
            span = visited(str(index.extent), known, self.variables[self.loop.row], self.printer)
            self._line(f"{self.variables[index]} = {span}")
        for statement in statements:
            for text in filter(None, (statement.formula, statement.because and f"    by {statement.because}")):
                self.lines += [f"# {line}" for line in textwrap.wrap(text, COMMENT, subsequent_indent="    ")]
            self._statement(statement, self.memory[statement.name])
        return self.lines

    def _apart(self, statement: Statement) -> list[Statement]:
        """The statement in pieces: what is reduced, contracted or broadcast inside it becomes a value of its own."""
        node = peeled(statement.node, self.indices, self.local)
        axes = tuple(index for index in statement.axes if index not in self.indices)
        made: list[Statement] = []

        def named(part: Node) -> Node:
            if isinstance(part, LEAVES) or part.is_host:
                return part
            name = fresh_name(f"{statement.name}_{label(part)}", self.taken)
            made.append(Statement(name, opened(part), part.axes))
            return Read(name, part.axes)

        def opened(part: Node) -> Node:
            if isinstance(part, (Reduce, Contract)):
                return with_children(part, [named(child) for child in part.children])
            if isinstance(part, Select):
                return Select(part.condition, inside(part.yes, part), inside(part.no, part))
            if isinstance(part, Scatter):
                base = () if part.base is None else (opened(part.base),)
                return with_children(part, [*part.positions, opened(part.value), *base])
            return with_children(part, [inside(child, part) for child in part.children])

        def inside(child: Node, parent: Node) -> Node:
            if child.is_host or isinstance(child, LEAVES) or is_condition(child):
                return child
            same = set(child.axes) == set(parent.axes)
            if self.is_wide(parent.axes) and not self.is_wide(child.axes):
                return named(child) if any(isinstance(n, (Reduce, Contract)) for n in walk(child)) else child
            if self.is_wide(child.axes) and (not same or isinstance(child, (Reduce, Scatter))):
                return named(child)
            return opened(child)

        root = opened(node)
        return [*made, replace(statement, node=root, axes=axes)]

    # -- memory ------------------------------------------------------------------------------------------------------

    def _memory(self, statements: Sequence[Statement], last: Mapping[str, int]) -> dict[str, str]:
        """The memory of each wide value: a block of a stored array, or a numbered piece of scratch memory."""
        heirs: dict[str, str] = {}
        where = {statement.name: place for place, statement in enumerate(statements)}
        for place, statement in enumerate(statements):
            name = self._inherited(statement)
            if name not in where or name in self.kept or last.get(name) != place or not self.is_wide(statement.axes):
                continue
            if statements[where[name]].axes == statement.axes:
                heirs[name] = statement.name
        memory: dict[str, str] = {}
        until: dict[int, int] = {}  # the piece of scratch memory -> the place of its last reader
        for place, statement in enumerate(statements):
            final, end = statement.name, last.get(statement.name, place)
            while final in heirs:
                final = heirs[final]
                end = max(end, last.get(final, where[final]))
            if final in self.loop.stored:
                memory[statement.name] = self._block(final, self.loop.stored[final])
            elif not self.is_wide(statement.axes):
                memory[statement.name] = ""
            elif statement.name in memory:
                continue
            else:
                slot = next((s for s in range(len(until) + 1) if until.get(s, -1) < place), 0)
                until[slot] = max(end, place)
                chain = statement.name
                while True:
                    self.slots[chain] = slot
                    memory[chain] = self._scratch(slot, statements[where[chain]].axes)
                    if chain not in heirs:
                        break
                    chain = heirs[chain]
        self.spare = len(until)
        return memory

    def _scratch(self, slot: int, axes: Axes) -> str:
        shown = [self.variables.get(index, str(index.extent)) for index in axes]
        return f"room({', '.join([str(slot), *shown])})"

    def _block(self, name: str, axes: Axes) -> str:
        fixed, seen = (tuple(i for i in axes if (i in self.indices) == is_fixed) for is_fixed in (True, False))
        return self.printer.laid_out(View(name, axes, fixed), seen).text

    def _inherited(self, statement: Statement) -> str:
        """The value whose memory the first call of the statement may write to: an operand of it read nowhere else."""
        node = statement.node
        if isinstance(node, Scatter) and node.base is not None:
            node = node.base
        if isinstance(node, Read):
            return node.name
        while isinstance(node, (Map, Select)):
            inner = node.operands if isinstance(node, Map) else (node.yes,)
            deeper = [n for n in inner if not self._is_text(n)]
            if not deeper:
                reading = [n.name for n in inner if isinstance(n, Read) and set(n.axes) == set(statement.axes)]
                everywhere = [n.name for n in walk(statement.node) if isinstance(n, Read)]
                return next((name for name in reading if everywhere.count(name) == 1), "")
            node = deeper[0]
        return ""

    # -- statements --------------------------------------------------------------------------------------------------

    def _statement(self, statement: Statement, memory: str) -> None:
        name, node = statement.name, statement.node
        if name in self.loop.accumulated:
            self._accumulate(statement, memory)
        elif isinstance(node, Scatter):
            self._scatter(statement, memory)
        elif not memory:
            self._line(f"{name} = {self.printer.laid_out(node, statement.axes).text}")
        elif not self.is_wide(statement.axes):
            self._line(f"{memory} = {self.printer.laid_out(node, statement.axes).text}")
        else:
            self._compute(node, statement.axes, Target(memory, "" if name in self.loop.stored else name))
        if name in self.loop.stored and not memory:
            raise KernelError(f"{name}: is stored and has no memory")

    def _accumulate(self, statement: Statement, memory: str) -> None:
        node, order = self._turned(statement)
        axes = self.loop.accumulated[statement.name]
        if order != statement.axes:
            memory = self._scratch(self.slots[statement.name], order)
            axes = self.turned[statement.name] = (*axes[:-2], axes[-1], axes[-2])
        shown = ["part", *(self.variables.get(index, ":") for index in axes)]
        while shown[-1] == ":":
            shown.pop()
        whole = f"{statement.name}[{', '.join(shown)}]"
        if not memory:
            self._line(f"{whole} += {self.printer.laid_out(node, order).text}")
            return
        target = Target(memory, f"{statement.name}_block")
        self._compute(node, order, target)
        self._line(f"{whole} += {target.text}")

    def _turned(self, statement: Statement) -> tuple[Node, Axes]:
        """A product of matrices and its axes, turned so that the long axis is the last where that is faster."""
        node, axes = statement.node, statement.axes
        if not (self.library.wide_products and isinstance(node, Contract) and self.printer.matrices(node)):
            return node, axes
        turned = (*axes[:-2], axes[-1], axes[-2])
        is_tall = axes[-2] in self.printer.spans and axes[-1] not in self.printer.spans
        other = Contract(node.right, node.left, node.over)
        return (other, turned) if is_tall and node.axes == axes and other.axes == turned else (node, axes)

    def _scatter(self, statement: Statement, memory: str) -> None:
        node = statement.node
        if not isinstance(node, Scatter):
            raise KernelError(f"{statement.name}: expected a scatter")
        target = Target(memory, "" if statement.name in self.loop.stored else statement.name)
        base = node.base if node.base is not None else Literal(0)
        if isinstance(base, Scatter):
            raise KernelError(f"{statement.name}: two scatters into one block")
        self._compute(base, statement.axes, target)
        self._bind(target)
        for line in self.printer.scattered(target.text, node, relative=self.blocked):
            self._line(line)

    # -- calls -------------------------------------------------------------------------------------------------------

    def _compute(self, node: Node, axes: Axes, target: Target) -> None:
        """Lines that compute the node into the target."""
        if isinstance(node, Map):
            self._map(node, axes, target)
        elif isinstance(node, Select):
            self._select(node, axes, target)
        elif isinstance(node, Contract):
            self._contract(node, axes, target)
        elif node.is_host:
            self._bind(target)
            self._line(self.library.fill.format(out=target.text, value=self.printer.laid_out(node, axes).text))
        else:
            self._call(self.library.copy, [self.printer.aligned(node, axes).text], target)

    def _map(self, node: Map, axes: Axes, target: Target) -> None:
        operands: list[Text] = []
        written = False
        for operand in node.operands:
            if self._is_text(operand):
                operands.append(self.printer.aligned(operand, axes))
            elif not written:
                self._compute(operand, axes, target)
                self._bind(target)
                operands.append(Text(target.text, ATOM))
                written = True
            else:
                name = fresh_name(f"{target.variable or 'part'}_part", self.taken)
                other = Target(self._scratch(self.spare, axes), name)
                self.spare += 1
                self._compute(operand, axes, other)
                operands.append(Text(other.text, ATOM))
        self._operation(node, operands, axes, target)

    def _operation(self, node: Map, operands: Sequence[Text], axes: Axes, target: Target) -> None:
        sign = self.library.augmented.get(node.operation)
        if sign and operands[0].text == target.text:
            self._line(f"{target.text} {sign} {operands[1].within(TERNARY)}")
            return
        if self.library.needs_array_first and node.operands[0].is_host and node.operation in ("add", "mul"):
            node, operands = Map(node.operation, node.operands[::-1]), operands[::-1]
        call = self.library.into.get(node.operation)
        fills = not self.library.needs_array_first or any(set(o.axes) == set(axes) for o in node.operands)
        if call is not None and fills and not (self.library.needs_array_first and node.operands[0].is_host):
            self._call(call, [operand.text for operand in operands], target)
            return
        spelling = self.library.operators[node.operation]
        shown = [operand.within(needed) for operand, needed in zip(operands, spelling.operands, strict=True)]
        self._call(self.library.copy, [spelling.text.format(*shown)], target)

    def _call(self, call: str, operands: Sequence[str], target: Target) -> None:
        """A call that writes to the target's memory, and binds its variable if it is the first to do so."""
        text = call.format(*operands, out=target.text)
        if (
            target.variable
            and not target.is_bound
            and call.startswith(f"{self.library.prefix}.")
            and "copyto" not in call
        ):
            self._line(f"{target.variable} = {text}")
            target.is_bound = True
            return
        if target.variable and not target.is_bound:
            self._bind(target)
            text = call.format(*operands, out=target.text)
        self._line(text)

    def _bind(self, target: Target) -> None:
        if target.variable and not target.is_bound:
            self._line(f"{target.variable} = {target.memory}")
            target.is_bound = True

    def _contract(self, node: Contract, axes: Axes, target: Target) -> None:
        if node.axes != axes and Contract(node.right, node.left, node.over).axes == axes:
            node = Contract(node.right, node.left, node.over)
        factors = self.printer.matrices(node) if node.axes == axes else None
        if factors is None:
            self._call(self.library.copy, [self.printer.aligned(node, axes).text], target)
        else:
            self._call(self.library.into["matmul"], [factor.text for factor in factors], target)

    # -- selections --------------------------------------------------------------------------------------------------

    def _select(self, node: Select, axes: Axes, target: Target) -> None:
        if not node.no.is_host or (node.condition.is_host and flagged(node.condition)[0] is None):
            self._call(self.library.copy, [self.printer.laid_out(node, axes).text], target)
            return
        if isinstance(node.yes, Read) and node.yes.axes == axes and self.memory.get(node.yes.name) == target.memory:
            self._line(f"{target.variable or target.memory} = {node.yes.name}")
            target.is_bound = True
        else:
            self._compute(node.yes, axes, target)
            self._bind(target)
        value = self.printer.laid_out(node.no, axes).text
        for part in sorted(conjuncts(node.condition), key=repr):
            self._fill(part, value, axes, target)

    def _fill(self, condition: Node, value: str, axes: Axes, target: Target) -> None:
        """Lines that put a value where a condition fails, in the columns where it can."""
        flag, inner = flagged(condition)
        if flag is not None:
            self._line(f"if {flag.name}:")
        self.depth += flag is not None
        printer, out = self.printer, target.text
        known = [end for end in ends(condition, self.loop.row) if end.index in self.restricted]
        if known:
            (end,) = known
            column = self.variables[end.index]
            made = cut(end, column, self.variables[self.loop.row], printer)
            self._line(f"{column}_cut = {made.span}")
            shown = [made.place if index == end.index else ":" for index in axes]
            while shown[-1] == ":":
                shown.pop()
            printer = replace(printer, variables={**self.variables, end.index: f"{column}_cut"})
            out = f"{out}[{', '.join(shown)}]"
        where = printer.aligned(negated(inner), axes).text
        self._line(self.library.fill_where.format(out=out, value=value, where=where))
        self.depth -= flag is not None

    def _line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)
