#!/usr/bin/env bash
# `make demo`: pronounce words with the shipped model, then train a small one from scratch and look at it.
# Run again, it skips what is done and continues what is not. Everything it makes lies in demo/.
set -euo pipefail
cd "$(dirname "$0")/.."

words=(attention regard thorough psychology queue)

title() { printf '\n== %s\n' "$*"; }
show() {
  printf '$ %s\n' "$*"
  "$@"
}

mkdir -p demo

title "1. Pronounce words with the model that comes with regard"
show regard predict --model g2p-en "${words[@]}"

title "2. Make training, validation and test pairs from the CMU Pronouncing Dictionary"
show regard data cmudict demo/cmudict

title "3. Train a small model from scratch (about five minutes on two cores)"
show regard train examples/demo.yaml --output demo/run

title "4. Its error rates on held-out test words (sequence error rate = WER, symbol error rate = PER)"
show regard evaluate --model demo/run demo/cmudict/test.tsv
show regard predict --model demo/run "${words[@]}"

title "5. Where it looked"
show regard plot --model demo/run "${words[@]}" --separate --output demo/alignment.png --overwrite
show regard plot --model demo/run "${words[@]}" --output demo/alignments.html --overwrite

title "Done"
echo "Pictures: $PWD/demo/alignment-*.png"
echo "In a browser, with the weights as numbers: $PWD/demo/alignments.html"
echo "The model, its log and its samples: $PWD/demo/run"
