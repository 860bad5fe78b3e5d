"""What it means: values in, text out."""
