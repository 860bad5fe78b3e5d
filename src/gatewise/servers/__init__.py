"""Who may ask: the only room that listens, and on the loopback alone. Answers come from callables given as values."""
