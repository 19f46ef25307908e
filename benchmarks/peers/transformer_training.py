"""The Transformer's training step beside Joey NMT's and a plain program's of `torch.nn.Transformer`.

    python benchmarks/peers/transformer_training.py [--sizes 256 512] [--layers 3] [--threads 1] [--dropout 0.1]

All in one process and in turn, so that whatever else the machine does concerns all alike: some steps of one, then some
of the next. A row is a model: so many layers in encoder and decoder, heads 64 wide, feed-forward four times as wide as
the model, norms before the sublayers, vocabularies of 8,000 and a batch of 32 pairs of 20 by 20 tokens without padding,
all with the masks that they would have with padding. `step` is forward, loss and backward; `with Adam` clips the
gradients by norm and updates the weights as well. Times are CPU seconds on one thread and wall-clock seconds on more,
each the median over the rounds; a ratio is the median of the rounds' ratios, the faster peer's time to regard's.
`products` is the time of nothing but the matrix products of a step, by oneDNN as regard computes them, with their
floating-point operations a second; `by MKL` the time of the same products as torch's `linear` computes them.

joeynmt 2.3.0 (`pip install --no-deps joeynmt==2.3.0` and what it imports) has to be in the environment; without it, its
columns are left out. `--profile` prints where regard's step spends its time instead.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.layers import TokenEmbedding, TokenHead
from regard.layers.items import ItemDraws, drawing, sites
from regard.models import EncoderDecoder, transformer_decoder, transformer_encoder

UNKNOWN, PAD, BOS, EOS = range(4)
NUM_TOKENS, BATCH, LENGTH, HEAD = 8000, 32, 20, 64
CLIP_NORM, LEARNING_RATE = 1.0, 1e-4
Loss = Callable[[], Tensor]


def ids(rows: int, length: int, seed: int) -> Tensor:
    """Random ids of words, the same whichever device is torch's default."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randint(EOS + 1, NUM_TOKENS, (rows, length), generator=generator, device="cpu")
    return drawn.to(torch.get_default_device())


class Program:
    """A model with its optimiser.

    Args:
        module: the model.
        loss: the mean loss of the batch.
        optimizer: of its parameters.
    """

    def __init__(self, module: nn.Module, loss: Loss, optimizer: torch.optim.Optimizer) -> None:
        self.module, self.loss, self.optimizer = module.train(), loss, optimizer
        self.parameters = list(module.parameters())

    def step(self) -> None:
        """Forward, loss, backward."""
        for parameter in self.parameters:
            parameter.grad = None
        self.loss().backward()

    def step_with_update(self) -> None:
        """The same, then clipping and Adam."""
        self.step()
        nn.utils.clip_grad_norm_(self.parameters, CLIP_NORM)
        self.optimizer.step()


def regard_program(size: int, layers: int, dropout: float) -> Program:
    """regard's own layers, with dropout by item as in `regard train`."""
    options: dict[str, Any] = {
        "num_layers": layers,
        "num_heads": size // HEAD,
        "feed_forward_size": 4 * size,
        "dropout": dropout,
    }
    encoder = transformer_encoder(TokenEmbedding(NUM_TOKENS, size, padding=PAD), **options)
    embedding = TokenEmbedding(NUM_TOKENS, size, padding=PAD)
    head = TokenHead(size, NUM_TOKENS, never=(PAD, BOS))
    model = EncoderDecoder(encoder, transformer_decoder(embedding, head, memory_size=size, **options))
    source, target = ids(BATCH, LENGTH, 1), ids(BATCH, LENGTH, 2)
    inputs = F.pad(target[:, :-1], (1, 0), value=BOS)
    mask = torch.ones(BATCH, LENGTH, dtype=torch.bool)
    names, steps = sites(model), iter(range(10**9))

    def loss() -> Tensor:
        with drawing(ItemDraws(names, torch.arange(BATCH), seed=1, step=next(steps))):
            total, _ = model.decoder.cross_entropy(inputs, model.prepare(source, mask), target, mask)
        return total / target.numel()

    return Program(model, loss, torch.optim.Adam(model.parameters(), lr=LEARNING_RATE, fused=True))


