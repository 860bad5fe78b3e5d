"""What was said: the only room with a network. Values come in, values go out."""
