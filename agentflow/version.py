"""The version, for the layers below the public API."""

__version__ = "0.1.0"
