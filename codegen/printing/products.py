"""Contractions as an array library computes them: one product of matrices wherever each side has something of its own.

Beside `codegen.printing.printer`, which prints everything else. A contraction of two arrays becomes
[shared | own | summed] @ [shared | summed | own], several axes on one side flattened into one; with a vector it is a
product with that; a sum of squares under a root is a norm where the library has one; the rest names its axes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from codegen.backends.spelling import ATOM, MUL, POSTFIX, TERNARY, UNARY
from codegen.ir.nodes import Axes, Contract, Map, Node, Read, Select
from codegen.ir.trees import walk
from codegen.printing.text import Text, spelled
from derive.language import Index

if TYPE_CHECKING:
    from codegen.printing.printer import Printer

MATRIX = 2  # axes


def root_of_squares(printer: Printer, node: Contract, target: Axes) -> Text:
    """The root of a sum of squares."""
    axis = printer.axis(node.left.axes, node.over)
    operand = printer.laid_out(node.left, node.left.axes)
    text = Text(printer.library.norm.format(operand=operand.text, axis=axis), POSTFIX)
    return text if node.axes == target else Text(f"{text.text}{printer.permutation(node.axes, target)}", POSTFIX)


def matrices(printer: Printer, node: Contract) -> tuple[Text, Text] | None:
    """The two factors of a contraction that is one product of matrices, axes as they are; None for any other."""
    if len(node.left_only) != 1 or len(node.right_only) != 1:
        return None
    return _factors(printer, node)


def _factors(printer: Printer, node: Contract) -> tuple[Text, Text]:
    left = _matrix(printer, node.left, node.shared, node.left_only, node.over)
    return left, _matrix(printer, node.right, node.shared, node.over, node.right_only)


def contraction(printer: Printer, node: Contract) -> tuple[Text, Axes]:
    """A contraction as one product of matrices, or with a vector, or else of Einstein's kind; and its axes."""
    rows, columns = node.left_only, node.right_only
    if not rows or not columns:
        text = _with_vector(printer, node)
        return _without_matrix_product(printer, node) if text is None else text, node.axes
    return _unflattened(printer, _product(printer, node), node, node.axes), node.axes


def sum_of_matrix_products(printer: Printer, terms: Sequence[Contract], target: Axes) -> Text:
    """Products of matrices, each but the first added to those before by the call that computes it."""
    text = _product(printer, terms[0])
    for term in terms[1:]:
        text = Text(_adding(printer, text.within(POSTFIX), term), POSTFIX)
    return _unflattened(printer, text, terms[0], target)


def added_up(printer: Printer, name: str, terms: Sequence[Contract], target: Axes) -> list[str]:
    """The same as lines, one for each product."""
    shaped = _unflattened(printer, Text(name, ATOM), terms[0], target).text
    added = [_adding(printer, name, term) for term in terms[1:]]
    return [f"{name} = {_product(printer, terms[0]).text}", *added, *([f"{name} = {shaped}"] if shaped != name else [])]


def _product(printer: Printer, node: Contract) -> Text:
    left, right = _factors(printer, node)
    return Text(f"{left.within(MUL)} @ {right.within(UNARY)}", MUL)


def _adding(printer: Printer, whole: str, node: Contract) -> str:
    """The call that adds a product of two matrices to what is there."""
    return printer.library.adds_products[2].format(
        *(factor.text for factor in _factors(printer, node)), out=whole, beta=""
    )


def _unflattened(printer: Printer, text: Text, node: Contract, target: Axes) -> Text:
    """A product of matrices with the axes that were flattened for it."""
    if len(node.left_only) > 1 or len(node.right_only) > 1:
        text = Text(f"{text.within(POSTFIX)}.reshape({printer.shape(node.axes)})", POSTFIX)
    if node.axes == target:
        return text
    return Text(f"{text.within(POSTFIX)}{printer.permutation(node.axes, target)}", POSTFIX)


def copied(printer: Printer, node: Node) -> Iterator[tuple[str, str]]:
    """The arrays that products of matrices in the node lay out anew, each with what does so as text."""
    for product in walk(node):
        if not isinstance(product, Contract) or not product.left_only or not product.right_only:
            continue
        groups = (product.left_only, product.over), (product.over, product.right_only)
        for side, (rows, columns) in zip(product.children, groups, strict=True):
            if isinstance(side, Read) and not _is_matrix(rows, columns):
                flat, is_turned = _flat(printer, side, product.shared, rows, columns)
                if side.axes != (*product.shared, *((*columns, *rows) if is_turned else (*rows, *columns))):
                    yield side.name, flat


