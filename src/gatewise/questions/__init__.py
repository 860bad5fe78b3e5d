"""What will be asked: questions and evidence plans, fixed before any model is. Pure: scores come in as values."""
