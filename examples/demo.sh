#!/usr/bin/env bash
# `make demo`: pronounces words with the model in the package, then trains a small one from scratch and plots its attention.
# A second run skips the steps that are done and resumes the others. All its files are in demo/.
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

title "5. Plot its attention weights"
show regard plot --model demo/run "${words[@]}" --separate --output demo/alignment.png --overwrite
show regard plot --model demo/run "${words[@]}" --output demo/alignments.html --overwrite

title "Done"
echo "Alignment plots: $PWD/demo/alignment-*.png"
echo "The same for a browser, with the weights as numbers: $PWD/demo/alignments.html"
echo "The model, its log and its samples: $PWD/demo/run"
