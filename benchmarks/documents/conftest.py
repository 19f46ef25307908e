"""What pytest does not collect here: the comparison needs scikit-learn, which regard does not."""

collect_ignore = ["tfidf.py"]
