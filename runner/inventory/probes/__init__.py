"""One module per group of facts: a constant `SCRIPT` for the host's shell, pure parsers here.

The scripts run inside `runner.inventory.facts.SCRIPT`, which sets `$engine_command`,
`$engine_socket`, `$run_root` and, as `"$@"`, the paths to look for, and offers `section NAME`
(starts a section of the output) and `bounded COMMAND…` (a command that may hang, given 15 s).
Every parser takes the text of its section and answers with nothing when the tool was missing.
"""
