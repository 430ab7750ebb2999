"""runner: speculative decoding measured on machines that people own."""

__version__ = "0.1.0"
