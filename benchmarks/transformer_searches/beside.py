"""Tokens a second of a Transformer's beam search beside transformers and CTranslate2, with the same weights.

    pip install transformers ctranslate2      # into an environment of its own that also finds regard
    OMP_NUM_THREADS=1 python benchmarks/transformer_searches/beside.py --batch 1 --steps 64

A MarianMT model of random weights (6 + 6 layers, 512 wide, 8 heads, 2,048 inside, relu) never says the end symbol, so
that all take as many steps; encoding is included. The programs take turns. With one thread the time is CPU time of the
process, so that other work on the machine counts little. The outputs are compared.
"""

from __future__ import annotations

import argparse
import copy
import math
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch

EOS = 0


def marian(size: int, layers: int, tokens: int) -> Any:
    """transformers' model, with weights that make some tokens clearly more probable than others."""
    from transformers import MarianConfig, MarianMTModel

    config = MarianConfig(
        vocab_size=tokens,
        d_model=size,
        encoder_layers=layers,
        decoder_layers=layers,
        encoder_attention_heads=8,
        decoder_attention_heads=8,
        encoder_ffn_dim=4 * size,
        decoder_ffn_dim=4 * size,
        activation_function="relu",
        pad_token_id=tokens - 1,
        eos_token_id=EOS,
        decoder_start_token_id=tokens - 1,
        forced_eos_token_id=None,
        scale_embedding=True,
        init_std=0.05,
        max_position_embeddings=1024,
    )
    torch.manual_seed(0)
    model = MarianMTModel(config).eval()
    with torch.no_grad():  # sublayers as large as what they are added to, so that outputs depend on all tokens before
        for module in model.modules():
            if isinstance(module, torch.nn.Linear) and module is not model.lm_head:
                factor = 0.3 if module.in_features == 4 * size else 1.5
                module.weight.normal_(std=factor * module.in_features**-0.5)
    model.final_logits_bias[0, EOS] = -1e4
    model.final_logits_bias[0, tokens - 1] = -1e4
    return model


def ours(model: Any) -> Any:
    """The same weights in regard's modules."""
    from regard.layers import LearnedPositions, TokenEmbedding, TokenHead
    from regard.models import EncoderDecoder
    from regard.models.transformer import (
        TransformerDecoder,
        TransformerEncoder,
        transformer_decoder,
        transformer_encoder,
    )

    config = model.config
    size, tokens, pad = config.d_model, config.vocab_size, config.pad_token_id
    sizes = {"num_layers": config.encoder_layers, "num_heads": 8, "feed_forward_size": 4 * size, "norm": "post"}
    sizes |= {"positions": "learned", "max_length": config.max_position_embeddings, "dropout": 0.0}
    embedding = TokenEmbedding(tokens, size, padding=pad)
    encoder: TransformerEncoder = transformer_encoder(embedding, **sizes)
    decoder: TransformerDecoder = transformer_decoder(
        embedding, TokenHead(size, tokens, tied=embedding), memory_size=size, **sizes
    )
    with torch.no_grad():
        embedding.table.weight.copy_(model.model.shared.weight)
        decoder.head.projection.bias.copy_(model.final_logits_bias[0])
        for part, theirs in ((encoder, model.model.encoder), (decoder, model.model.decoder)):
            positions = part.embedding.positions
            assert isinstance(positions, LearnedPositions)
            positions.table.weight.copy_(theirs.embed_positions.weight)
            for layer, other in zip(part.layers, theirs.layers, strict=True):
                pairs = [(layer.attention, other.self_attn, other.self_attn_layer_norm)]
                if part is decoder:
                    pairs.append((layer.cross_attention, other.encoder_attn, other.encoder_attn_layer_norm))
                for index, (mechanism, attention, norm) in enumerate(pairs):
                    _attention(mechanism, attention)
                    layer.residuals[index].norm.load_state_dict(norm.state_dict())
                layer.feed_forward.inner.load_state_dict(other.fc1.state_dict())
                layer.feed_forward.outer.load_state_dict(other.fc2.state_dict())
                layer.residuals[-1].norm.load_state_dict(other.final_layer_norm.state_dict())
    return EncoderDecoder(encoder, decoder).eval()


def _attention(mechanism: Any, attention: Any) -> None:
    """Marian's projections have biases: ours get them."""
    for ours, theirs in (
        (mechanism.score.query_projection, attention.q_proj),
        (mechanism.score.key_projection, attention.k_proj),
        (mechanism.read.value_projection, attention.v_proj),
        (mechanism.read.output_projection, attention.out_proj),
    ):
        ours.bias = torch.nn.Parameter(torch.empty_like(theirs.bias))
        ours.load_state_dict(theirs.state_dict())


