"""Models out: strict types, and every problem told in words that name what to write."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import pytest
from pydantic import BaseModel

from runner.errors import SpecError
from runner.models.base import Spec
from runner.models.host import Host, Inventory, Role, Vendor
from runner.models.image import ImageRecipe
from runner.models.job import MatrixJob, SpeculativeMethod
from runner.specfile import load_text

JOB = """\
kind: matrix
name: small
model: /models/a
servers:
  base: {}
  eagle: {speculative: {method: eagle3, model: /models/e, num_speculative_tokens: 3}}
prompts: {code: {file: code.jsonl}}
matrix: {server: [base, eagle], prompts: [code], concurrency: [1, 2]}
"""


def problems(text: str, model: type[BaseModel]) -> tuple[str, ...]:
    with pytest.raises(SpecError) as caught:
        load_text(text, "f.yaml", model)
    return caught.value.problems


def test_lists_become_tuples_and_texts_enums() -> None:
    job = load_text(JOB, "job.yaml", MatrixJob)
    speculative = job.servers["eagle"].speculative
    assert speculative is not None and speculative.method is SpeculativeMethod.EAGLE3
    assert job.matrix.concurrency == (1, 2)
    text = "hosts: {a: {accelerator: {vendor: amd}, images: {load: x}, connect_timeout_s: 3}}"
    host = load_text(text, "hosts.yaml", Inventory).hosts["a"]
    assert host.accelerator.vendor is Vendor.AMD
    assert host.images == {Role.LOAD: "x"}
    assert host.connect_timeout_s == 3.0 and isinstance(host.connect_timeout_s, float)


class Server(Spec):
    tensor_parallel_size: int = 1
    max_model_len: int = 4096
    speculative_config: Mapping[str, int] = {}


class Cell(Spec):
    retries: int = 3


class Gpu(Spec):
    vendor: str


class Machine(Spec):
    name: str
    port: int = 22
    gpu: Gpu


class Whole(Spec):
    server: Server = Server()
    cell: Cell = Cell()
    hosts: tuple[Machine, ...] = ()


def test_five_misspelt_options_are_five_messages_with_five_suggestions() -> None:
    text = (
        "server: {tensor_paralel_size: 2, max-model-len: 4096, speculative_cfg: {}}\n"
        "cell: {retires: 0}\n"
        "hosts: [{name: a, gpu: {vendor: amd}, prot: 2222}]\n"
    )
    assert problems(text, Whole) == (
        "f.yaml:1:10: server.tensor_paralel_size: unknown key 'tensor_paralel_size';"
        " did you mean 'tensor_parallel_size'?",
        "f.yaml:1:34: server.max-model-len: unknown key 'max-model-len';"
        " did you mean 'max_model_len'?",
        "f.yaml:1:55: server.speculative_cfg: unknown key 'speculative_cfg';"
        " did you mean 'speculative_config'?",
        "f.yaml:2:8: cell.retires: unknown key 'retires'; did you mean 'retries'?",
        "f.yaml:3:39: hosts.0.prot: unknown key 'prot'; did you mean 'port'?",
    )


def _keys(annotation: Any, wrap: Any, path: str) -> Iterator[tuple[Any, str, str]]:
    """(document maker, dotted place, key) for every key of every model below an annotation."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        yield from _keys(arguments[0], wrap, path)
    elif origin in (Union, UnionType):
        for argument in arguments:
            yield from _keys(argument, wrap, path)
    elif origin is tuple:
        yield from _keys(arguments[0], lambda inner: wrap([inner]), f"{path}0.")
    elif isinstance(origin, type) and issubclass(origin, Mapping):
        yield from _keys(arguments[1], lambda inner: wrap({"any": inner}), f"{path}any.")
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        for name, field in annotation.model_fields.items():
            yield wrap, path, name

            def below(inner: Any, name: str = name) -> Any:
                return wrap({name: inner})

            yield from _keys(field.annotation, below, f"{path}{name}.")


def _misspellings(key: str) -> Iterator[str]:
    middle = len(key) // 2
    yield key[: middle - 1] + key[middle] + key[middle - 1] + key[middle + 1 :]
    yield key[:middle] + key[middle + 1 :]
    yield key[:middle] + key[middle] + key[middle:]
    yield key.upper()
    if "_" in key:
        yield key.replace("_", "-")


CASES = [
    pytest.param(model, wrap, path, key, id=f"{model.__name__}:{path}{key}")
    for model in (Inventory, MatrixJob, ImageRecipe)
    for wrap, path, key in _keys(model, lambda inner: inner, "")
]