def _is_matrix(rows: Axes, columns: Axes) -> bool:
    """Whether there is one axis on each side, and none to flatten."""
    return len(rows) == 1 and len(columns) == 1


def _matrix(printer: Printer, node: Node, shared: Axes, rows: Axes, columns: Axes) -> Text:
    """The node as a stack of matrices, several axes on one side flattened into one."""
    if _is_matrix(rows, columns):
        return printer.laid_out(node, (*shared, *rows, *columns))
    flat, is_turned = _flat(printer, node, shared, rows, columns)
    turn = (".swapaxes(-1, -2)" if shared else ".T") if is_turned else ""
    return Text(f"{printer.matrices.get(flat, flat)}{turn}", POSTFIX)


def _flat(printer: Printer, node: Node, shared: Axes, rows: Axes, columns: Axes) -> tuple[str, bool]:
    """The node with its axes flattened, and whether its columns come first."""
    turned = (*shared, *columns, *rows)
    # A copy in the order that the entries lie in is cheaper, and a product takes a turned factor as it is.
    is_turned = not isinstance(node, Contract) and bool(node.axes) and node.axes[-1] == rows[-1]
    is_turned = is_turned or (not isinstance(node, (Map, Select)) and printer.structural(node)[1] == turned)
    if is_turned:
        return _flattened(printer, printer.laid_out(node, turned), shared, columns, rows), True
    return _flattened(printer, printer.laid_out(node, (*shared, *rows, *columns)), shared, rows, columns), False


def _flattened(printer: Printer, text: Text, shared: Axes, rows: Axes, columns: Axes) -> str:
    def size(group: Axes) -> str:
        return " * ".join(printer.extent(index) for index in group)

    parts = [*(printer.extent(index) for index in shared), size(rows), size(columns)]
    return f"{text.within(POSTFIX)}.reshape({', '.join(parts)})"


def _with_vector(printer: Printer, node: Contract) -> Text | None:
    """A matrix times a vector, on either side; None for what is neither."""
    matrix, vector = (node.left, node.right) if node.left_only else (node.right, node.left)
    if len(node.over) != 1 or vector.axes != node.over or node.over[0] not in (matrix.axes[0], matrix.axes[-1]):
        return None
    shown = printer.laid_out(matrix, matrix.axes), printer.laid_out(vector, vector.axes)
    is_matrix, comes_last = len(matrix.axes) == MATRIX, matrix.axes[-1] == node.over[0]
    if not is_matrix:
        return Text(f"{shown[0].within(MUL)} @ {shown[1].within(UNARY)}", MUL) if comes_last else None
    return spelled(printer.library.times_vector if comes_last else printer.library.vector_first, shown)


def _without_matrix_product(printer: Printer, node: Contract) -> Text:
    """A contraction that is no product of matrices: as a norm, a sum of products or dot products, else by einsum."""
    if printer.library.norm and node.left == node.right and len(node.left.axes) > 1 and printer.spans:
        return Text(f"{root_of_squares(printer, node, node.axes).text}.square()", POSTFIX)
    if printer.library.sums_products and set(node.left.axes) == set(node.right.axes):
        product = printer.elementwise(Map("mul", (node.left, node.right)), node.left.axes).within(TERNARY)
        places = sorted(node.left.axes.index(index) for index in node.over)
        axis = str(places[0]) if len(places) == 1 else f"({', '.join(map(str, places))})"
        return Text(printer.library.reductions["sum"].format(operand=f"({product})", axis=axis), POSTFIX)
    if (
        printer.library.dots
        and node.left.axes == node.right.axes
        and node.over == node.left.axes[-1:] != node.left.axes
    ):
        shown = [printer.laid_out(side, side.axes).text for side in (node.left, node.right)]
        return Text(printer.library.dots.format(*shown), POSTFIX)
    letters: dict[Index, str] = {}
    for index in (*node.left.axes, *node.right.axes):
        if index not in letters:
            first = index.name[0].lower()
            free = [first, *"abcdefghijklmnopqrstuvwxyz"]
            letters[index] = next(letter for letter in free if letter not in letters.values())
    spec = ["".join(letters[index] for index in axes) for axes in (node.left.axes, node.right.axes, node.axes)]
    operands = [printer.laid_out(side, side.axes).text for side in (node.left, node.right)]
    return Text(
        f'{printer.library.prefix}.einsum("{spec[0]},{spec[1]}->{spec[2]}", {operands[0]}, {operands[1]})', POSTFIX
    )
