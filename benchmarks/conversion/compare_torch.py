"""Small models around `torch.nn.Transformer`, trained with plain torch, converted and compared.

python benchmarks/conversion/compare_torch.py
"""

from comparison import Program, main

CASES = ("post", "pre")
SPECIALS = ("<pad>", "<bos>", "<eos>", "<unk>")

if __name__ == "__main__":
    main(
        Program(
            "torch",
            None,
            "torch_peer.py",
            CASES,
            lambda folder: folder / "model" / "facts.yaml",
            SPECIALS,
            max_length=None,
        )
    )
