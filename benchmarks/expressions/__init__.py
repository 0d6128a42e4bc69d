"""Worst-case timing of the product's regular expressions and parsers of untrusted text."""