class PlainTransformer(nn.Module):
    """What a tutorial has: embeddings, sinusoids, `nn.Transformer`, an output layer."""

    positions: Tensor

    def __init__(self, size: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.source = nn.Embedding(NUM_TOKENS, size, padding_idx=PAD)
        self.target = nn.Embedding(NUM_TOKENS, size, padding_idx=PAD)
        self.dropout = nn.Dropout(dropout)
        self.transformer = nn.Transformer(
            size, size // HEAD, layers, layers, 4 * size, dropout, batch_first=True, norm_first=True
        )
        self.head = nn.Linear(size, NUM_TOKENS)
        angles = torch.arange(512)[:, None] * 10000.0 ** (-torch.arange(0, size, 2) / size)
        self.register_buffer("positions", torch.stack([angles.sin(), angles.cos()], -1).flatten(1))

    def embed(self, table: nn.Embedding, inputs: Tensor) -> Tensor:
        """Scaled embeddings with positions."""
        return self.dropout(table(inputs) * table.embedding_dim**0.5 + self.positions[: inputs.shape[1]])

    def forward(self, source: Tensor, inputs: Tensor, padded: Tensor, target_padded: Tensor) -> Tensor:
        """Logits."""
        length, device = inputs.shape[1], inputs.device
        future = nn.Transformer.generate_square_subsequent_mask(length, device, torch.bool)
        features = self.transformer(
            self.embed(self.source, source),
            self.embed(self.target, inputs),
            tgt_mask=future,
            src_key_padding_mask=padded,
            tgt_key_padding_mask=target_padded,
            memory_key_padding_mask=padded,
            tgt_is_causal=True,
        )
        return self.head(features)


def torch_program(size: int, layers: int, dropout: float, rows: int = BATCH) -> Program:
    """`nn.Transformer`."""
    model = PlainTransformer(size, layers, dropout)
    source, target = ids(rows, LENGTH, 1), ids(rows, LENGTH, 2)
    inputs = F.pad(target[:, :-1], (1, 0), value=BOS)

    def loss() -> Tensor:
        logits = model(source, inputs, source == PAD, inputs == PAD)
        return F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=PAD)

    return Program(model, loss, torch.optim.Adam(model.parameters(), lr=LEARNING_RATE, fused=True))


