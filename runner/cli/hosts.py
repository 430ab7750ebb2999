"""`runner hosts`: what the inventory says, and whether the hosts are ready."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from runner.cli.options import Format, FormatOption, examples, settings_of
from runner.cli.output import emit_json, emit_table, human_bytes, say

if TYPE_CHECKING:
    from runner.client.hosts import HostReport
    from runner.models.host import Host

_EXIT_NOT_READY = 4

app = typer.Typer(help="Hosts of the inventory.", no_args_is_help=True, rich_markup_mode=None)


@app.command("list", epilog=examples("runner hosts list", "runner hosts list --format json"))
def list_hosts(context: typer.Context, form: FormatOption = Format.TABLE) -> None:
    """List the hosts of the inventory. Nothing is contacted."""
    from runner.inventory.load import load_inventory

    hosts = load_inventory(settings_of(context).hosts_file).hosts.values()
    if form is Format.JSON:
        emit_json({"hosts": [json.loads(host.model_dump_json()) for host in hosts]})
        return
    emit_table(
        ("HOST", "CONNECTION", "ADDRESS", "ACCELERATOR", "RUN ROOT"),
        (
            (host.name, host.connection.value, _address(host), _accelerator(host), host.run_root)
            for host in hosts
        ),
    )


def _address(host: Host) -> str | None:
    if host.address is None:
        return None
    user = f"{host.user}@" if host.user else ""
    port = f":{host.port}" if host.port else ""
    return f"{user}{host.address}{port}"


def _accelerator(host: Host) -> str:
    has = host.accelerator
    count = f"{has.count} x " if has.count else ""
    name = has.model or has.vendor.value
    return f"{count}{name}{f' ({has.architecture})' if has.architecture else ''}"


@app.command(epilog=examples("runner hosts check", "runner hosts check mi50-198 --format json"))
def check(
    context: typer.Context,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[HOST]...", help="All of them when left out.")
    ] = None,
    form: FormatOption = Format.TABLE,
) -> int:
    """Ask hosts whether they are ready, all at once. Exit code 4 when one is not."""
    from runner.client.hosts import check_hosts
    from runner.client.images import with_images
    from runner.images.lock import read_lock

    settings = settings_of(context)
    with settings.fleet() as fleet:
        inventory = fleet.inventory
        if settings.images.is_dir():
            inventory = with_images(inventory, settings.image_files)
        lock = read_lock(settings.lock_file)
        reports = check_hosts(inventory, names or (), fleet.dial, lock)
    if form is Format.JSON:
        emit_json({"hosts": [_record(report) for report in reports]})
    else:
        _print_reports(reports)
    return 0 if all(report.ready for report in reports) else _EXIT_NOT_READY


def _record(report: HostReport) -> dict[str, Any]:
    error = report.error
    return {
        "host": report.host.name,
        "ready": report.ready,
        "error": {"message": error.what, "next_step": error.next_step} if error else None,
        "findings": [json.loads(finding.model_dump_json()) for finding in report.findings],
        "facts": json.loads(report.facts.model_dump_json()) if report.facts else None,
    }


def _print_reports(reports: tuple[HostReport, ...]) -> None:
    emit_table(
        ("HOST", "READY", "ENGINE", "CPUS", "MEMORY", "GPUS", "DISK", "CLOCK"), map(_row, reports)
    )
    for report in reports:
        if report.error is not None:
            said = str(report.error)
            prefix = "" if said.startswith(report.host.name) else f"{report.host.name}: "
            say(f"error: {prefix}{said}")
        for finding in report.findings:
            say(f"{finding.level.value}: {report.host.name}: {finding.subject}: {finding.message}")
            if finding.next_step:
                say(f"  next: {finding.next_step}")


def _row(report: HostReport) -> tuple[object, ...]:
    facts = report.facts
    if facts is None:
        return (report.host.name, "no", None, None, None, None, None, None)
    disk = facts.disk_free_bytes.get(report.host.run_root)
    if disk is None:
        disk = min(facts.disk_free_bytes.values(), default=None)
    return (
        report.host.name,
        "ok" if report.ready else "no",
        facts.engine.version if facts.engine else None,
        facts.cpu_count,
        human_bytes(facts.memory_bytes),
        len(facts.gpus) or None,
        f"{human_bytes(disk)} free" if disk is not None else None,
        None if facts.clock_offset_s is None else f"{facts.clock_offset_s:+.1f}s",
    )
