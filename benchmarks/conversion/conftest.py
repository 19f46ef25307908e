"""Those scripts that run with another program's packages are not imported by tests."""

collect_ignore_glob = ["*_peer.py"]
