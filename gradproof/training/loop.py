"""The training run: batches to the model, gradients to the optimiser, what happens to whoever listens and to the disk.

Draws the data flow of training together: `train` is the whole run, from a text to a result, by the steps and the
evaluations of `gradproof.training.steps`. With a folder, a run leaves metrics and checkpoints there, and one that was
stopped goes on as if it had not been: everything that is drawn is drawn for the seed and the step. The only arithmetic
here is on step counts and seconds.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from signal import SIGTERM
from statistics import fmean

import numpy as np
from threadpoolctl import ThreadpoolController

from gradproof.training.checkpoint import Checkpoint, save, saved_step, tidy
from gradproof.training.config import TrainingConfig
from gradproof.training.data import Corpus, corpus_from
from gradproof.training.diagnosis import affected_weight, first_affected
from gradproof.training.distributed import Group, process_group
from gradproof.training.errors import CheckpointError, DivergenceError, Interrupted, LaneError
from gradproof.training.floor import floor_of, loss_parts
from gradproof.training.folder import check_free, resumption, taken
from gradproof.training.metrics import MetricsFile
from gradproof.training.model import create_model
from gradproof.training.optimiser import AdamW
from gradproof.training.parameters import Array
from gradproof.training.presence import check_kernels
from gradproof.training.process_wide import on_one_thread, without_warnings
from gradproof.training.reports import (
    Event,
    FinalReport,
    HeldOutReport,
    NoteReport,
    SampleReport,
    SavedReport,
    StepReport,
    TrainingResult,
)
from gradproof.training.sampling import sample_text
from gradproof.training.steps import LAST_STEPS, Progress, held_out_batches, held_out_loss, training_steps
from gradproof.training.text import Source, source_of

__all__ = ["train"]

_GLANCE = 64
"""Most windows of an evaluation on the way; the final one takes all that the settings say."""


def train(
    config: TrainingConfig,
    source: Source | str,
    *,
    tell: Callable[[Event], None] = lambda event: None,
    clock: Callable[[], float] = time.perf_counter,
    folder: Path | str | Callable[[], Path] | None = None,
    resume: Checkpoint | None = None,
    stop: Callable[[], int | None] = lambda: None,
    group: Group | None = None,
) -> TrainingResult:
    """Train on all but the last tenth of a text, evaluate on that tenth, and draw a sample.

    The same settings and text give the same result, bar `tokens_per_s`, when the run ends before the time limit; also
    when it was stopped on the way, at any moment, and resumed.

    Args:
        config: The settings.
        source: What to learn from.
        tell: Called with every event. What it raises ends the run after the step that it is in, saved.
        clock: Seconds from any fixed moment.
        folder: Where metrics and checkpoints go, made if need be, and kept to this process meanwhile; without one
            nothing is written, and nothing but steps is told, and their end. A function that gives it is called when
            the run is certain to begin: the model and all kernels are there; it also keeps the folder to this process.
        resume: The state to go on from.
        stop: Called after every step, and between the parts of the final evaluation; a signal number ends the run,
            saved.
        group: The processes that train together; by default those that torchrun has started, or this one alone.

    Raises:
        DataError: The text is too short for the context.
        CheckpointError: The state to go on from is of another text or another model, or beyond the last step; or the
            folder holds another run, or files that are no run's, or another process is at work in it.
        KernelMissingError: The kernels have not been generated.
        DivergenceError: The loss stopped being finite.
        Interrupted: A signal ended the run.
        PeerError: Another of the processes that train together was refused.
    """
    source = source_of(source) if isinstance(source, str) else source
    corpus = corpus_from(source, config.context)
    with ExitStack() as stack:
        # What overflows ends in a loss or a gradient that is not finite, and the error for that says where it began.
        stack.enter_context(without_warnings())
        if config.engine == "numpy":
            # Products this small are quicker on one thread, and two that wait for each other are much slower.
            stack.enter_context(on_one_thread(ThreadpoolController()))
        group = stack.enter_context(process_group(config)) if group is None else group
        with group.together():
            check_kernels(config, process=source.process is not None)
            run = _Run(config, source, corpus, group, tell, resume, stop)
            if folder is not None and group.is_first:
                if callable(folder):
                    folder = folder()
                    check_free(folder)
                else:
                    folder = stack.enter_context(taken(Path(folder), anew=resume is None))
                run.keep_in(folder, stack.enter_context(MetricsFile(folder, run.progress.step)), resume)
        group.wrap(run.model)
        run.take_steps(clock)
        return run.result()


class _Run:
    """The parts of a run, and what it leaves on the disk."""

    def __init__(
        self,
        config: TrainingConfig,
        source: Source,
        corpus: Corpus,
        group: Group,
        tell: Callable[[Event], None],
        resume: Checkpoint | None,
        stop: Callable[[], int | None],
    ) -> None:
        self.config, self.source, self.corpus, self.group, self.tell = config, source, corpus, group, tell
        self.stop = stop
        self.folder: Path | None = None
        self.metrics: MetricsFile | None = None
        self.saved_step: int | None = None
        self.unheard: Exception | None = None
        weights_seed = np.random.SeedSequence(config.seed, spawn_key=(0,))
        self.model = create_model(config, corpus.vocabulary.size, weights_seed)
        self.optimiser = AdamW(self.model)
        self.progress = Progress()
        if resume is not None:
            self._continue_from(resume)

    def keep_in(self, folder: Path, metrics: MetricsFile, resume: Checkpoint | None) -> None:
        """Leave metrics and checkpoints in the folder from now on, the first checkpoint at once."""
        self.folder, self.metrics = folder, metrics
        if metrics.note:
            self.tell(NoteReport(metrics.note))
        if resume is not None and resume.config == self.config and saved_step(folder) == resume.step:
            self.saved_step = resume.step
            tidy(folder, resume.step)
        self._save()

    def take_steps(self, clock: Callable[[], float]) -> None:
        """Take the steps that are left."""
        self._end_if_asked()
        steps = training_steps(self.model, self.optimiser, self.corpus, self.config, self.progress, self.group, clock)
        try:
            for report in steps:
                self.progress.note(report)
                self._tell(report)
                if self.metrics is not None:
                    self._record(report, self.metrics)
                self._end_if_asked()
        except LaneError as error:
            self._save()  # nothing of the step that failed is in the weights
            raise LaneError(
                f"after step {self.progress.step} of {self.config.steps}: {error}; {self._left()}"
            ) from error
        self._save()

    def result(self) -> TrainingResult:
        """What the run has come to; everything is saved, so that a signal may end it between any two parts."""
        done, asked = self.progress, self._end_if_asked
        process = self.source.process
        self.tell(FinalReport(done.step))
        held_out = self._held_out(self.config.evaluation_windows, asked)
        asked()
        floor = floor_of(self.source, self.corpus, self.config)
        asked()
        parts = None if process is None else loss_parts(self.model, process, self.corpus)
        sample = self._sample(done.step, asked)
        asked()
        return TrainingResult(
            train_loss=fmean(done.losses),
            heldout_loss=held_out,
            floor=floor,
            parts=parts,
            tokens_per_s=done.step * self.config.tokens_per_step / done.trained_s if done.trained_s > 0 else 0.0,
            steps=done.step,
            first_loss=done.losses[0] if done.first_loss is None else done.first_loss,
            sample=sample,
            stopped_early=done.step < self.config.steps,
        )

    def _record(self, report: StepReport, metrics: MetricsFile) -> None:
        """Write the step to the metrics, and what is due after it: an evaluation, a sample, a checkpoint."""
        step = report.step
        metrics.add(_step_line(report))
        if _due(step, self.config.evaluate_every):
            loss = self._held_out(min(_GLANCE, self.config.evaluation_windows))
            metrics.add({"step": step, "heldout_loss": loss})
            self._tell(HeldOutReport(step, loss))
        if _due(step, self.config.sample_every):
            text = self._sample(step)
            metrics.add({"step": step, "sample": text})
            self._tell(SampleReport(step, text))
        if _due(step, self.config.checkpoint_every):
            self._save()

    def _held_out(self, most: int, between: Callable[[], None] = lambda: None) -> float:
        """The held-out loss over at most so many windows; one that is not finite ends the run."""
        loss = held_out_loss(self.model, self.corpus, most, between)
        if not math.isfinite(loss):
            looked_at = (
                first_affected(self.model, *batch) for batch in held_out_batches(self.model, self.corpus, most)
            )
            affected = next((found for found in looked_at if found is not None), None)
            raise DivergenceError(
                f"after step {self.progress.step} of {self.config.steps}: expected a finite held-out loss, found "
                f"{loss}; {affected or 'every array is finite when the evaluation is repeated'}; lower the largest "
                f"learning rate, {self.config.learning_rate:g}"
            )
        return loss

    def _tell(self, event: Event) -> None:
        """Tell what a step has brought. What the listener raises has to wait until the step is recorded and saved.

        Ctrl-C also ends the program that shows what is told: a pipe that nobody reads must not cost any steps.
        """
        try:
            self.tell(event)
        except Exception as error:
            self.unheard = self.unheard or error

    def _end_if_asked(self) -> None:
        """End the run, saved, if a signal asked any of the processes for it, or the listener failed."""
        signal_number = self.stop()
        if not self.group.mean(0.0 if signal_number is None and self.unheard is None else 1.0):
            return
        self._save()
        if signal_number is None and self.unheard is not None:
            raise self.unheard
        message = f"interrupted after step {self.progress.step} of {self.config.steps}; {self._left()}"
        raise Interrupted(message, signal_number or SIGTERM)

    def _left(self) -> str:
        """What is left of a run that ends before its time, for whoever reads a message."""
        if self.folder is not None:
            return f"saved in {self.folder}; go on with `{resumption(self.folder)}`"
        if self.group.is_first:
            return "nothing was kept, since no folder was given"
        return "the first process says where it was saved"

    def _sample(self, step: int, between: Callable[[], None] = lambda: None) -> str:
        generator = np.random.default_rng(np.random.SeedSequence(self.config.seed, spawn_key=(2, step)))
        return sample_text(self.model, self.corpus.vocabulary, self.config.sample_length, generator, between)

    def _save(self) -> None:
        """Make this state the checkpoint, unless it is; the metrics are on the disk before it counts.

        A state whose weights are not finite ends the run, and leaves the checkpoint as it is. All processes have the
        same weights, so that all end.
        """
        done = self.progress
        if self.saved_step == done.step:
            return
        weights = self.model.state()
        affected = "" if math.isfinite(self.optimiser.weight_norm()) else affected_weight(weights)
        if affected:
            raise DivergenceError(
                f"after step {done.step} of {self.config.steps}: expected finite weights, found {affected}; the last "
                f"checkpoint stays; lower the largest learning rate, {self.config.learning_rate:g}"
            )
        if self.folder is not None and self.metrics is not None:
            self._write(self.folder, self.metrics, weights)
        self.saved_step = done.step

    def _write(self, folder: Path, metrics: MetricsFile, weights: dict[str, Array]) -> None:
        done = self.progress
        metrics.sync()
        state = Checkpoint(
            step=done.step,
            config=self.config,
            vocabulary=self.corpus.vocabulary,
            origin=self.source.origin,
            fingerprint=self.source.fingerprint,
            first_loss=done.first_loss,
            losses=tuple(done.losses),
            trained_s=done.trained_s,
            weights=weights,
            optimiser=self.optimiser.state(),
        )
        save(folder, state)
        self.tell(SavedReport(done.step, folder))

    def _continue_from(self, state: Checkpoint) -> None:
        if state.fingerprint != self.source.fingerprint:
            raise CheckpointError(
                f"{state.name}: the text is not the one that the run began with: expected the SHA-256 "
                f"{state.fingerprint[:16]}..., found {self.source.fingerprint[:16]}...; give the same text, or "
                "begin anew"
            )
        if state.step > self.config.steps:
            raise CheckpointError(
                f"{state.name}: the run has done {state.step} steps, more than the {self.config.steps} of the "
                "settings; name more"
            )
        if state.vocabulary != self.corpus.vocabulary:
            raise CheckpointError(f"{state.name}: expected the alphabet of the text, found another; begin anew")
        try:
            self.model.load_state(state.weights)
            self.optimiser.load_state(state.optimiser)
        except ValueError as error:
            raise CheckpointError(
                f"{state.name}: does not fit the model that its settings describe: {error}"
            ) from error
        self.progress = Progress(state.step, state.first_loss, deque(state.losses, maxlen=LAST_STEPS), state.trained_s)


def _due(step: int, every: int) -> bool:
    return every > 0 and step % every == 0


def _step_line(report: StepReport) -> dict[str, float | int]:
    return {
        "step": report.step,
        "loss": report.loss,
        "learning_rate": report.learning_rate,
        "gradient_norm": report.gradient_norm,
        "elapsed_s": round(report.elapsed_s, 6),
        "tokens_per_s": round(report.tokens_per_s, 1),
    }
