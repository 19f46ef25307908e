"""`regard align`"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from regard.cli import inputs, options
from regard.cli.inputs import CHUNK_ROWS
from regard.cli.standard import BLANKS, check_output, format_of_output, results, say
from regard.errors import DataError, RegardError, counted
from regard.files import plain

if TYPE_CHECKING:
    from regard.decoding import AlignedPair

SUFFIXES = {".jsonl": "jsonl", ".ndjson": "jsonl", ".tsv": "tsv", ".npz": "npz", ".json": "json"}
HEADER = ("line", "source_position", "output_position", "source", "output", "weight")
Format = Literal["pharaoh", "tsv", "jsonl", "json", "npz"]
Method = Literal["intersection", "union", "grow-diag", "grow-diag-final", "grow-diag-final-and"]


def align(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A run folder, or a name from `regard list models`.")],
    file: Annotated[Path | None, typer.Argument(help="A file of pairs, as in training.")] = None,
    source_field: options.SourceField = None,
    target_field: options.TargetField = None,
    source: options.Source = None,
    target: options.Target = None,
    output: options.Output = None,
    overwrite: options.Overwrite = False,
    format: Annotated[
        Format | None,
        typer.Option(
            "--format",
            help="pharaoh: links `0-0 1-2`; tsv: a weight per line; jsonl: objects; json, npz: as `regard plot "
            "--data`. By the suffix of the output file, else pharaoh.",
        ),
    ] = None,
    symbols: Annotated[bool, typer.Option("--symbols", help="Align symbols instead of words.")] = False,
    end_symbol: Annotated[
        bool, typer.Option("--end-symbol", help="Keep the end symbol: a word that attends most to it has no link.")
    ] = False,
    normalise: Annotated[
        bool, typer.Option("--normalise", help="Divide each row by its sum, without blanks and what is left out.")
    ] = False,
    layer: Annotated[
        str | None,
        typer.Option("--layer", metavar="NAME", help="An attention such as cross.3, or mean; default: as in predict."),
    ] = None,
    head: Annotated[
        int | None, typer.Option("--head", min=0, metavar="N", help="One head, from 0; default: their mean.")
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option("--threshold", metavar="X", help="Link all weights of at least X, not the largest of each word."),
    ] = None,
    scores: Annotated[
        bool, typer.Option("--scores", help="In pharaoh: a column with the log-probability of the output.")
    ] = False,
    reverse: Annotated[
        str | None,
        typer.Option(
            "--reverse",
            metavar="MODEL|FILE",
            help="A model of the other direction, or a file of links that it printed.",
        ),
    ] = None,
    symmetrise: Annotated[
        Method | None,
        typer.Option("--symmetrise", help="How links of both directions are joined; default: grow-diag-final-and."),
    ] = None,
    references: Annotated[
        Path | None,
        typer.Option(
            "--references", metavar="FILE", help="Links of each line, `0-0 1?2`: print the alignment error rate."
        ),
    ] = None,
    first: Annotated[
        int, typer.Option("--first", min=0, max=1, help="The number of the first word in references.")
    ] = 0,
    json_: Annotated[bool, typer.Option("--json", help="Print the error rate as a JSON object.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Stop at the first pair with a warning.")] = False,
    device: options.Device = "auto",
) -> None:
    """Align the words of given pairs by what a model attends to.

    The model is fed the outputs of the file. Links are `source-output`, counted from 0, a line for each line of the
    file: each word of the output with the word of the source that it attends to most. Words are separated by blanks;
    smaller symbols are merged, and the weights of a word of the output are the mean of those of its symbols.

    With --references only the error rate goes to stdout; links are written if there is an output file.
    """
    path, fields, output_field = inputs.of_pairs(file, source, target, source_field, target_field)
    kind = format_of_output(output, SUFFIXES, "pharaoh", format)
    flags = {"scores": scores, "reverse": reverse, "symmetrise": symmetrise, "json_": json_, "first": first}
    _check_flags(kind, output, **flags, references=references, format=format, threshold=threshold)
    check_output(output, overwrite=overwrite, inputs=(path, target, references, Path(reverse or "")))
    loaded = options.load(model, device)
    pairs = loaded.pairs(path, target=target, source_field=fields, target_field=output_field)
    judge = None
    if references is not None:
        loaded.check_trained(*filter(None, (path, target, references)))
        judge = ReferenceLinks(references, pairs, first)
    other = None if reverse is None else Reverse(reverse, device, pairs, symmetrise or "grow-diag-final-and")
    from regard.decoding.words import pairs_of

    choices = {"words": not symbols, "end_symbol": end_symbol, "normalise": normalise, "strict": strict}

    def aligned() -> Iterator[tuple[Any, AlignedPair, list[tuple[int, int]]]]:
        for start in range(0, len(pairs), CHUNK_ROWS):
            chunk = [pairs[i] for i in range(start, min(start + CHUNK_ROWS, len(pairs)))]
            with options.kernels_for(loaded, [pair.source + pair.target for pair in chunk]):
                aligned_pairs = loaded.align(chunk, layer=layer, head=head, **choices)
            matrices = [each.hard(threshold=threshold) for each in aligned_pairs]
            if other is not None:
                matrices = other.joined(chunk, aligned_pairs, matrices, choices, threshold)
            for pair, each, matrix in zip(chunk, aligned_pairs, matrices, strict=True):
                if each.warnings:
                    say(f"{pair.place}: {'; '.join(each.warnings)}")
                yield pair, each, pairs_of(matrix)

    everything = aligned() if judge is None else judge.recorded(aligned())
    if kind in ("json", "npz"):
        from regard.files import replace_file
        from regard.viz import save_alignment

        assert output is not None
        alignments = [each for _, each, _ in everything]
        replace_file(output, lambda partial: save_alignment(alignments, partial))
    elif judge is None or output is not None:
        with results(output) as stream:
            for line in _lines(everything, kind, scores=scores, threshold=threshold):
                print(line, file=stream)
    else:
        for _ in everything:
            pass
    if judge is not None:
        with results(None) as stream:
            print(judge.text(json_=json_), file=stream)


def _check_flags(kind: str, output: Path | None, **flags: Any) -> None:
    """Raises RegardError for flags without effect."""
    if kind in ("json", "npz") and (output is None or output.suffix.lower() != f".{kind}"):
        raise RegardError(f"--format {kind} needs a file: give --output FILE.{kind}; got {output or 'stdout'}.")
    if flags["scores"] and kind != "pharaoh":
        raise RegardError(f"--scores is for --format pharaoh, not {kind}.")
    if flags["reverse"] is not None and kind not in ("pharaoh", "jsonl"):
        raise RegardError(f"--reverse joins links, but {kind} has weights: use --format pharaoh or jsonl.")
    if flags["symmetrise"] is not None and flags["reverse"] is None:
        raise RegardError("--symmetrise joins links of two directions: add --reverse.")
    if flags["references"] is not None:
        if output is None and (flags["scores"] or flags["format"] is not None):
            raise RegardError("With --references links are written to a file only: add --output FILE.")
        return
    if flags["json_"]:
        raise RegardError("--json is for the error rate: add --references FILE.")
    if flags["first"]:
        raise RegardError("--first is for the numbers in references: add --references FILE.")
    if flags["threshold"] is not None and kind in ("json", "npz"):
        raise RegardError(f"--threshold selects links, but {kind} has all weights: use another format.")


def _lines(everything: Iterator[Any], kind: str, *, scores: bool, threshold: float | None) -> Iterator[str]:
    """The lines of an output; in pharaoh one for each line of the input, also for blank ones, which are no pairs."""
    from regard.decoding.words import pharaoh

    written = 0
    if kind == "tsv":
        yield "\t".join(HEADER)
    for pair, each, links in everything:
        if kind == "jsonl":
            record = {**each.record(), "links": pharaoh(links)}
            yield json.dumps(plain({"line": pair.line, "source": pair.source, **record}), ensure_ascii=False)
        elif kind == "tsv":
            yield from _rows(pair.line, each, threshold)
        else:
            yield from [""] * (pair.line - written - 1)
            written = pair.line
            yield f"{pharaoh(links)}\t{each.log_probability:.4f}" if scores else pharaoh(links)


def _rows(line: int, pair: AlignedPair, threshold: float | None) -> Iterator[str]:
    columns, rows = ([text.translate(BLANKS) for text in texts] for texts in (pair.source_tokens, pair.tokens))
    for t, weights in enumerate(pair.alignment.tolist()):
        for s, weight in enumerate(weights):
            if threshold is None or weight >= threshold:
                yield f"{line}\t{s}\t{t}\t{columns[s]}\t{rows[t]}\t{weight:.6f}"


def _check_count(path: Path | str, links: Sequence[Any], pairs: Sequence[Any]) -> None:
    """Raises DataError for links with fewer lines than the pairs, or with links after the last pair."""
    last = pairs[len(pairs) - 1]
    for line, further in enumerate(links[last.line :], start=last.line + 1):
        if further.sure or further.possible:
            raise DataError(f"{path}:{line}: links without a pair; the last pair is {last.place}.")
    if len(links) < last.line:
        raise DataError(f"{path}: has links for {len(links):,} lines; {last.place} needs {last.line:,}.")


class Reverse:
    """Links of the other direction, from a model or from a file.

    Args:
        name: a model, or a file of links that `regard align` has printed.
    """

    def __init__(self, name: str, device: str, pairs: Sequence[Any], method: Method) -> None:
        from regard.data.text import read_links

        self.name, self.method = name, method
        self.file = read_links(name) if Path(name).is_file() else None
        self.model = None if self.file is not None else options.load(name, device)
        if self.file is not None:
            _check_count(name, self.file, pairs)

    def joined(
        self,
        pairs: Sequence[Any],
        aligned: Sequence[AlignedPair],
        matrices: Sequence[Any],
        choices: dict[str, Any],
        threshold: float | None,
    ) -> list[Any]:
        """The links (T, S) of both directions; a model that cannot read a pair has no links for it."""
        from regard.decoding import symmetrise

        if self.model is None:
            reversed_ = self._of_file(pairs, aligned, matrices)
        else:
            swapped = self.model.align([(pair.target, pair.source) for pair in pairs], **choices)
            reversed_ = (
                each.hard(threshold=threshold) if each.is_read else forward.new_zeros(forward.T.shape)
                for each, forward in zip(swapped, matrices, strict=True)
            )
        joined = []
        for pair, each, forward, backward in zip(pairs, aligned, matrices, reversed_, strict=True):
            if not each.is_read:
                joined.append(forward)
                continue
            if forward.shape != backward.T.shape:
                steps, positions = forward.shape
                raise DataError(
                    f"{pair.place}: {positions} words of input and {steps} of output, but {self.name} has "
                    f"{backward.shape[1]} and {backward.shape[0]}; do both models normalise and divide texts alike?"
                )
            joined.append(symmetrise(forward, backward, self.method))
        return joined

    def _of_file(self, pairs: Sequence[Any], aligned: Sequence[AlignedPair], matrices: Sequence[Any]) -> Iterator[Any]:
        assert self.file is not None
        for pair, each, forward in zip(pairs, aligned, matrices, strict=True):
            steps, positions = forward.shape
            backward = forward.new_zeros(positions, steps)
            for first, second in self.file[pair.line - 1].sure if each.is_read else ():
                if first >= steps or second >= positions:
                    raise DataError(
                        f"{self.name}:{pair.line}: the link {first}-{second} does not fit {pair.place}, whose output "
                        f"has {steps} words and whose input {positions}."
                    )
                backward[second, first] = True
            yield backward


class ReferenceLinks:
    """Compares links with those of a file."""

    def __init__(self, path: Path, pairs: Sequence[Any], first: int) -> None:
        from regard.data.text import read_links

        self.path = path
        self.references = read_links(path, first=first, num_pairs=pairs[len(pairs) - 1].line)
        self.links: list[list[tuple[int, int]]] = []
        self.lines: list[int] = []
        _check_count(path, self.references, pairs)

    def recorded(self, aligned: Iterator[Any]) -> Iterator[Any]:
        """The same pairs, while their links are recorded."""
        for pair, each, links in aligned:
            rows, columns = len(each.tokens) - each.end_symbol, len(each.source_tokens) - each.end_symbol
            reference = self.references[pair.line - 1]
            for source, target in reference.sure | reference.possible if each.is_read else ():
                if source >= columns or target >= rows:
                    raise DataError(
                        f"{self.path}:{pair.line}: the link {source}-{target}, counted from 0, does not fit "
                        f"{pair.place}, whose input has {columns} words and whose output {rows}."
                    )
            self.links.append(links)
            self.lines.append(pair.line)
            yield pair, each, links

    def text(self, *, json_: bool) -> str:
        """The error rate."""
        from dataclasses import asdict

        from regard.data.text import alignment_errors

        errors = alignment_errors(self.links, [self.references[line - 1] for line in self.lines])
        if json_:
            return json.dumps(plain({"pairs": len(self.lines), **asdict(errors)}))
        return f"{counted(len(self.lines), 'pair|pairs')}: {errors}"
