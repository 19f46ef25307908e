"""Models of OpenNMT-py 3 and of eole, its successor."""