def test_the_cases_reach_every_level() -> None:
    ids = [case.id for case in CASES]
    assert "Inventory:hosts.any.mounts.0.read_only" in ids
    assert "Inventory:hosts.any.limits.ready_quiet_s" in ids
    assert "MatrixJob:servers.any.speculative.prompt_lookup_max" in ids
    assert "ImageRecipe:versions" in ids
    assert len(ids) > 100


@pytest.mark.parametrize(("model", "wrap", "path", "key"), CASES)
def test_every_key_misspelt_is_told_with_the_right_one(
    model: type[BaseModel], wrap: Any, path: str, key: str
) -> None:
    for wrong in _misspellings(key):
        if wrong == key:
            continue
        told = problems(json.dumps(wrap({wrong: None})), model)
        expected = f"{path}{wrong}: unknown key '{wrong}'; did you mean '{key}'?"
        assert [line for line in told if line.endswith(expected)] != [], told
        assert not [line for line in told if line.endswith(f"{path}{key}: a required key is"
                                                           " missing")]  # fmt: skip


def test_a_key_at_the_wrong_level_is_told_with_its_place() -> None:
    text = JOB + "prefix_caching: true\nserver: {num_speculative_tokens: 3, wings: 2}\n"
    told = problems(text, MatrixJob)
    assert told[:2] == (
        "f.yaml:9:1: prefix_caching: unknown key 'prefix_caching';"
        " did you mean 'server.prefix_caching'?",
        "f.yaml:10:10: server.num_speculative_tokens: unknown key 'num_speculative_tokens';"
        " did you mean 'servers.<name>.speculative.num_speculative_tokens'?",
    )
    assert told[2].startswith(
        "f.yaml:10:37: server.wings: unknown key 'wings'; expected one of: dtype, max_model_len,"
    )
    assert len(told) == 3


class Scalars(Spec):
    whole: int = 0
    number: float = 0.0
    text: str = ""
    flag: bool = False
    many: tuple[str, ...] = ()
    vendor: Vendor = Vendor.CPU
    environment: Mapping[str, str] = {}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('whole: "3"', "1:8: whole: expected a whole number, found the text '3'; write 3"),
        ("whole: true", "1:8: whole: expected a whole number, found true"),
        ("whole: 2.0", "1:8: whole: expected a whole number, found the number 2.0; write 2"),
        ("whole: 2.5", "1:8: whole: expected a whole number, found the number 2.5"),
        ("whole:", "1:7: whole: expected a whole number, found nothing"),
        ("whole: [1]", "1:1: whole: expected a whole number, found a list of 1"),
        ('number: "1"', "1:9: number: expected a number, found the text '1'; write 1.0"),
        ("number: 1e5", "1:9: number: expected a number, found the text '1e5'; write 100000.0"),
        ("number: yes", "1:9: number: expected a number, found yes, read as true"),
        ("text: on", '1:7: text: expected text, found on, read as true; quote it: "on"'),
        ("text: No", '1:7: text: expected text, found No, read as false; quote it: "No"'),
        ("text: 7", '1:7: text: expected text, found the number 7; quote it: "7"'),
        ("text: 1.10", '1:7: text: expected text, found the number 1.10; quote it: "1.10"'),
        ("text:", '1:6: text: expected text, found nothing; write "" for an empty text'),
        ("text: {a: b}", "1:1: text: expected text, found a mapping"),
        ("flag: 1", "1:7: flag: expected true or false, found the number 1"),
        ('flag: "true"', "1:7: flag: expected true or false, found the text 'true'"),
        ("many: x", "1:7: many: expected a list, found the text 'x'; write [x]"),
        ("many: [a, 3]", '1:11: many.1: expected text, found the number 3; quote it: "3"'),
        ("vendor: nvidea", "1:9: vendor: expected 'cpu', 'amd' or 'nvidia', found the text"
         " 'nvidea'; did you mean 'nvidia'?"),
        ("vendor: 3", "1:9: vendor: expected 'cpu', 'amd' or 'nvidia', found the number 3"),
        ("environment: {HF_TOKEN: 123456}", "1:25: environment.HF_TOKEN: expected text, found"
         " ***; quote it"),
        ("environment: 3", "1:14: environment: expected a mapping of keys to values, found the"
         " number 3"),
    ],
)  # fmt: skip
def test_types_are_strict_and_the_message_says_what_to_write(line: str, problem: str) -> None:
    assert problems(line, Scalars) == (f"f.yaml:{problem}",)


def test_a_yaml_1_1_boolean_serves_where_a_boolean_is_wanted() -> None:
    assert load_text("flag: on", "f.yaml", Scalars).flag is True


