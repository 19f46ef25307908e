"""Documents: labelled texts, and a classifier of them."""
