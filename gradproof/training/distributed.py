"""Training in several processes that share each batch, by torch.distributed and DistributedDataParallel.

Beside the loop. `torchrun --nproc-per-node N -m gradproof.training ...` starts N processes. All draw the same batches
from the same seed, and each takes its rows; DistributedDataParallel averages the gradients, so that every process makes
the same update. Without torchrun there is one process, and everything here does nothing.

    with process_group(config) as group:
        model = group.wrap(create_model(config, vocabulary, seed))
        loss = group.mean(model.loss_and_gradients(group.share(tokens), group.share(targets), step))
    leave(0)
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, TypeVar

from gradproof.training.config import TrainingConfig
from gradproof.training.errors import ConfigurationError, LaneError, PeerError
from gradproof.training.interruption import ending_at_once
from gradproof.training.model import Ids, Model, model_class

if TYPE_CHECKING:
    from gradproof.training.engine_torch import TorchModel

__all__ = ["Group", "leave", "process_group"]

AnyModel = TypeVar("AnyModel", bound=Model)

_DIGITS = 9
"""Most digits of a number of processes, or of a port."""
_START = "start the processes by torchrun, or take WORLD_SIZE out of the environment"


@dataclass(frozen=True)
class Group:
    """The processes that train one model.

    Attributes:
        rank: Number of this process, from 0.
        size: Number of processes.
        batch: Rows of the whole batch.
    """

    rank: int
    size: int
    batch: int

    @property
    def is_first(self) -> bool:
        """Whether this is the process that reports and writes files."""
        return self.rank == 0

    @property
    def rows(self) -> slice:
        """The rows of a batch that this process takes."""
        share = self.batch // self.size
        return slice(self.rank * share, (self.rank + 1) * share)

    def share(self, batch: Ids) -> Ids:
        """This process's rows of a batch that every process has."""
        return batch[self.rows]

    def wrap(self, model: AnyModel) -> AnyModel:
        """The model itself, its gradients averaged over the processes from now on."""
        if self.size > 1:
            _parallel(model, self.rows.start)
        return model

    def mean(self, loss: float) -> float:
        """The mean of a number over the processes, the same in each."""
        if self.size == 1:
            return loss
        from torch import distributed

        losses: list[float] = [0.0] * self.size
        try:
            distributed.all_gather_object(losses, loss)
        except RuntimeError as error:
            raise _unreached(error) from error
        return fmean(losses)

    @contextmanager
    def reaching(self) -> Iterator[None]:
        """What averages gradients on its way, and fails where another process has ended meanwhile.

        Raises:
            LaneError: The other processes cannot be reached.
        """
        try:
            yield
        except RuntimeError as error:
            if self.size == 1 or not _is_about_reaching(error):
                raise
            raise _unreached(error) from error

    @contextmanager
    def together(self) -> Iterator[None]:
        """What one of the processes may be refused; the others, which would wait for it, end with it.

        Raises:
            PeerError: Another process was refused.
        """
        try:
            yield
        except BaseException:
            with suppress(LaneError):
                self.mean(1.0)
            raise
        if self.mean(0.0):
            raise PeerError("another process of this run was refused; its own message says why")


@contextmanager
def process_group(config: TrainingConfig) -> Iterator[Group]:
    """The processes that torchrun started this one with, or this one alone.

    Raises:
        ConfigurationError: There are several, and the engine is NumPy, or they cannot share the batch evenly; or the
            environment does not say how they find each other.
    """
    size = _number("WORLD_SIZE", 1, "1")
    if size == 1:
        yield Group(0, 1, config.batch)
        return
    if config.engine != "torch":
        raise ConfigurationError(f"{size} processes need engine = 'torch', found {config.engine!r}; add --engine torch")
    if config.batch % size:
        raise ConfigurationError(
            f"the number of processes must divide batch, but batch is {config.batch} and there are {size} processes; "
            f"choose a batch that is a multiple of {size}"
        )
    if _number("RANK", 0) >= size:
        raise ConfigurationError(
            f"RANK: expected a number below WORLD_SIZE, {size}, found {_number('RANK', 0)}; {_START}"
        )
    _number("MASTER_PORT", 1)
    if not os.environ.get("MASTER_ADDR"):
        raise ConfigurationError(
            f"MASTER_ADDR: expected the first process's address beside WORLD_SIZE, found none; {_START}"
        )
    model_class(config)  # an engine that is not installed is an error of its own
    import torch
    from torch import distributed

    if config.device == "cuda" and torch.cuda.is_available():  # without one, the engine says so
        torch.cuda.set_device(_number("LOCAL_RANK", 0, "0"))
    try:
        with ending_at_once():  # whoever waits for a process that never comes
            distributed.init_process_group("nccl" if config.device == "cuda" else "gloo")
    except (RuntimeError, ValueError) as error:
        raise ConfigurationError(
            f"the {size} processes of this run do not find each other: {error}; {_START}"
        ) from error
    try:
        yield Group(distributed.get_rank(), size, config.batch)
        with suppress(RuntimeError):  # what was to be done is done, whoever else is still there
            distributed.barrier()  # the store that all need to take leave lies in one of them
    finally:
        distributed.destroy_process_group()


def leave(status: int) -> None:
    """End this process at once with an exit status, if it is one of several; all that was written is flushed.

    Of a group that DistributedDataParallel had, PyTorch keeps the threads also when the group is destroyed, and at the
    end of Python about one process in twenty is aborted by them ("terminate called without an active exception"):
    torchrun would take a run that is saved for one that failed.
    """
    if _number("WORLD_SIZE", 1, "1") > 1:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):  # nobody reads it any more
                stream.flush()
        os._exit(status)


def _number(name: str, least: int, otherwise: str = "") -> int:
    """The whole number that torchrun puts in the environment under this name; `otherwise` is what none stands for."""
    text = os.environ.get(name, otherwise)
    if not text.isdecimal() or len(text) > _DIGITS or int(text) < least:
        raise ConfigurationError(f"{name}: expected a whole number, at least {least}, found {text!r}; {_START}")
    return int(text)


def _is_about_reaching(error: RuntimeError) -> bool:
    """Whether it comes from between the processes; gloo has no type of its own and says where in its source it is."""
    from torch import distributed

    return isinstance(error, distributed.DistError) or "/gloo/" in str(error)


def _unreached(error: RuntimeError) -> LaneError:
    return LaneError(f"the other processes of this run cannot be reached; they may have ended: {error}")


def _parallel(model: Model, first_row: int) -> None:
    from torch.nn.parallel import DistributedDataParallel

    made: TorchModel = model  # type: ignore[assignment]
    made.network = DistributedDataParallel(made.as_module())
    made.first_row = first_row
