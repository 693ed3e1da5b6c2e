"""The task service of an AI-native operating system."""

__version__ = "0.1.0"
