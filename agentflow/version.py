"""The version, for the layers below the public API."""

__version__ = "0.2.0"
