"""The scripts that make goldens need the originals, so tests never import them."""

collect_ignore_glob = ["*.py"]
