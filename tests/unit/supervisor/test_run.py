from runner.models.status import Status
from tests.unit.supervisor.stage import Stage


def test_all_good(stage: Stage) -> None:
    assert stage.supervise() is Status.SUCCEEDED, stage.log
    print("\n".join(stage.timeline))
    print(stage.log)
    stage.assert_closed()
