"""Fixtures that every test may ask for."""

pytest_plugins = [
    "tests.fixtures.browser",
    "tests.fixtures.engine",
    "tests.fixtures.run_folder",
    "tests.fixtures.sshd",
]
