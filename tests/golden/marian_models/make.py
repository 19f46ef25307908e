"""Tiny Marian models with random weights, saved by transformers, with what they say.

Program: transformers 4.57.3 with torch 2.13.0 (CPU), through `marian_peer.py` of benchmarks/conversion.

    python3.11 -c "from environments import python; ..."  # benchmarks/peers/environments.py makes `marian`
    marian/bin/python tests/golden/marian_models/make.py

`said.json` has for each model inputs, outputs, greedy outputs and teacher-forced log-probabilities, to six decimals.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import sentencepiece
import torch

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks" / "conversion"))
import marian_peer
from transformers import GenerationConfig, MarianConfig, MarianMTModel, MarianTokenizer

HERE = Path(__file__).parent
LONGEST = 9
SEEDS = {"shared": 86, "separate": 52}
"""Of weights with which outputs differ."""
PAIRS = [
    ("a", "x y"),
    ("b a c a d", "y z x"),
    ("c c b e", "w w z y x v"),
    ("d a f b ü", "v"),
    ("e f a b c d a", "z v w x z"),
]
SIZES = {
    "d_model": 8, "encoder_layers": 2, "decoder_layers": 1, "encoder_attention_heads": 2,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 10, "decoder_ffn_dim": 12,
}  # fmt: skip
CASES = {
    "shared": {"share_encoder_decoder_embeddings": True, "activation_function": "swish", "scale_embedding": True},
    "separate": {
        "share_encoder_decoder_embeddings": False, "tie_word_embeddings": False, "activation_function": "gelu",
        "scale_embedding": False,
    },
}  # fmt: skip


def tokenizer(case: str, folder: Path) -> MarianTokenizer:
    """Pieces of both sides; their vocabulary lacks two pieces of each."""
    names = []
    for side, which in (("source", 0), ("target", 1)):
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter([pair[which].replace("ü", "") for pair in PAIRS] * 4),
            model_prefix=str(folder / side), vocab_size=12 + which, num_threads=1, model_type="unigram",
            character_coverage=1.0, hard_vocab_limit=False, minloglevel=2, normalization_rule_name="identity",
        )  # fmt: skip
        (folder / f"{side}.model").rename(folder / f"{side}.spm")
        pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{side}.spm"))
        names.append([pieces.id_to_piece(i) for i in range(3, len(pieces) - 2)])
    both = ["</s>", "<unk>", *dict.fromkeys(names[1] + names[0]), "<pad>"]
    longest = max(map(len, names))
    sides = [["</s>", "<unk>", *each, *["▁none"] * (longest - len(each)), "<pad>"] for each in names]
    for file, symbols in (("vocab", both if case == "shared" else sides[0]), ("target_vocab", sides[1])):
        numbers = {name: number for number, name in enumerate(symbols)}
        assert len(numbers) == len(symbols)
        (folder / f"{file}.json").write_text(json.dumps(numbers))
    files = [str(folder / name) for name in ("source.spm", "target.spm", "vocab.json")]
    if case == "shared":
        return MarianTokenizer(*files)
    return MarianTokenizer(*files, target_vocab_file=str(folder / "target_vocab.json"), separate_vocabs=True)


def main() -> None:
    torch.set_num_threads(1)
    marian_peer.MAX_LENGTH = LONGEST + 1
    said = {}
    for case in CASES:
        with tempfile.TemporaryDirectory() as folder:
            pieces = tokenizer(case, Path(folder))
            targets = len(pieces.encoder if case == "shared" else pieces.target_encoder)
            pad = pieces.pad_token_id
            config = MarianConfig(
                vocab_size=len(pieces.encoder), decoder_vocab_size=targets, max_position_embeddings=32,
                pad_token_id=pad, decoder_start_token_id=pad, eos_token_id=0, forced_eos_token_id=None, **SIZES,
                **CASES[case],
            )  # fmt: skip
            torch.manual_seed(SEEDS[case])
            model = MarianMTModel(config).eval()
            with torch.no_grad():
                for name, weight in [*model.named_parameters(), ("bias", model.final_logits_bias)]:
                    if "embed_positions" not in name:
                        weight.normal_(std=0.1 if name == "bias" else 0.7)
            model.generation_config = GenerationConfig(
                num_beams=4, max_length=LONGEST + 1, bad_words_ids=[[pad]], pad_token_id=pad, eos_token_id=0,
                decoder_start_token_id=pad, forced_eos_token_id=None, no_repeat_ngram_size=0,
            )  # fmt: skip
            model.save_pretrained(HERE / case, safe_serialization=case == "shared")
            pieces.save_pretrained(HERE / case)
        saved = marian_peer.Saved(HERE / case)
        numbers = saved.pieces.encoder if case == "shared" else saved.pieces.target_encoder
        names = [name for name, _ in sorted(numbers.items(), key=lambda entry: entry[1])]
        ids = [saved.pieces(text_target=target)["input_ids"][:-1] for _, target in PAIRS]
        steps = [saved.log_probabilities(source, ids[i]) for i, (source, _) in enumerate(PAIRS)]
        said[case] = {
            "symbols": names,
            "sources": [source for source, _ in PAIRS],
            "targets": [target for _, target in PAIRS],
            "greedy": [[names[i] for i in saved.search(source, 1)[0]] for source, _ in PAIRS],
            "log_probabilities": [[[round(x, 6) for x in row] for row in rows.tolist()] for rows in steps],
        }
    text = ",\n".join(f"{json.dumps(case)}: {json.dumps(each)}" for case, each in said.items())
    (HERE / "said.json").write_text(f"{{\n{text}\n}}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
