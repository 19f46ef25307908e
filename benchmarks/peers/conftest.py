"""The scripts need the programs that they measure, so tests never import them."""

collect_ignore_glob = ["*.py"]
