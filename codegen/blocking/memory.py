"""Where the wide values of a block lie: scratch memory by liveness, and in place where a value dies.

Beside `codegen.printing.blocks`. A value is alive from the statement that computes it to the last one that reads it.
Two values share a numbered piece of scratch memory if they are never alive together, and a value whose last reader is
computed in place shares the reader's memory from the beginning: scores become exponentials, and exponentials
probabilities, in one buffer, which may be a block of a stored array. Until such a block is first written, it is as good
as scratch memory; not for factors of matrix products, which are read faster side by side.

In a loop over tiles, what was there before it stays alive through all of them, and so does what one tile hands to the
next; everything else of a tile is gone when the next begins.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from codegen.blocking.pieces import Setting
from codegen.ir.nodes import Axes, Map, Node, Read, Scatter, Select
from codegen.ir.sharing import Statement, reads
from codegen.ir.trees import walk

Interval = tuple[int, int]


@dataclass(frozen=True)
class Memory:
    """For each wide value the stored array whose block it is in, or the number of its piece of scratch memory.

    `parts` are the pieces for what a tile adds to a sum, and `spare` is the first number that is not used.
    """

    stored: dict[str, str] = field(default_factory=dict)
    slots: dict[str, int] = field(default_factory=dict)
    parts: dict[str, int] = field(default_factory=dict)
    spare: int = 0


def allocated(
    statements: Sequence[Statement], setting: Setting, span: range = range(0), lasting: Collection[str] = ()
) -> Memory:
    """The memory of the wide values; `span` are the places of a loop over tiles, which hand on what is `lasting`."""
    where = {statement.name: place for place, statement in enumerate(statements)}
    last = {name: place for place, statement in enumerate(statements) for name in reads(statement.node)}
    lives = {name: _life(place, last.get(name, place), span, name in lasting) for name, place in where.items()}
    chains = _chains(statements, setting, lives, span, lasting)
    memory, slots, parts = Memory(), dict[str, int](), dict[str, int]()
    memory.stored.update({name: chain[-1] for name, chain in chains.items() if chain[-1] in setting.loop.stored})
    used: list[list[Interval]] = []
    waiting = {} if span or setting.loop.has_products else _unwritten(statements, memory.stored)
    for statement in statements:
        name = statement.name
        if name not in chains:
            continue
        if name not in memory.stored and name not in slots:
            chain = chains[name]
            life = lives[name][0], max(lives[link][1] for link in chain)
            block = next((other for other, (axes, lives) in waiting.items()
                          if axes == statement.axes and _is_free(lives, life)), "")  # fmt: skip
            if block:
                waiting[block][1].append(life)
                memory.stored.update(dict.fromkeys(chain, block))
            else:
                slots |= dict.fromkeys(chain, _free(used, life))
        if name in lasting:
            parts[name] = _free(used, (where[name], where[name]))
    return Memory(memory.stored, slots, parts, len(used))


def _chains(
    statements: Sequence[Statement], setting: Setting, lives: Mapping[str, Interval], span: range,
    lasting: Collection[str],
) -> dict[str, list[str]]:  # fmt: skip
    """For each wide value, itself and those that take its memory over in turn, each where the one before dies."""
    where = {statement.name: place for place, statement in enumerate(statements)}
    heirs: dict[str, str] = {}
    for place, statement in enumerate(statements):
        name = _inherited(statement, setting)
        is_dead = name in where and lives[name][1] == place and statement.name not in lasting
        is_dead = is_dead and not (place in span and (name in lasting or where[name] < span.start))
        is_dead = is_dead and name not in setting.kept and setting.is_wide(statement.axes)
        if is_dead and statements[where[name]].axes == statement.axes:
            heirs[name] = statement.name
    chains: dict[str, list[str]] = {}
    for statement in statements:
        if setting.is_wide(statement.axes):
            chains[statement.name] = chain = [statement.name]
            while chain[-1] in heirs:
                chain.append(heirs[chain[-1]])
    return chains


def _life(start: int, end: int, span: range, is_lasting: bool) -> Interval:
    """From where to where a value is alive that is computed and last read at these places."""
    if is_lasting:
        return span.start, max(end, span.stop - 1)
    return start, max(end, span.stop - 1) if start < span.start and end in span else end


def _unwritten(statements: Sequence[Statement], stored: Mapping[str, str]) -> dict[str, tuple[Axes, list[Interval]]]:
    """The axes of the block of each stored array, and from where on it is in use: from where it is first written."""
    found: dict[str, tuple[Axes, list[Interval]]] = {}
    for place, statement in enumerate(statements):
        if statement.name in stored:
            found.setdefault(stored[statement.name], (statement.axes, [(place, len(statements))]))
    return found


def _is_free(lives: Sequence[Interval], life: Interval) -> bool:
    """Whether nothing of these is alive at the same time."""
    start, end = life
    return all(end < first or final < start for first, final in lives)


def _free(used: list[list[Interval]], life: Interval) -> int:
    """The number of the first piece of memory that nothing alive at the same time lies in; it is taken afterwards."""
    for number, lives in enumerate(used):
        if _is_free(lives, life):
            lives.append(life)
            return number
    used.append([life])
    return len(used) - 1


def _inherited(statement: Statement, setting: Setting) -> str:
    """The value whose memory the first call of the statement may write to: an operand of it read nowhere else."""
    node: Node = statement.node
    if isinstance(node, Scatter) and node.base is not None:
        node = node.base
    if isinstance(node, Read):
        return node.name
    while isinstance(node, (Map, Select)):
        inner = node.operands if isinstance(node, Map) else (node.yes,)
        deeper = [n for n in inner if not setting.is_text(n)]
        if not deeper:
            reading = [n.name for n in inner if isinstance(n, Read) and set(n.axes) == set(statement.axes)]
            everywhere = [n.name for n in walk(statement.node) if isinstance(n, Read)]
            return next((name for name in reading if everywhere.count(name) == 1), "")
        node = deeper[0]
    return ""
