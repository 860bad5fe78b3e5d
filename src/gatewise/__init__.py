"""Matched trajectory replay."""
