"""Small models of Joey NMT 2.3.0, trained by it, converted and compared.

python benchmarks/conversion/compare_joeynmt.py
"""

from comparison import Program, main

CASES = ("lstm", "gru", "transformer", "transformer_post")
SPECIALS = ("<pad>", "<s>", "</s>", "<unk>")

PROGRAM = Program(
    "joeynmt", "joey_nmt", "joeynmt_peer.py", CASES, lambda folder: folder / "model", SPECIALS, max_length=None
)

if __name__ == "__main__":
    main(PROGRAM)
