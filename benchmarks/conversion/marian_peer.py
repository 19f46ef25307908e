"""transformers' side of the comparison: trains small Marian models, and says what they say. In its own environment.

python marian_peer.py train CASE FOLDER     trains FOLDER/model on the numerals in FOLDER
python marian_peer.py say FOLDER ASKED SAID reads questions (JSON) and writes the answers
python marian_peer.py translate MODEL SOURCES OUTPUTS  runs the command of the program
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import numpy as np
import sentencepiece
import torch
from transformers import GenerationConfig, MarianConfig, MarianMTModel, MarianTokenizer

CASES = {
    "shared": {"share_encoder_decoder_embeddings": True},
    "separate": {"share_encoder_decoder_embeddings": False, "tie_word_embeddings": False},
}
"""What is trained: one vocabulary of both sides, as the published models have, or one each."""
EPOCHS, BATCH, MAX_LENGTH = 8, 40, 60


def tokenizer(case: str, folder: Path) -> MarianTokenizer:
    """Pieces of both sides, and their joint vocabulary, or one for each."""
    names = []
    for side, name, count in (("source", "num", 60), ("target", "eng", 90)):
        sentencepiece.SentencePieceTrainer.train(
            input=str(folder / f"train.{name}"), model_prefix=str(folder / side), vocab_size=count, num_threads=1,
            model_type="unigram", character_coverage=1.0, hard_vocab_limit=False, minloglevel=2,
        )  # fmt: skip
        pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{side}.model"))
        names.append([pieces.id_to_piece(i) for i in range(len(pieces)) if not pieces.is_control(i)])
        Path(folder / f"{side}.model").rename(folder / f"{side}.spm")
    both = ["</s>", "<unk>", *[name for name in dict.fromkeys(names[0] + names[1]) if name != "<unk>"], "<pad>"]
    # ids of padding are the same on both sides; there are fewer digits than words
    filled = [*names[0], *[f"<unused{number}>" for number in range(len(names[1]) - len(names[0]))]]
    sides = [["</s>", *each, "<pad>"] for each in (filled, names[1])]
    for file, symbols in (("vocab", both if case == "shared" else sides[0]), ("target_vocab", sides[1])):
        numbers = {name: number for number, name in enumerate(symbols)}
        (folder / f"{file}.json").write_text(json.dumps(numbers))
    files = [str(folder / name) for name in ("source.spm", "target.spm", "vocab.json")]
    if case == "shared":
        return MarianTokenizer(*files)
    return MarianTokenizer(*files, target_vocab_file=str(folder / "target_vocab.json"), separate_vocabs=True)


def read(folder: Path, part: str) -> list[tuple[str, str]]:
    sides = [(folder / f"{part}.{name}").read_text().splitlines() for name in ("num", "eng")]
    return list(zip(*sides, strict=True))


def learn(case: str, folder: Path) -> None:
    """Trains a model and saves it as transformers does: FOLDER/model."""
    torch.manual_seed(1)
    pieces = tokenizer(case, folder)
    count = len(pieces.encoder)
    targets = count if case == "shared" else len(pieces.target_encoder)
    pad = pieces.pad_token_id
    config = MarianConfig(
        vocab_size=count, decoder_vocab_size=targets, d_model=64, encoder_layers=2, decoder_layers=2,
        encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=128, decoder_ffn_dim=128,
        activation_function="swish" if case == "shared" else "relu", scale_embedding=True,
        max_position_embeddings=128, pad_token_id=pieces.pad_token_id, decoder_start_token_id=pad,
        eos_token_id=pieces.eos_token_id, forced_eos_token_id=None, init_std=0.1, **CASES[case],
    )  # fmt: skip
    model = MarianMTModel(config)
    model.generation_config = GenerationConfig(
        num_beams=4, max_length=MAX_LENGTH, bad_words_ids=[[pad]], pad_token_id=pad, eos_token_id=0,
        decoder_start_token_id=pad, forced_eos_token_id=None,
    )  # fmt: skip
    pairs = [
        (pieces(source)["input_ids"], pieces(text_target=target)["input_ids"])
        for source, target in read(folder, "train")
    ]
    optimizer = torch.optim.Adam(model.parameters(), lr=0.002)
    draw = random.Random(1)
    for epoch in range(EPOCHS):
        draw.shuffle(pairs)
        total = 0.0
        for start in range(0, len(pairs), BATCH):
            sources, outputs = zip(*pairs[start : start + BATCH], strict=True)
            source = torch.nn.utils.rnn.pad_sequence(
                [torch.tensor(ids) for ids in sources], batch_first=True, padding_value=pieces.pad_token_id
            )
            target = torch.nn.utils.rnn.pad_sequence(
                [torch.tensor(ids) for ids in outputs], batch_first=True, padding_value=-100
            )
            inputs = torch.cat(
                [torch.full((len(target), 1), pad), target[:, :-1].masked_fill(target[:, :-1] < 0, pad)], 1
            )
            mask = (source != pieces.pad_token_id).long()
            logits = model(input_ids=source, attention_mask=mask, decoder_input_ids=inputs).logits
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten(), label_smoothing=0.1)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            total += loss.item()
        for group in optimizer.param_groups:
            group["lr"] *= 0.8
        print(f"epoch {epoch + 1}: {total / (len(pairs) / BATCH):.3f}", flush=True)
    model.save_pretrained(folder / "model", safe_serialization=case == "shared")
    pieces.save_pretrained(folder / "model")


class Saved:
    """A trained model, asked directly."""

    def __init__(self, folder: Path) -> None:
        self.model = MarianMTModel.from_pretrained(folder).eval()
        self.pieces = MarianTokenizer.from_pretrained(folder)
        self.start = self.model.config.decoder_start_token_id
        self.eos = self.model.config.eos_token_id

    def source(self, text: str) -> torch.Tensor:
        return torch.tensor([self.pieces(text)["input_ids"]])

    @torch.no_grad()
    def log_probabilities(self, source: str, ids: list[int]) -> torch.Tensor:
        """(T + 1, N), teacher-forced."""
        inputs = torch.tensor([[self.start, *ids]])
        return self.model(input_ids=self.source(source), decoder_input_ids=inputs).logits[0].log_softmax(-1)

    @torch.no_grad()
    def search(self, source: str, beam: int) -> tuple[list[int], bool]:
        """The ids of the output, and whether it ended."""
        found = self.model.generate(
            self.source(source), num_beams=beam, do_sample=False, max_length=MAX_LENGTH, early_stopping="never"
        )
        ids = found[0, 1:].tolist()
        return (ids[: ids.index(self.eos)], True) if self.eos in ids else (ids, False)

    def score(self, source: str, ids: list[int], ended: bool) -> float:
        """Of a hypothesis, by the formula of the beam search: the mean log-probability, with that of the end."""
        said = [*ids, *[self.eos] * ended]
        steps = self.log_probabilities(source, ids)[: len(said)]
        return float(steps[torch.arange(len(said)), torch.tensor(said)].mean())


def say(folder: Path, asked: Path, said: Path) -> None:
    """Answers questions: for each input the log-probabilities of an output, the greedy output and that of a beam."""
    saved = Saved(folder)
    pieces = saved.pieces
    numbers = pieces.target_encoder if pieces.separate_vocabs else pieces.encoder
    names = [name for name, _ in sorted(numbers.items(), key=lambda entry: entry[1])]
    answers: list[object] = []
    arrays: dict[str, torch.Tensor] = {}

    def shown(ids: list[int]) -> list[str]:
        return [names[i] for i in ids]

    for number, question in enumerate(json.loads(asked.read_text())):
        source = question["source"]
        if "hypotheses" in question:
            given = [([numbers[name] for name in tokens], ended) for tokens, ended in question["hypotheses"]]
            answers.append([saved.score(source, *hypothesis) for hypothesis in given])
            continue
        ids = pieces(text_target=question["target"])["input_ids"][:-1]
        arrays[str(number)] = saved.log_probabilities(source, ids)
        (greedy, ends), beam = saved.search(source, 1), saved.search(source, 5)
        answers.append({
            "target": shown(ids), "greedy": [shown(greedy), ends], "beam": [shown(beam[0]), beam[1]],
            "score": saved.score(source, *beam), "text": pieces.decode(greedy, skip_special_tokens=True),
        })  # fmt: skip
    said.write_text(json.dumps({"symbols": names, "answers": answers}))
    np.savez(said.with_suffix(".npz"), **{name: array.numpy() for name, array in arrays.items()})


def translate(model: Path, sources: Path, outputs: Path) -> None:
    """`model.generate(**tokenizer(texts))`; transformers has no command for it."""
    network, pieces = MarianMTModel.from_pretrained(model).eval(), MarianTokenizer.from_pretrained(model)
    texts = sources.read_text(encoding="utf-8").splitlines()
    ids = network.generate(**pieces(texts, return_tensors="pt", padding=True))
    outputs.write_text("".join(f"{text}\n" for text in pieces.batch_decode(ids, skip_special_tokens=True)))


if __name__ == "__main__":
    verb, *arguments = sys.argv[1:]
    torch.set_num_threads(1)
    if verb == "train":
        learn(arguments[0], Path(arguments[1]))
    elif verb == "translate":
        translate(*map(Path, arguments))
    else:
        say(*map(Path, arguments))
