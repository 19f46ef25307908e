"""What tests and benchmarks share: cases of everything that is tested, oracles, compositions, searches, tiny models."""
