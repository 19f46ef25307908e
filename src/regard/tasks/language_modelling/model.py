"""A trained language model with everything that prediction needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.config.combinations import STREAM_EXCLUSIONS, excluded
from regard.config.search import Search, with_search
from regard.data.tally import unknown_symbols
from regard.data.text import BOS, EOS, UNKNOWN, Field, RunningText, TextBatch, TextSpan, TextWindows, Vocabulary
from regard.data.text.running_text import decode, line_end, split_text
from regard.data.text.vocabulary import SPECIALS
from regard.decoding import (
    Hypothesis,
    Prediction,
    SearchSource,
    SearchState,
    SearchTree,
    force_align,
    main_alignment,
    search_tree,
    stream,
)
from regard.decoding import search as run_search
from regard.decoding.tree_recorder import refuse
from regard.errors import ConfigError, InputError
from regard.metrics import ItemTerms, Likelihood
from regard.models import AbstractLanguageModel, Encoded
from regard.runs.contract import AbstractModel, check_strict, check_texts
from regard.runs.given import of_data, of_inputs
from regard.runs.observation import observed
from regard.runs.predictions import ScoredPair
from regard.tasks.encoded import item_numbers, pad
from regard.tasks.language_modelling.build import build_model
from regard.tasks.language_modelling.config import (
    ContinuationConfig,
    LanguageModellingConfig,
    TransformerLanguageConfig,
)
from regard.tasks.language_modelling.evaluation import LikelihoodEvaluation, Stretches
from regard.tasks.language_modelling.reading import paths
from regard.tasks.streaming import Pieces, Streamed
from regard.viz import Aligned, alignment_record, plot_alignment
from regard.viz.labels import visible
from regard.viz.report import Table

if TYPE_CHECKING:
    from regard.runs.report import ReportFacts

MOST_SYMBOLS = 20
"""The most symbols in a table of a report."""

LINE_END = "⏎"
TEXT_SIDES = ("text before", "next token")
DRAWN = 16
"""The most tokens of a continuation in a picture."""
MOST_LOGITS = 1 << 22
"""The most log-probabilities of a batch of an evaluation."""
MOST_PROMPTS = 64
"""The most texts of a batch of continuations."""
MOST_SCORED = 2_000
"""The most tokens of a continuation whose probability is computed."""


@dataclass(eq=False, repr=False)
class LanguageModel(AbstractModel[LanguageModellingConfig]):
    """A language model: the field of its text, the module and its configuration.

    Args:
        text: the field, which turns texts into ids and back.
    """

    config: LanguageModellingConfig
    text: Field
    module: AbstractLanguageModel

    assets = ("text.json",)
    no_confidence = "no continuation of a text is the right one, so there is nothing to be sure of"
    line_end = LINE_END

    @classmethod
    def build(cls, config: LanguageModellingConfig, text: Field, *, name: str = "model") -> LanguageModel:
        """An untrained model; its weights are drawn from torch's global generator."""
        return cls(config, build_model(config, num_tokens=len(text.vocabulary)), text, name=name)

    def save_assets(self, folder: Path) -> None:
        self.text.save(folder, "text")

    def vocabularies(self) -> Mapping[str, tuple[str, Vocabulary]]:
        return {"text": ("", self.text.vocabulary)}

    def unlike(self, other: LanguageModel) -> Sequence[str]:
        if other.text.normalisation == self.text.normalisation:
            return []
        return [f"its text was normalised differently ({other.text.normalisation}), which is not copied"]

    @of_inputs
    def predict(
        self,
        inputs: Sequence[str],
        *,
        search: Search | None = None,
        alignment: bool = True,
        strict: bool = False,
    ) -> list[Prediction]:
        """The continuations of texts, in order; batching never changes a result.

        A text without tokens is continued as the beginning of a line. Symbols that training did not have are read as
        `<unk>`, with a warning; outputs never have it.

        Args:
            inputs: texts; their lines are normalised as in training.
            search: the settings of the search, in place of the configuration's `decoding`. A `Search` leaves
                `max_length` as configured; `model.config.decoding.replace(max_length=20)` changes it, too.
            alignment: whether predictions have their alignments: a row for every token of the continuation, a column
                for every token of the text and of the continuation but its last.
            strict: raises an error for a text with a warning.

        Raises:
            ConfigError: for options out of their range, or that contradict each other.
            DataError: for the first text with a warning, if `strict`.
        """
        prompts, warnings = self._prompts(inputs, strict)
        decoding = with_search(self.config.decoding, search)
        results: list[Prediction | None] = [None] * len(inputs)
        ids = [self.text.vocabulary.ids(symbols) for symbols in prompts]
        items = torch.from_numpy(item_numbers(ids))
        order = np.argsort([len(symbols) for symbols in prompts], kind="stable").tolist()
        for start in range(0, len(order), MOST_PROMPTS):
            batch = order[start : start + MOST_PROMPTS]
            arguments = self._arguments([ids[i] for i in batch], items[batch], decoding, alignment)
            for i, hypotheses in zip(batch, run_search(**arguments, text=partial(decode, self.text)), strict=True):
                ranked = [self._prediction(prompts[i], hypothesis, warnings[i]) for hypothesis in hypotheses]
                results[i] = replace(ranked[0], alternatives=tuple(ranked[1:]))
        return [result for result in results if result is not None]

    def stream(
        self,
        inputs: Sequence[str],
        *,
        search: Search | None = None,
        alignment: bool = True,
        strict: bool = False,
    ) -> Iterator[Streamed]:
        """The continuation of every text, piece by piece, as soon as its tokens are certain (`regard.decoding.stream`).

        Args and Raises: as in `predict`; also a ConfigError for a search whose outputs are uncertain until they are
            complete.
        """
        decoding = with_search(self.config.decoding, search)
        if (refused := excluded(decoding, STREAM_EXCLUSIONS)) is not None:
            raise ConfigError(refused[1], ("decoding", refused[0]))
        return self._streamed(*self._prompts(inputs, strict), decoding, alignment)

    def search_tree(self, given: str, *, search: Search | None = None, runners_up: int = 3) -> SearchTree:
        """The tree of the search for the continuation of one text: what was kept, pruned and returned, and why.

        Its `prediction` is that of `predict`. From a node the search goes on if its symbols are added to the text.

        Args:
            search: as in `predict`.
            runners_up: as of `regard.decoding.search_tree`.

        Raises:
            ConfigError: for samples, which have no tree.
        """
        decoding = with_search(self.config.decoding, search)
        refuse(decoding)
        (prompt,), (warnings,) = self._prompts([given], strict=False)
        ids = [self.text.vocabulary.ids(prompt)]
        arguments = self._arguments(ids, torch.from_numpy(item_numbers(ids)), decoding, alignment=True)
        tree, hypotheses = search_tree(**arguments, runners_up=runners_up)
        ranked = [self._prediction(prompt, hypothesis, warnings) for hypothesis in hypotheses]
        tree = tree.spelled(lambda token: self.text.vocabulary.tokens([token])[0], SPECIALS[EOS])
        return replace(tree, prediction=replace(ranked[0], alternatives=tuple(ranked[1:])))

    def score_pairs(self, pairs: Sequence[tuple[Any, Any]]) -> list[ScoredPair]:
        """The log-probabilities of the tokens of given continuations, each after its text.

        Raises:
            DataError: for a continuation that is not a text, or too long.
        """
        prompts, warnings = self._prompts([text for text, _ in pairs], strict=False)
        outputs = []
        for number, (_, output) in enumerate(pairs):
            if not isinstance(output, str):
                raise InputError(number, f"the continuation is a {type(output).__name__}; expected a text")
            outputs.append(split_text(self.text, output))
            if len(outputs[-1]) > MOST_SCORED:
                raise InputError(number, f"{len(outputs[-1]):,} tokens, but a continuation may have {MOST_SCORED:,}")
        ids = [self.text.vocabulary.ids(symbols) for symbols in outputs]
        order = np.argsort([len(symbols) for symbols in outputs], kind="stable").tolist()
        longest = max(map(len, outputs), default=0) + 1
        size = min(MOST_PROMPTS, max(1, MOST_LOGITS // (len(self.text.vocabulary) * longest)))
        results: list[ScoredPair | None] = [None] * len(pairs)
        for start in range(0, len(order), size):
            batch = order[start : start + size]
            memory = self._memory([self.text.vocabulary.ids(prompts[i]) for i in batch])[0]
            forced = force_align(self.module, memory, [torch.from_numpy(ids[i]) for i in batch], bos=BOS, eos=EOS)
            for i, hypothesis in zip(batch, forced, strict=True):
                costs = hypothesis.token_log_probabilities.tolist()
                reasons = warnings[i] if outputs[i] else (*warnings[i], "the continuation is empty")
                if unknown := self.text.vocabulary.unknown(outputs[i]):
                    reasons += (unknown_symbols(unknown, "continuation: not in the training data, read as <unk>"),)
                results[i] = ScoredPair(outputs[i], costs, warnings=reasons)
        return [result for result in results if result is not None]

    def _streamed(
        self,
        prompts: Sequence[list[str]],
        warnings: Sequence[tuple[str, ...]],
        decoding: ContinuationConfig,
        alignment: bool,
    ) -> Iterator[Streamed]:
        ids = [self.text.vocabulary.ids(symbols) for symbols in prompts]
        items = torch.from_numpy(item_numbers(ids))
        for start in range(0, len(prompts), MOST_PROMPTS):
            batch = range(start, min(start + MOST_PROMPTS, len(prompts)))
            pieces = Pieces([partial(decode, self.text)] * len(batch))
            chosen = items[start : start + len(batch)]
            for increment in stream(**self._arguments([ids[i] for i in batch], chosen, decoding, alignment)):
                i, hypothesis = batch[increment.sentence], increment.hypothesis
                prediction = None if hypothesis is None else self._prediction(prompts[i], hypothesis, warnings[i])
                yield pieces.piece(i, increment, prediction)

    def _prompts(self, inputs: Sequence[str], strict: bool) -> tuple[list[list[str]], list[tuple[str, ...]]]:
        """The symbols of texts, and their warnings."""
        check_texts(inputs)
        prompts = [self._symbols(text) for text in inputs]
        unknown = [self.text.vocabulary.unknown(symbols) for symbols in prompts]
        subject = "not in the training data, read as <unk>"
        warnings: list[tuple[str, ...]] = [(unknown_symbols(each, subject),) if each else () for each in unknown]
        if strict:
            check_strict(inputs, warnings)
        return prompts, warnings

    @of_data
    def evaluate(self, path: Path | str) -> LikelihoodEvaluation:
        """The likelihood of a text file; every token is scored once, after the true tokens before it.

        Each sees at least `decoding.context` tokens, or all that there are.

        Raises:
            DataError: for a file that cannot be read, or that the model was trained on.
        """
        self.check_trained(path)
        text = RunningText.read(
            path,
            held_out=0.0,
            units=self.text.units,
            normalisation=self.text.normalisation,  # type: ignore[arg-type]
            vocabulary=self.text.vocabulary,
            keep_lines=True,
        )
        nats = self.token_nats(self.windows(text, text.train))
        figures = Likelihood.of(float(nats.sum()), len(nats), text.train)
        return LikelihoodEvaluation(
            figures, text.train.num_unknown, Stretches(str(path), text, nats), text.train.unknown
        )

    def held_out(self) -> tuple[Path, dict[str, Any]] | None:
        files = paths(self.config.data.dev)
        return (files[0], {}) if len(files) == 1 else None

    def item_terms(self, evaluation: LikelihoodEvaluation) -> ItemTerms:
        units = f"{self.config.data.units}, {len(self.text.vocabulary):,} symbols"
        return evaluation.scored.terms(units)

    @property
    def window(self) -> int:
        """The tokens of a window of an evaluation."""
        return self.config.decoding.window or self.config.training.window

    def windows(self, text: RunningText, part: TextSpan) -> TextWindows:
        """The windows of an evaluation of a part of a text."""
        context = self.config.decoding.context or max(self.window // 2, 1)
        if context > self.window:
            raise ConfigError(f"context={context}: the window has only {self.window} tokens", ("decoding", "context"))
        return TextWindows(text, part, length=self.window + 1 - context, context=context)

    @torch.inference_mode()
    def token_nats(self, windows: TextWindows) -> NDArray[np.float64]:
        """The negative log-likelihood of each scored token, in the order of the text."""
        rows = max(1, MOST_LOGITS // (len(self.text.vocabulary) * self.window))
        batches = observed(windows.in_order(rows), lambda each: (len(each.inputs), len(each.inputs)), len(windows))
        return np.concatenate([self._nats(batch) for batch in batches])

    def report_facts(self, evaluation: LikelihoodEvaluation) -> ReportFacts:
        """The symbols that cost most nats; the worst stretches are drawn as texts that are continued."""
        from regard.runs.report import ReportFacts

        ids, nats = evaluation.tokens
        counts = np.bincount(ids)
        sums = np.bincount(ids, nats)
        order = [int(i) for i in np.argsort(-sums, kind="stable")[:MOST_SYMBOLS] if counts[i]]
        names = self.text.vocabulary.tokens(order)
        costs = [
            (visible(name), int(counts[i]), float(sums[i] / counts[i]), float(sums[i] / sums.sum()))
            for i, name in zip(order, names, strict=True)
        ]
        columns = ["symbol", "times", "nats each", "share of all nats"]
        return ReportFacts(
            lambda stretch: split_text(self.text, stretch.text),
            self.text.vocabulary,
            loss="nats per token",
            inputs=lambda stretch: stretch.text,
            sections=[Table("The symbols that cost most", columns, costs, bars=columns[3:])],
        )

    def rows(self, prediction: Prediction, *, scores: bool = False) -> Sequence[Sequence[str]]:
        """A row for each continuation, the best first: its text with ⏎ for line ends, and its score if `scores` or if
        there are several."""
        outputs = (prediction, *prediction.alternatives)
        scores = scores or self.config.decoding.num_best > 1
        texts = [output.text.replace("\n", LINE_END) for output in outputs]
        return [(text, f"{each.score:.4f}") if scores else (text,) for text, each in zip(texts, outputs)]

    def plot(
        self,
        predictions: Sequence[Prediction],
        path: Path,
        *,
        title: str = "",
        data: Literal["json", "npz"] | None = None,
        heads: bool = False,
        highest: Literal["largest"] | float = 1.0,
    ) -> Sequence[Path]:
        """Draws the attention of the tokens of the texts, and of the first tokens of their continuations."""
        drawn = [self.aligned(prediction) for prediction in predictions]
        return plot_alignment(drawn, path, title=title, data=data, heads=heads, highest=highest)

    def views(self, prediction: Prediction) -> Mapping[str, Mapping[str, Any]]:
        return (
            {} if prediction.alignment is None else {"symbols": alignment_record(self.aligned(prediction), heads=True)}
        )

    @torch.inference_mode()
    def aligned(self, prediction: Prediction) -> Aligned:
        """The weights of a teacher-forced pass over the text and at most 16 tokens of its continuation.

        Rows are the predicted tokens, all but the first, and columns the tokens before them.
        """
        following = prediction.tokens[:DRAWN]
        columns = len(prediction.source_tokens) - max(len(prediction.tokens) - 1, 0)
        tokens = [*prediction.source_tokens[:columns], *following]
        ids = torch.from_numpy(self.text.vocabulary.ids(tokens[:-1]))[None].to(self.device)
        output = self.module(ids, alignment=True)
        alignments = {name: weights[0].cpu() for name, weights in output.alignments.items()}
        main = main_alignment(alignments, self.module)
        assert main is not None  # only predictions with alignments are drawn
        return Aligned(
            main.numpy(),
            tuple(tokens[:-1]),
            tuple(tokens[1:]),
            {name: weights.numpy() for name, weights in alignments.items()},
            prediction.text,
            sides=TEXT_SIDES,
            prompt=(columns, columns - 1),
        )

    def description(self) -> dict[str, Any]:
        return {"text": f"{len(self.text.vocabulary):,} {self.config.data.units} symbols"}

    def _symbols(self, text: str) -> list[str]:
        """The last symbols of a prompt, all that can have an effect; of an empty prompt the end of a line."""
        symbols, end, model = split_text(self.text, text), line_end(self.text), self.config.model
        if not symbols and end is not None:
            symbols = self.text.vocabulary.tokens([end])
        if not isinstance(model, TransformerLanguageConfig):
            return symbols
        reach = model.reach or self.config.training.window
        return symbols[-(model.layers * (reach - 1) + 1) :]

    def _memory(self, prompts: Sequence[NDArray[np.int64]]) -> tuple[Any, Tensor, Tensor]:
        """The texts as the network has read them, with their padded ids and mask."""
        ids, mask = pad(prompts)
        padded = None if bool(mask.all()) else mask.to(self.device)
        with torch.inference_mode():
            return self.module.prepare(Encoded(ids.to(self.device), padded)), ids, mask

    def _arguments(
        self, prompts: Sequence[NDArray[np.int64]], items: Tensor, decoding: ContinuationConfig, alignment: bool
    ) -> dict[str, Any]:
        """The arguments of a search."""
        memory, ids, mask = self._memory(prompts)
        return {
            "decoder": self.module,
            "memory": memory,
            "options": decoding,
            "bos": BOS,
            "eos": EOS,
            "max_length": decoding.max_length,
            "alignment": alignment,
            "processors": [without_unknown],
            "items": items,
            "source": SearchSource(ids, mask),
        }

    def _prediction(self, prompt: list[str], hypothesis: Hypothesis, warnings: tuple[str, ...]) -> Prediction:
        ids = hypothesis.tokens.tolist()
        tokens = self.text.vocabulary.tokens(ids)
        columns = [*prompt, *tokens[:-1]]
        alignments = {name: weights[..., : len(columns)] for name, weights in hypothesis.alignments.items()}
        return Prediction(
            columns,
            tokens,
            decode(self.text, ids),
            hypothesis.score,
            hypothesis.log_probability,
            hypothesis.stop_reason,
            main_alignment(alignments, self.module),
            alignments,
            warnings,
            sides=TEXT_SIDES,
        )

    def _nats(self, batch: TextBatch) -> NDArray[np.float64]:
        inputs, targets, scored = (torch.from_numpy(part).to(self.device) for part in batch)
        log_probabilities = self.module(inputs.long()).log_probabilities
        likelihood: Tensor = log_probabilities.gather(-1, targets.long()[..., None])[..., 0]
        return -likelihood[scored].double().cpu().numpy()


def without_unknown(log_probabilities: Tensor, state: SearchState) -> Tensor:
    """The log-probabilities without the unknown symbol."""
    result = log_probabilities.clone()
    result[:, UNKNOWN] = float("-inf")
    return result
