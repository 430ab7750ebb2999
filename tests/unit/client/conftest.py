"""The host that is a folder."""

from tests.fixtures.host_folder import box

__all__ = ["box"]
