"""Speech: recorded sentences, and a model that reads texts aloud."""
