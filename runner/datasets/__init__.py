"""Datasets: the catalogue, what was fetched, and how long their prompts are."""
