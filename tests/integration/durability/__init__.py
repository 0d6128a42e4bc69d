"""Runs that are killed, kept and gone on with, on real databases."""
