"""Random processes of known entropy, to train on: here the least possible loss is known beforehand.

Beside the data flow of training: a process gives a text, and for every place in it the distribution that the next token
was drawn from. A model's loss is the entropy of that distribution plus the divergence of the model from it, so that on
such a text a loss has a floor that it can be measured against. What this module computes is probabilities of the
process; no weight, activation, gradient or loss ever reaches it.

    markov:order=2,symbols=8       a Markov chain: the next symbol depends on the last two
    copy:block=8,symbols=16        blocks of random symbols, each followed by its copy: a task for induction heads
"""

from __future__ import annotations

import math
import string
from bisect import bisect
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gradproof.training.errors import DataError

__all__ = ["CopyTask", "MarkovChain", "Process", "mean_entropy", "parse_process"]

Probabilities = NDArray[np.float64]

_LETTERS = "".join(sorted(string.ascii_letters + string.digits))
_CONCENTRATIONS = 0.01, 1e6
_ENTRIES = 2**20
"""Most transition probabilities of a Markov chain."""
_TOLERANCE = 1e-14
"""The stationary distribution is found when a step changes it by no more than this in total,"""
_STEPS = 20_000
"""or given up after so many steps: the chain is close to one that stays in a part of its states."""


class Process(Protocol):
    """What is known about a random text.

    Attributes:
        symbols: Its tokens in code-point order.
        entropy_rate: Entropy of a token given all before it, in nats per token.
        memory: So many tokens before a token settle the distribution of what follows it.
    """

    @property
    def symbols(self) -> str:
        """The tokens in code-point order."""

    @property
    def memory(self) -> int:
        """So many tokens before a token settle the distribution of what follows it."""

    @property
    def entropy_rate(self) -> float:
        """Entropy of a token given all the tokens before it, in nats per token."""

    def draw(self) -> str:
        """The text, always the same for the same settings."""

    def conditionals(self, ids: NDArray[np.int64], start: int) -> Probabilities:
        """The distribution of what follows each of `ids`, tokens of the text from place `start` on; shape (N, V).

        Row t is the distribution of token t + 1 given every token up to t.
        """

    def window_floor(self, context: int) -> float:
        """Least mean loss over windows of `context` tokens, whose first tokens are predicted from few."""


