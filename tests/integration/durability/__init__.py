"""Runs that are killed, saved and resumed, on real databases."""
