"""Models that come with regard, a folder each: `regard.load("g2p-en")`."""
