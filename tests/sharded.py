"""Run by `test_models_sharded.py` in two processes: sharded models train and search as on one process."""

from __future__ import annotations

import sys
from functools import partial

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from regard import attention as a
from regard.decoding import Search, search
from regard.layers import RecurrentStack, TokenEmbedding, TokenHead
from regard.models import (
    Bridge,
    EncoderDecoder,
    RecurrentDecoder,
    RecurrentEncoder,
    register_entry_points,
    transformer_decoder,
    transformer_encoder,
)

N, E, D, B, S, T = 8, 4, 8, 4, 5, 4
MASK = torch.arange(S) < torch.tensor([5, 4, 2, 3])[:, None]


def recurrent(recipe, **options):
    torch.manual_seed(0)
    mechanism = recipe(query_size=D, memory_size=D, size=D)
    encoder = RecurrentEncoder(TokenEmbedding(N, E), RecurrentStack(E, D // 2, cell="gru", bidirectional=True))
    stack = RecurrentStack(RecurrentDecoder.input_size(E, D, attention=mechanism, **options), D, cell="gru")
    bridge = Bridge(encoder.stack, stack)
    head = TokenHead(D, N, never=(0,))
    return EncoderDecoder(
        encoder, RecurrentDecoder(TokenEmbedding(N, E), stack, head, bridge, attention=mechanism, **options)
    )


def transformer():
    torch.manual_seed(0)
    sizes = {"num_layers": 1, "num_heads": 2, "feed_forward_size": 8, "dropout": 0.0}
    decoder = transformer_decoder(TokenEmbedding(N, D), TokenHead(D, N, never=(0,)), memory_size=D, **sizes)
    return EncoderDecoder(transformer_encoder(TokenEmbedding(N, D), **sizes), decoder)


MODELS = {
    "additive": lambda: recurrent(a.bahdanau),
    "at once": lambda: recurrent(a.bahdanau, input_feeding=False),
    "location": lambda: recurrent(partial(a.location_sensitive, num_filters=2, kernel_size=3)),
    "transformer": transformer,
}


def owners(model, granularity):
    """The modules that are sharded, innermost first."""
    if granularity == "model":
        return [model]
    if granularity == "sides":
        return [model.encoder, model.decoder, model]
    found = [m for m in model.modules() if next(m.parameters(recurse=False), None) is not None]
    return [*reversed(found), model]


def train(model, steps=2):
    """Losses of the whole batch, by each of the ways that training has; and what a search finds."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    losses = []
    rank, parts = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
    draw = torch.Generator().manual_seed(1)
    source, ids = torch.randint(1, N, (B, S), generator=draw), torch.randint(1, N, (B, T), generator=draw)
    mine = slice(rank * B // parts, (rank + 1) * B // parts)
    for step in range(steps):
        optimizer.zero_grad()
        if step % 2:
            output = model(source[mine], ids[mine], mask=MASK[mine])
            loss = -output.log_probabilities.gather(2, ids[mine][..., None]).sum()
        else:
            memory = model.prepare(source[mine], MASK[mine])
            loss, _ = model.decoder.cross_entropy(ids[mine], memory, ids[mine])
        (loss * parts / B).backward()  # sharded gradients are means over processes
        optimizer.step()
        total = loss.detach().clone()
        if parts > 1:
            dist.all_reduce(total)
        losses.append(float(total))
    model.eval()
    with torch.no_grad():
        memory = model.prepare(source, MASK)
    found = search(model.decoder, memory, Search(beam=3), bos=1, eos=2, max_length=5)
    return torch.tensor(losses + [h[0].score for h in found])


def main(rank, port):
    torch.set_num_threads(1)
    expected = {name: train(make()) for name, make in MODELS.items()}
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    failed = []
    for name, make in MODELS.items():
        for granularity in ("model", "sides", "layers"):
            model: nn.Module = make()
            for module in owners(model, granularity):
                fully_shard(module, mesh=mesh)
            register_entry_points(model)
            try:
                torch.testing.assert_close(train(model), expected[name], rtol=1e-4, atol=1e-4)
            except Exception as error:
                failed.append(f"{name}, {granularity}: {type(error).__name__}: {error}")
    dist.destroy_process_group()
    print(*failed, sep="\n")
    sys.exit(bool(failed))
