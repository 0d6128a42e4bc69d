"""Presets of trainings."""