def test_bounds_names_and_required_keys() -> None:
    text = (
        "kind: matrx\n"
        "name: A b\n"
        "servers:\n"
        "  Base: {speculative: {method: ngram, num_speculative_tokens: 0}}\n"
        "prompts: {}\n"
        "sampling: {top_p: 1.5}\n"
        "matrix: {server: [], prompts: [x], concurrency: [1]}\n"
    )
    name = "is not a name: lower-case letters, digits, '_', '.' and '-', 63 at most"
    assert problems(text, MatrixJob) == (
        "f.yaml:1:1: model: a required key is missing",
        "f.yaml:1:7: kind: expected 'matrix', found the text 'matrx'; did you mean 'matrix'?",
        f"f.yaml:2:7: name: 'A b' {name}",
        f"f.yaml:4:3: servers.Base: 'Base' {name}",
        "f.yaml:4:63: servers.Base.speculative.num_speculative_tokens: expected a number of at"
        " least 1, found the number 0",
        "f.yaml:5:1: prompts: expected at least one entry, found an empty mapping",
        "f.yaml:6:19: sampling.top_p: expected a number of at most 1, found the number 1.5",
        "f.yaml:7:10: matrix.server: expected at least one entry, found an empty list",
    )


def test_a_rule_of_the_model_is_told_at_the_key_that_it_begins_with() -> None:
    assert problems(JOB.replace("[base, eagle]", "[base, nope]"), MatrixJob) == (
        "f.yaml:8:10: matrix.server names 'nope', which is not one of: base, eagle",
    )
    assert problems("hosts: {a: {user: me, run_root: runs}}", Inventory) == (
        "f.yaml:1:33: hosts.a: run_root must be an absolute path",
    )
    assert problems("hosts: {a: {connection: local, address: b}}", Inventory) == (
        "f.yaml:1:9: hosts.a: a local host has no address; drop 'address' or say 'connection: ssh'",
    )


def test_a_wrong_key_of_an_enumeration_is_told_at_the_key() -> None:
    assert problems("hosts: {a: {images: {srever: x}}}", Inventory) == (
        "f.yaml:1:22: hosts.a.images.srever: expected the key 'server', 'load' or 'supervisor';"
        " did you mean 'server'?",
    )


def test_a_misspelt_key_hides_no_other_problem() -> None:
    text = JOB.replace("name: small", "nmae: small").replace("[1, 2]", "[1, x]") + "baseline: nope"
    assert problems(text, MatrixJob) == (
        "f.yaml:2:1: nmae: unknown key 'nmae'; did you mean 'name'?",
        "f.yaml:8:67: matrix.concurrency.1: expected a whole number, found the text 'x'",
    )
    told = problems(text.replace("[1, x]", "[1]"), MatrixJob)
    assert told == (
        "f.yaml:2:1: nmae: unknown key 'nmae'; did you mean 'name'?",
        "f.yaml:9:11: baseline 'nope' is not one of: base, eagle",
    )


def test_a_file_of_another_version_is_refused() -> None:
    assert problems("schema_version: 2\n" + JOB, MatrixJob) == (
        "f.yaml:1:17: schema_version: this runner reads version 1, found 2",
    )


class Pull(Spec):
    image: str
    policy: str = "missing"


class Build(Spec):
    context: str
    arguments: Mapping[str, str] = {}


class Choice(Spec):
    source: Pull | Build | None = None
    size: int | str = 1
    deep: Mapping[str, tuple[Pull | str, ...]] = {}


def test_of_a_union_the_alternative_that_fits_best_speaks() -> None:
    assert problems("source: {context: a, argumnets: {}}", Choice) == (
        "f.yaml:1:22: source.argumnets: unknown key 'argumnets'; did you mean 'arguments'?",
    )
    assert problems("size: [1]", Choice) == (
        "f.yaml:1:1: size: expected a whole number or text, found a list of 1",
    )
    assert problems("deep: {a: [x, {image: y, polcy: z}]}", Choice) == (
        "f.yaml:1:26: deep.a.1.polcy: unknown key 'polcy'; did you mean 'policy'?",
    )


def test_the_error_names_file_and_next_step() -> None:
    with pytest.raises(SpecError) as caught:
        load_text("whole: x\nflag: x\n", "some/f.yaml", Scalars)
    error = caught.value
    assert (error.what, error.where) == ("2 problems found", "some/f.yaml")
    assert str(error).splitlines() == [
        "some/f.yaml:1:8: whole: expected a whole number, found the text 'x'",
        "some/f.yaml:2:7: flag: expected true or false, found the text 'x'",
        "  next: correct some/f.yaml and repeat the command",
    ]


def test_a_host_of_defaults_is_an_empty_mapping() -> None:
    assert load_text("hosts: {a: {}}", "f.yaml", Inventory).hosts == {"a": Host()}
