"""One operation, one call: a node computed into memory that is there.

Beside `codegen.printing.blocks`, which decides what is computed and where. An expression over wide values becomes calls
that pass its memory along, an operation at a time; narrow operands are printed as expressions. A selection is computed
and then overwritten where its condition fails, in the columns where it can.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from codegen.backends import Library
from codegen.backends.spelling import ATOM, NOT, POSTFIX, TERNARY
from codegen.blocking.pieces import Setting
from codegen.blocking.supports import End, conjuncts, ends
from codegen.ir.nodes import Axes, Contract, Map, Node, Read, Select
from codegen.ir.sharing import fresh_name
from codegen.ir.trees import flagged, walk
from codegen.lowering.context import ZERO
from codegen.printing.printer import Printer
from codegen.printing.products import matrices
from codegen.printing.spans import cut, diagonal, negated
from codegen.printing.terms import Product, Term, factors_of, terms_of
from codegen.printing.text import Text
from derive.language import Index


@dataclass
class Target:
    """Where a value goes: an expression for the memory, and the variable that is bound to it by the first call.

    `owner` names the value that is computed there, where no variable does.
    """

    memory: str
    variable: str = ""
    owner: str = ""
    is_bound: bool = False

    @property
    def text(self) -> str:
        """The variable once it is bound, before that the memory."""
        return self.variable if self.is_bound and self.variable else self.memory


@dataclass
class Calls:
    """The lines of a block so far.

    `spare` is the number of the next piece of scratch memory, for an operand that dies within its statement, and
    `place` tells the memory of a value by its name.
    """

    printer: Printer
    setting: Setting
    row: Index
    restricted: Mapping[Index, tuple[End, ...]]
    taken: set[str]
    spare: int
    place: Callable[[str], str]
    lines: list[str] = field(default_factory=list)
    depth: int = 0

    @property
    def library(self) -> Library:
        """The array library that is called."""
        return self.printer.library

    def line(self, text: str) -> None:
        """One more line."""
        self.lines.append("    " * self.depth + text)

    def scratch(self, slot: int, axes: Axes) -> str:
        """A numbered piece of scratch memory with these axes, as text."""
        shown = [self.printer.variables.get(index, str(index.extent)) for index in axes]
        return f"room({', '.join([str(slot), *shown])})"

    def compute(self, node: Node, axes: Axes, target: Target) -> None:
        """Lines that compute the node into the target."""
        if node.is_host:
            self.bind(target)
            self.line(self.library.fill.format(out=target.text, value=self.printer.laid_out(node, axes).text))
        elif isinstance(node, Map):
            self._map(node, axes, target)
        elif isinstance(node, Select):
            self._select(node, axes, target)
        elif isinstance(node, Contract):
            self._contract(node, axes, target)
        else:
            self._call(self.library.copy, [self.printer.aligned(node, axes).text], target)

    def _map(self, node: Map, axes: Axes, target: Target) -> None:
        if node.operation == "add" and self._started(node, axes, target):
            return
        if node.operation in ("add", "sub") and self._sum(node, axes, target):
            return
        operands: list[Text] = []
        written = False
        for operand in node.operands:
            if self.setting.is_text(operand):
                operands.append(self.printer.aligned(operand, axes))
            elif not written:
                self.compute(operand, axes, target)
                self.bind(target)
                operands.append(Text(target.text, ATOM))
                written = True
            else:
                name = fresh_name(f"{target.owner or target.variable}_part", self.taken)
                other = Target(self.scratch(self.spare, axes), name, target.owner or target.variable)
                self.spare += 1
                self.compute(operand, axes, other)
                operands.append(Text(other.text, ATOM))
        self._operation(node, operands, axes, target)

    def _started(self, node: Map, axes: Axes, target: Target) -> bool:
        """A call that adds a product of matrices to something smaller; false if the node is no such sum."""
        call = self.library.starts_products.get(len(axes))
        for product, other in (node.operands, node.operands[::-1]) if call is not None else ():
            fits = isinstance(product, Contract) and product.axes == axes and set(other.axes) < set(axes)
            factors = matrices(self.printer, product) if isinstance(product, Contract) and fits else None
            if call is None or factors is None or other.is_host or not self.setting.is_text(other):
                continue
            added = self.printer.aligned(other, axes)
            self._call(call, [*(factor.text for factor in factors), added.text], target)
            return True
        return False

    def _sum(self, node: Map, axes: Axes, target: Target) -> bool:
        """Calls that add multiples of products, entry by entry; false if the node is no sum with such terms."""
        terms = terms_of(node, axes) if self.library.adds_multiples else []
        products = {n: made for n, (sign, term) in enumerate(terms) if (made := self._product(sign, term, axes))}
        begun = self._beginning(terms, products, axes) if products else ()
        if not begun:
            return False
        rest = [n for n in range(len(terms)) if n not in begun]
        late = [begun[0]] if len(begun) > 1 and products[begun[1]].computed else []
        if self._overwrites(target, [terms[n][1] for n in (*late, *rest)]):
            return False
        sign, begin = terms[begun[0]]
        if len(begun) > 1:
            product = products[begun[1]]
            if product.computed:
                self.compute(product.factors[0], axes, target)
                self.bind(target)
            shown = self.printer.aligned(begin if sign > 0 else Map("neg", (begin,)), axes).text
            self._add_product(shown, product, axes, target)
        else:
            self.compute(begin, axes, target)
            self.bind(target)
        for n in rest:
            if n in products:
                self._add_product(target.text, products[n], axes, target)
            else:
                name = "add" if terms[n][0] > 0 else "sub"
                shown = self.printer.aligned(terms[n][1], axes).within(TERNARY)
                self.line(self.library.in_place[name].format(shown, out=target.text))
        return True

    def _beginning(self, terms: Sequence[Term], products: Mapping[int, Product], axes: Axes) -> tuple[int, ...]:
        """The terms that are written first: one, or one and a product that is added to it by the same call.

        A term that has to be computed comes first; else one that can be added to; else a product. There is none, and
        the sum is no such sum, if two have to be computed or nothing can come first.
        """
        others = [n for n in range(len(terms)) if n not in products]
        computed = [n for n in others if not self.setting.is_text(terms[n][1])]
        scaled = [n for n, product in products.items() if product.computed]
        if computed:
            is_plain = len(computed) == 1 and not terms[computed[0]][1].is_host and terms[computed[0]][0] > 0
            return tuple(computed) if is_plain and not scaled else ()
        for n in others:
            for m, product in products.items():
                if self._starts(terms[n], product, axes) and scaled in ([], [m]):
                    return n, m
        return self._first(products) if not scaled else ()

    def _overwrites(self, target: Target, later: Sequence[Node]) -> bool:
        """Whether a term that is read after the first one is written lies in the memory that the sum takes."""
        read = {node.name: node.axes for term in later for node in walk(term) if isinstance(node, Read)}
        return any(self.setting.is_wide(axes) and self.place(name) == target.memory for name, axes in read.items())

    @staticmethod
    def _first(products: Mapping[int, Product]) -> tuple[int, ...]:
        """The product that others are added to, where there are several: one that has a call of its own."""
        plain = [n for n, product in products.items() if product.sign > 0 and product.is_one_call]
        return tuple(plain[:1]) if len(products) > 1 else ()

    def _product(self, sign: int, node: Node, axes: Axes) -> Product | None:
        """A term that is a product of two arrays that are there and at most one number; None for any other.

        Also one of a number and one array, which may have to be computed.
        """
        hosts, factors = factors_of(node)
        if len(hosts) > 1 or self.setting.is_text(node) or set(node.axes) != set(axes):
            return None
        if [len(hosts), len(factors)] == [1, 1] and factors[0].axes == axes:
            return Product(sign, tuple(hosts), tuple(factors), not self.setting.is_text(factors[0]))
        if len(factors) != 2 or not all(self.setting.is_text(factor) for factor in factors):
            return None
        return Product(sign, tuple(hosts), tuple(sorted(factors, key=lambda factor: axes[-1] not in factor.axes)))

    def _starts(self, term: Term, product: Product, axes: Axes) -> bool:
        """Whether a term can be what a product is added to by one call: only one of three may be the same for a row."""
        sign, node = term
        parts = [node, *product.factors]
        is_fast = sum(axes[-1] not in part.axes for part in parts) <= 1
        is_whole = any(set(part.axes) == set(axes) for part in parts)
        return not node.is_host and is_fast and is_whole and (sign > 0 or set(node.axes) < set(axes))

    def _add_product(self, whole: str, product: Product, axes: Axes, target: Target) -> None:
        """The call that adds a product to what is there, or something else, and writes the sum to the target."""
        shown = [self.printer.aligned(factor, axes).text for factor in product.factors if not product.computed]
        shown += [target.text] * product.computed
        signed = [host if product.sign > 0 else Map("neg", (host,)) for host in product.hosts]
        number = "".join(self.printer.laid_out(host, ()).text for host in signed) or "-1" * (product.sign < 0)
        call = self.library.adds_multiples[len(shown) - 1][1 if number else 0]
        self._call(call, [whole, *shown, number], target)

    def _operation(self, node: Map, operands: Sequence[Text], axes: Axes, target: Target) -> None:
        changed = self.library.in_place.get(node.operation)
        if node.operation in ("add", "mul") and operands[1].text == target.text:
            node, operands = Map(node.operation, node.operands[::-1]), operands[::-1]
        if changed and operands[0].text == target.text:
            self.line(changed.format(operands[1].within(TERNARY), out=target.text))
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
            self.line(f"{target.variable} = {text}")
            target.is_bound = True
            return
        if target.variable and not target.is_bound:
            self.bind(target)
            text = call.format(*operands, out=target.text)
        self.line(text)

    def bind(self, target: Target) -> None:
        """A line that binds the target's variable to its memory, if nothing has."""
        if target.variable and not target.is_bound:
            self.line(f"{target.variable} = {target.memory}")
            target.is_bound = True

    def factors(self, node: Contract, axes: Axes) -> tuple[Text, Text] | None:
        """The factors of a contraction that is one product of matrices with these axes; None for any other."""
        turned = Contract(node.right, node.left, node.over)
        found = next((side for side in (node, turned) if side.axes == axes), None)
        return matrices(self.printer, found) if found is not None else None

    def _contract(self, node: Contract, axes: Axes, target: Target) -> None:
        factors = self.factors(node, axes)
        if factors is None:
            self._call(self.library.copy, [self.printer.aligned(node, axes).text], target)
        else:
            call = self.library.products.get(len(axes), self.library.into["matmul"])
            self._call(call, [factor.text for factor in factors], target)

    # -- selections --------------------------------------------------------------------------------------------------

    def _select(self, node: Select, axes: Axes, target: Target) -> None:
        if not node.no.is_host or (node.condition.is_host and flagged(node.condition)[0] is None):
            self._call(self.library.copy, [self.printer.laid_out(node, axes).text], target)
            return
        if isinstance(node.yes, Read) and node.yes.axes == axes and self.place(node.yes.name) == target.memory:
            self.line(f"{target.variable or target.memory} = {node.yes.name}")
            target.is_bound = True
        else:
            self.compute(node.yes, axes, target)
            self.bind(target)
        value = self.printer.laid_out(node.no, axes).text
        # What is finite throughout is dropped by a product with 0, and kept by one with 1.
        is_exponential = isinstance(node.yes, Map) and node.yes.operation == "exp"
        by_product = self.setting.bounded and node.no == ZERO and is_exponential
        for part in sorted(conjuncts(node.condition), key=repr):
            self._fill(part, "" if by_product else value, axes, target)

    def _fill(self, condition: Node, value: str, axes: Axes, target: Target) -> None:
        """Lines that put a value where a condition fails, in the columns where it can; without one, multiply by 0."""
        flag, inner = flagged(condition)
        guards = [flag.name] if flag is not None else []
        printer, out, column, span = self.printer, target.text, "", ""
        if inner.is_host:
            guards.append(printer.laid_out(negated(inner), ()).within(NOT))
            self.line(f"if {' and '.join(guards)}:")
            self.line(f"    {self.library.fill.format(out=out, value=value or '0')}")
            return
        known = [end for end in ends(condition, self.row) if end.index in self.restricted]
        if known:
            (end,) = known
            column, row = printer.variables[end.index], printer.variables[self.row]
            made = cut(end, self.restricted[end.index], column, row, printer)
            guards.append(made.some)
            band = self.library.bands[0 if end.upper else 1]
            where_to = diagonal(end, column, row, printer) if band and axes[-2:] == (self.row, end.index) else ""
            if where_to and not value:
                self.line(f"if {' and '.join(guards)}:")
                self.line(f"    {band.format(out=out, diagonal=where_to)}")
                return
            span = f"{column}_cut = {made.span}"
            shown = [made.place if index == end.index else ":" for index in axes]
            while shown[-1] == ":":
                shown.pop()
            printer = replace(printer, variables={**printer.variables, end.index: f"{column}_cut"})
            out = f"{out}[{', '.join(shown)}]"
        where = printer.aligned(negated(inner) if value else inner, axes)
        if guards:
            self.line(f"if {' and '.join(guards)}:")
        self.depth += bool(guards)
        if span:
            self.line(span)
        if value:
            self.line(self.library.fill_where.format(out=out, value=value, where=where.text))
        else:
            seen = fresh_name("seen", self.taken)
            self.line(f"{seen} = {where.within(POSTFIX)}{self.library.as_number}")
            self.line(self.library.in_place["mul"].format(seen, out=out))
        self.depth -= bool(guards)
