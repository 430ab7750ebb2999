"""What is slow to import is imported late."""

from __future__ import annotations

import subprocess
import sys


def test_the_package_does_not_import_paramiko() -> None:
    program = (
        "import sys, runner.transport; from runner.transport import connect; "
        "from runner.models.host import Host; connect(Host(name='x', connection='local')); "
        "print('paramiko' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout == b"False\n"
