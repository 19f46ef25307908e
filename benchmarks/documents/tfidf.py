"""TF-IDF with logistic regression, which a user would otherwise take, on labelled documents.

    pip install scikit-learn
    python benchmarks/documents/tfidf.py TRAIN [TEST] [--ngrams 1] [--strength 10] [--separator ';']

Without TEST the documents are held out that `regard train` would hold out. Files are those that
`regard.data.documents.read_documents` reads. Words, weights and the regression are scikit-learn's; only the strength of
the regression is not its default.
"""

from __future__ import annotations

import argparse
import time

from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier

from regard.data.documents import Labels, hold_out_documents, read_documents
from regard.data.split import suggested_fraction
from regard.metrics import score_labels


def main() -> None:
    """Prints accuracy and F1 on the test documents, and the CPU time."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("train")
    parser.add_argument("test", nargs="?")
    parser.add_argument("--ngrams", type=int, default=1, help="the most words of a feature")
    parser.add_argument("--strength", type=float, default=10.0, help="C of the regression")
    parser.add_argument("--separator", help="the text between labels, if documents may have several")
    options = parser.parse_args()
    train = read_documents(options.train, label_separator=options.separator)
    if options.test is None:
        train, test = hold_out_documents(train, suggested_fraction(len(train)))
    else:
        test = read_documents(options.test, label_separator=options.separator)
    several, start = options.separator is not None, time.process_time()
    labels = Labels.build(train, several=several)
    right = labels.indicators if several else labels.ids
    features = TfidfVectorizer(sublinear_tf=True, ngram_range=(1, options.ngrams))
    model = LogisticRegression(C=options.strength, max_iter=1000)
    if several:
        model = OneVsRestClassifier(model)
    model.fit(features.fit_transform([item.text for item in train]), right(train))
    given = model.predict(features.transform([item.text for item in test])).astype(bool if several else int)
    scores = score_labels(given, right(test), num_labels=len(labels))
    seconds = time.process_time() - start
    print(
        f"{len(test):,} documents: accuracy {scores.accuracy:.2%}, macro F1 {scores.macro.f1:.4f}, "
        f"micro F1 {scores.micro.f1:.4f}; "
        f"{len(features.vocabulary_):,} features, {seconds:.0f} s of CPU time"
    )


if __name__ == "__main__":
    main()