@dataclass(frozen=True)
class MarkovChain:
    """A text in which each symbol depends on the `order` symbols before it, and on nothing else.

    The distribution after each of the symbols^order states is drawn once from a Dirichlet distribution, small
    `concentration` giving predictable states. All are positive, so that the chain has one stationary distribution pi,
    and its entropy rate is Sum_s pi[s] H(P[s]).
    """

    order: int = 2
    symbols_count: int = 8
    length: int = 400_000
    concentration: float = 0.5
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what no chain can have.

        Raises:
            DataError: A setting is out of range, or there are too many states.
        """
        _require("markov", "order", self.order, 1, 16)
        _require("markov", "symbols", self.symbols_count, 2, len(_LETTERS))
        _require("markov", "length", self.length, 100, 10**9)
        _require("markov", "seed", self.seed, 0, 2**63)
        least, most = _CONCENTRATIONS
        if not least <= self.concentration <= most:
            raise DataError(f"markov: concentration must be from {least} to {most:g}, found {self.concentration}")
        if self.symbols_count ** (self.order + 1) > _ENTRIES:
            raise DataError(
                f"markov: {self.symbols_count} symbols at order {self.order} make "
                f"{self.symbols_count ** (self.order + 1)} transition probabilities, more than {_ENTRIES}; lower one"
            )

    @property
    def symbols(self) -> str:
        """The first letters and digits, in code-point order."""
        return _LETTERS[: self.symbols_count]

    @property
    def memory(self) -> int:
        """The state is the token itself and the order - 1 before it."""
        return self.order - 1

    @cached_property
    def transitions(self) -> Probabilities:
        """P, shape (states, symbols); state s is the last `order` symbols, the oldest first, as digits of a number."""
        states = self.symbols_count**self.order
        generator = np.random.default_rng([self.seed, 0])
        drawn = generator.gamma(self.concentration, size=(states, self.symbols_count))
        positive = np.maximum(drawn, np.finfo(np.float64).tiny ** 0.25)
        rows: Probabilities = positive / positive.sum(axis=1, keepdims=True)
        return rows

    @cached_property
    def stationary(self) -> Probabilities:
        """pi, shape (states,): the distribution that a step of the chain leaves as it is, by repeated steps."""
        states = self.symbols_count**self.order
        now: Probabilities = np.full(states, 1 / states)
        for _ in range(_STEPS):
            arriving = (now[:, None] * self.transitions).reshape(self.symbols_count, states).sum(axis=0)
            then: Probabilities = arriving / arriving.sum()
            if np.abs(then - now).sum() <= _TOLERANCE:
                return then
            now = then
        raise DataError(
            f"markov: no stationary distribution found within {_STEPS} steps; raise concentration, {self.concentration}"
        )

    @cached_property
    def entropy_rate(self) -> float:
        """Sum_s pi[s] H(P[s])."""
        return float(-(self.stationary[:, None] * _x_log_x(self.transitions)).sum())

    def draw(self) -> str:
        """`length` symbols, the first `order` of them from the stationary distribution."""
        generator = np.random.default_rng([self.seed, 1])
        states = self.symbols_count**self.order
        cumulative = np.cumsum(self.transitions, axis=1)[:, :-1].tolist()
        state = int(generator.choice(states, p=self.stationary))
        drawn = [state // self.symbols_count**place % self.symbols_count for place in reversed(range(self.order))]
        for uniform in generator.random(max(0, self.length - self.order)).tolist():
            symbol = bisect(cumulative[state], uniform)
            drawn.append(symbol)
            state = (state * self.symbols_count + symbol) % states
        return "".join(map(self.symbols.__getitem__, drawn[: self.length]))

    def conditionals(self, ids: NDArray[np.int64], start: int) -> Probabilities:
        """P[state]; as long as fewer than `order` tokens are known, the state is not, and the rows are not a number."""
        states = np.zeros(len(ids), dtype=np.int64)
        for back in range(min(self.order, len(ids))):
            states[back:] += ids[: len(ids) - back] * self.symbols_count**back
        rows = self.transitions[states]
        rows[: self.order - 1] = np.nan
        return rows

    def window_floor(self, context: int) -> float:
        """The mean of H(x[j] | x[0..j-1]) over the `context` targets j = 1, 2, ... of a window.

        From j = `order` on it is the rate; before, symbols that matter lie outside the window and are not seen.
        """
        joint = (self.stationary[:, None] * self.transitions).reshape((self.symbols_count,) * (self.order + 1))
        blocks = [0.0]  # entropies of the first 1, 2, ... symbols; the chain is stationary
        for size in range(1, self.order + 2):
            marginal = joint.sum(axis=tuple(range(size, self.order + 1)))
            blocks.append(float(-_x_log_x(marginal).sum()))
        early = [blocks[size + 1] - blocks[size] for size in range(1, min(self.order, context) + 1)]
        return (math.fsum(early) + (context - len(early)) * self.entropy_rate) / context


@dataclass(frozen=True)
class CopyTask:
    """Periods of `block` random symbols, an equals sign, the same symbols again, and a line break.

    The first block is uniform and independent, everything else is certain, so that the entropy rate is block *
    log(symbols) / (2 * block + 2). To reach it a model has to find the symbol that it has seen block + 1 tokens ago.
    """

    block: int = 8
    symbols_count: int = 16
    length: int = 400_000
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what no such text can have.

        Raises:
            DataError: A setting is out of range.
        """
        _require("copy", "block", self.block, 1, 10_000)
        _require("copy", "symbols", self.symbols_count, 2, len(_LETTERS))
        _require("copy", "length", self.length, 10 * self.period, 10**9)
        _require("copy", "seed", self.seed, 0, 2**63)

    @property
    def symbols(self) -> str:
        """The line break, the first letters and digits, and the equals sign, in code-point order."""
        return "".join(sorted("\n=" + _LETTERS[: self.symbols_count]))

    @property
    def memory(self) -> int:
        """A copy stands block + 1 tokens after its original; the token before the copy, block tokens."""
        return self.block

    @property
    def period(self) -> int:
        """Tokens after which a new block begins."""
        return 2 * self.block + 2

    @property
    def entropy_rate(self) -> float:
        """Block * log(symbols) / period."""
        return self.block * math.log(self.symbols_count) / self.period

    def draw(self) -> str:
        """`length` tokens."""
        generator = np.random.default_rng([self.seed, 2])
        periods = -(-self.length // self.period)
        letters = np.array(list(_LETTERS[: self.symbols_count]))
        blocks = ["".join(block) for block in letters[generator.integers(0, len(letters), (periods, self.block))]]
        return "".join(f"{block}={block}\n" for block in blocks)[: self.length]

    def conditionals(self, ids: NDArray[np.int64], start: int) -> Probabilities:
        """Uniform over the symbols within the first block, else certain.

        A copy whose original lies before `ids` cannot be told from them; those rows are not a number.
        """
        places = np.arange(start + 1, start + 1 + len(ids)) % self.period  # of the tokens that are predicted
        rows = np.zeros((len(ids), len(self.symbols)))
        letters = np.isin(list(self.symbols), list(_LETTERS))
        rows[np.ix_(places < self.block, letters)] = 1 / self.symbols_count
        rows[places == self.block, self.symbols.index("=")] = 1
        rows[places == self.period - 1, self.symbols.index("\n")] = 1
        (copies,) = np.nonzero((places > self.block) & (places < self.period - 1))
        originals = copies - self.block  # the target of row t is token t + 1, its original is block + 1 before that
        seen = originals >= 0
        rows[copies[seen], ids[originals[seen]]] = 1
        rows[copies[~seen]] = np.nan
        return rows

    def window_floor(self, context: int) -> float:
        """The mean over every phase that a window can begin in, of a predictor that knows the phase.

        A symbol of a first block costs log(symbols), and so does a copy whose original lies before the window. A window
        shows its phase only at its first mark, so that the true floor lies a little higher.
        """
        unknown = 0
        for phase in range(self.period):
            for target in range(phase + 1, phase + 1 + context):
                place = target % self.period
                copied = self.block < place < self.period - 1
                unknown += place < self.block or (copied and target - self.block - 1 < phase)
        return unknown * math.log(self.symbols_count) / (self.period * context)


_KINDS: dict[str, Callable[..., Process]] = {"markov": MarkovChain, "copy": CopyTask}


def parse_process(text: str) -> Process:
    """The process that a text such as `markov:order=2,symbols=8` names; what it leaves out has its default.

    Raises:
        DataError: The kind or a setting is unknown, or a value is not a number or out of range.
    """
    kind, _, rest = text.partition(":")
    if kind not in _KINDS:
        raise DataError(
            f"{text}: expected a process, {' or '.join(_KINDS)}, found {kind!r}; try markov:order=2,symbols=8"
        )
    made = _KINDS[kind]
    known = {"symbols" if each.name == "symbols_count" else each.name: each for each in fields(made)}  # type: ignore[arg-type]
    settings: dict[str, Any] = {}
    for part in filter(None, rest.split(",")):
        name, sign, value = (piece.strip() for piece in part.partition("="))
        if name not in known or not sign:
            expected = ", ".join(f"{each}=..." for each in known)
            raise DataError(f"{text}: expected settings of {kind}, which are {expected}; found {part!r}")
        if known[name].name in settings:
            raise DataError(f"{text}: {name} is given twice; leave one of them out")
        settings[known[name].name] = _number(text, name, value, whole=isinstance(known[name].default, int))
    return made(**settings)


def mean_entropy(rows: Probabilities) -> float:
    """The mean of H(P) = -Sum_v P[v] log P[v] over the distributions in `rows`, shape (..., V), in nats."""
    return float(-_x_log_x(rows).sum(axis=-1).mean())


def _number(text: str, name: str, value: str, *, whole: bool) -> int | float:
    try:
        return int(value) if whole else float(value)
    except ValueError as error:
        kind = "a whole number" if whole else "a number"
        raise DataError(f"{text}: expected {kind} for {name}, found {value!r}") from error


def _require(kind: str, name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise DataError(f"{kind}: {name} must be from {least} to {most}, found {value}")


def _x_log_x(values: Probabilities) -> Probabilities:
    """X log x, which is 0 at 0."""
    found: Probabilities = values * np.log(np.where(values > 0, values, 1.0))
    return found
