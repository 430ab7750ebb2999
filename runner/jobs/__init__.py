"""Job files and the prompt sets that they name."""

from __future__ import annotations

from runner.jobs.loading import KINDS, LoadedJob, find_job, job_of_options, load_job
from runner.jobs.prompts import PromptRow, PromptRows, read_prompts

__all__ = [
    "KINDS",
    "LoadedJob",
    "PromptRow",
    "PromptRows",
    "find_job",
    "job_of_options",
    "load_job",
    "read_prompts",
]