def converted(model: Any, folder: str, precision: str, threads: int) -> Any:
    """CTranslate2's translator."""
    import ctranslate2
    from ctranslate2.converters.transformers import MarianMTLoader

    spec = MarianMTLoader.__new__(MarianMTLoader).get_model_spec(copy.deepcopy(model))  # it writes into weights
    vocabulary = [f"t{index}" for index in range(model.config.vocab_size - 1)]
    vocabulary[EOS] = "</s>"
    spec.register_source_vocabulary(vocabulary)
    spec.register_target_vocabulary(vocabulary)
    spec.config.eos_token, spec.config.bos_token = "</s>", "</s>"
    spec.config.unk_token = spec.config.decoder_start_token = "</s>"
    spec.validate()
    spec.optimize(quantization=None if precision == "float32" else precision)
    spec.save(folder)
    return ctranslate2.Translator(folder, device="cpu", compute_type=precision, inter_threads=1, intra_threads=threads)


def programs(model: Any, sources: torch.Tensor, beam: int, steps: int, threads: int) -> dict[str, Callable[[], Any]]:
    """By name, what returns the best outputs of all sources, as lists of ids."""
    from regard.decoding import Search, search

    mine, pad = ours(model), model.config.pad_token_id
    options = Search(beam=beam, length_penalty="none", min_length=steps)

    def run_ours(options: Search = options) -> list[list[int]]:
        with torch.inference_mode():
            memory = mine.prepare(sources, None)
            found = search(mine.decoder, memory, options, bos=pad, eos=EOS, max_length=steps)
        return [hypotheses[0].tokens.tolist() for hypotheses in found]

    def run_generate() -> list[list[int]]:
        with torch.inference_mode():
            found = model.generate(
                sources,
                attention_mask=torch.ones_like(sources),
                num_beams=beam,
                max_new_tokens=steps,
                min_new_tokens=steps,
                length_penalty=0.0,
                do_sample=False,
            )
        return [row[1:].tolist() for row in found]

    made: dict[str, Callable[[], Any]] = {"regard": run_ours, "transformers": run_generate}
    made["regard int8"] = lambda: run_ours(options.replace(weights="int8"))
    words = [[f"t{index}" for index in row] for row in sources.tolist()]
    for precision in ("float32", "int8"):
        folder = tempfile.mkdtemp()
        translator = converted(model, folder, precision, threads)

        def run_converted(translator: Any = translator) -> list[list[int]]:
            found = translator.translate_batch(
                words,
                beam_size=beam,
                max_decoding_length=steps,
                min_decoding_length=steps,
                length_penalty=0.0,
                max_batch_size=len(words),
            )
            return [[int(token[1:]) for token in result.hypotheses[0]] for result in found]

        made[f"CTranslate2 {precision}"] = run_converted
    return made


def main() -> None:
    """Prints a line for each program."""
    parser = argparse.ArgumentParser()
    for name, default in (("batch", 1), ("beam", 4), ("steps", 64), ("source", 20), ("size", 512), ("layers", 6)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--tokens", type=int, default=8000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*")
    options = parser.parse_args()
    threads = torch.get_num_threads()
    clock = time.process_time if threads == 1 else time.perf_counter
    model = marian(options.size, options.layers, options.tokens)
    sources = torch.randint(1, options.tokens - 1, (options.batch, options.source))
    made = programs(model, sources, options.beam, options.steps, threads)
    made = {name: run for name, run in made.items() if not options.only or name in options.only}
    outputs = {name: run() for name, run in made.items()}
    times: dict[str, list[float]] = {name: [] for name in made}
    for _ in range(options.rounds):
        for name, run in made.items():
            begun = clock()
            run()
            times[name].append(clock() - begun)
    first = next(iter(made))
    for name, taken in times.items():
        best = min(taken)
        same = sum(a == b for a, b in zip(outputs[name], outputs[first], strict=True))
        ratio = math.exp(sum(math.log(a / b) for a, b in zip(taken, times[first], strict=True)) / len(taken))
        rate = options.batch * options.steps / best
        print(
            f"{name:22} {rate:8.1f} tokens/s  {1e3 * best / options.steps:7.2f} ms a step  "
            f"{ratio:5.2f} times {first}'s time  {same}/{options.batch} outputs as {first}'s",
            flush=True,
        )


if __name__ == "__main__":
    main()