def joey_program(size: int, layers: int, dropout: float) -> Program:
    """Joey NMT's model, batch and loss; its Adam is torch's with defaults."""
    from joeynmt.batch import Batch
    from joeynmt.builders import build_optimizer
    from joeynmt.model import build_model
    from joeynmt.vocabulary import Vocabulary

    names = {"unk_token": "<unk>", "pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "sep_token": None}
    special = SimpleNamespace(**names, unk_id=UNKNOWN, pad_id=PAD, bos_id=BOS, eos_id=EOS, sep_id=None, lang_tags=[])
    vocabulary = Vocabulary([str(i) for i in range(NUM_TOKENS - 4)], special)
    part = {
        "type": "transformer",
        "hidden_size": size,
        "ff_size": 4 * size,
        "num_layers": layers,
        "num_heads": size // HEAD,
        "dropout": dropout,
        "layer_norm": "pre",
        "embeddings": {"embedding_dim": size, "scale": True, "dropout": dropout},
    }
    model = build_model({"encoder": dict(part), "decoder": dict(part)}, vocabulary, vocabulary)
    model.loss_function = ("crossentropy", 0.0)
    target = torch.cat([torch.full((BATCH, 1), BOS), ids(BATCH, LENGTH, 2)], 1)
    target[:, -1] = EOS
    batch = Batch(
        src=ids(BATCH, LENGTH, 1),
        src_length=torch.full((BATCH,), LENGTH),
        src_prompt_mask=None,
        trg=target,
        trg_prompt_mask=None,
        indices=torch.arange(BATCH),
        device=torch.device("cpu"),
        pad_index=PAD,
        eos_index=EOS,
        is_train=True,
    )

    def loss() -> Tensor:
        total, _, _, _ = model(return_type="loss", **vars(batch))
        return batch.normalize(total, normalization="tokens")

    optimizer = build_optimizer({"optimizer": "adam", "learning_rate": LEARNING_RATE}, list(model.parameters()))
    return Program(model, loss, optimizer)


def products(size: int, layers: int, *, onednn: bool) -> tuple[Callable[[], None], float]:
    """A job of a step's matrix products only, and its floating-point operations."""
    rows = BATCH * LENGTH
    shapes = 3 * [(size, size)] + [
        (size, size),
        (4 * size, size),
        (size, 4 * size),
    ]  # an encoder layer: (outputs, inputs)
    shapes = layers * (2 * shapes + 4 * [(size, size)]) + [(NUM_TOKENS, size)]
    weights = {shape: torch.randn(shape) for shape in shapes}
    inputs = {width: torch.randn(rows, width) for shape in shapes for width in shape}
    multiply: Any = torch.ops.mkldnn._linear_pointwise

    def job() -> None:
        for n, k in shapes:
            weight, x, gradient = weights[n, k], inputs[k], inputs[n]
            if onednn:
                for left, right in ((x, weight), (gradient, weight.t()), (gradient.t(), x.t())):
                    multiply(left, right, None, "none", [], "")
            else:
                F.linear(x, weight), gradient @ weight, gradient.t() @ x

    return job, sum(6.0 * rows * n * k for n, k in shapes)


PROGRAMS: dict[str, Callable[[int, int, float], Program]] = {
    "regard": regard_program,
    "nn.Transformer": torch_program,
    "Joey NMT": joey_program,
}


def report(size: int, layers: int, dropout: float, options: argparse.Namespace) -> None:
    """Times all programs, a line of the table."""
    clock = time.process_time if options.threads == 1 else time.perf_counter
    made = {name: make(size, layers, dropout) for name, make in PROGRAMS.items() if name in options.programs}
    jobs: dict[str, Callable[[], None]] = {}
    for name, program in made.items():
        jobs[name] = program.step
        jobs[name + " with Adam"] = program.step_with_update
    jobs["products"], operations = products(size, layers, onednn=True)
    jobs["by MKL"], _ = products(size, layers, onednn=False)
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    for number in range(options.rounds + 1):
        for name in sorted(jobs, reverse=bool(number % 2)):
            start = clock()
            for _ in range(options.steps):
                jobs[name]()
            if number:  # the first round warms up
                seconds[name].append((clock() - start) / options.steps)
    cells = [f"{size}", f"{layers}+{layers}", f"{dropout:g}", f"{options.threads}"]
    for kind in ("", " with Adam"):
        cells += [f"{1000 * statistics.median(seconds[name + kind]):.0f}" for name in made]
        peers = [seconds[name + kind] for name in made if name != "regard"]
        if peers and "regard" in made:
            ratios = sorted(min(others) / own for own, *others in zip(seconds["regard" + kind], *peers, strict=True))
            cells.append(f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})")
    floor, mkl = (statistics.median(seconds[name]) for name in ("products", "by MKL"))
    cells += [
        f"{1000 * floor:.0f} ({operations / floor / 1e9:.0f})",
        f"{1000 * mkl:.0f} ({operations / mkl / 1e9:.0f})",
    ]
    print(f"| {' | '.join(cells)} |", flush=True)


def profile(size: int, layers: int, dropout: float, options: argparse.Namespace) -> None:
    """Where a program's step spends its time, by torch's profiler."""
    for name in options.programs:
        program = PROGRAMS[name](size, layers, dropout)
        for _ in range(2):
            program.step()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
            for _ in range(options.steps):
                program.step()
        print(name, size, layers, dropout)
        print(profiler.key_averages().table(sort_by="self_cpu_time_total", row_limit=25, max_name_column_width=45))


def main() -> None:
    """Times the programs, a line of the table for each size, number of layers and dropout."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[256, 512])
    parser.add_argument("--layers", type=int, nargs="+", default=[3])
    parser.add_argument("--dropout", type=float, nargs="+", default=[0.0, 0.1])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS, default=list(PROGRAMS))
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    if not options.profile:
        programs = [name for name in PROGRAMS if name in options.programs]
        columns = ["wide", "layers", "dropout", "threads"]
        for kind in ("step", "with Adam"):
            columns += [f"{name}, {kind}, ms" for name in programs] + ["ratio"] * (len(programs) > 1)
        columns += ["products, ms (GFLOP/s)", "by MKL, ms (GFLOP/s)"]
        print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    for size in options.sizes:
        for layers in options.layers:
            for dropout in options.dropout:
                (profile if options.profile else report)(size, layers, dropout, options)


if __name__ == "__main__":
    main()
