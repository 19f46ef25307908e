"""Models that come with regard, one folder each: `regard.load("g2p-en")`."""
