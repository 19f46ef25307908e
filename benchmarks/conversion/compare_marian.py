"""Small Marian models of transformers 4.57.3, trained with it, converted and compared.

python benchmarks/conversion/compare_marian.py
"""

from comparison import Program, main

CASES = ("shared", "separate")
SPECIALS = ("<pad>", "<s>", "</s>", "<unk>")

PROGRAM = Program(
    "marian", "marian", "marian_peer.py", CASES, lambda folder: folder / "model", SPECIALS, max_length=None
)

if __name__ == "__main__":
    main(PROGRAM)
