"""The recipes of this repository, and which image a host uses."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from runner import __version__
from runner.errors import SpecError, UsageError
from runner.images import Catalogue, image_reference, load_catalogue, recipe_for
from runner.images.catalogue import build_arguments, effective_versions
from runner.models.host import Accelerator, Host, Role, Vendor

ROOT = Path(__file__).parents[3] / "images"


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return load_catalogue(ROOT)


def _host(vendor: Vendor = Vendor.CPU, **images: str) -> Host:
    chosen = {Role(role): name for role, name in images.items()}
    return Host(name="box", accelerator=Accelerator(vendor=vendor), images=chosen)


def test_names_and_references(catalogue: Catalogue) -> None:
    references = {name: image_reference(it) for name, it in catalogue.recipes.items()}
    assert references == {
        "aiperf": "runner/aiperf:0.13.0",
        "supervisor": f"runner/supervisor:{__version__}",
        "vllm-cpu": "runner/vllm-cpu:0.32.0",
    }
    assert catalogue.recipe("vllm-cpu").entrypoint == ("vllm", "serve")
    assert catalogue.recipe("aiperf").entrypoint == ("aiperf",)
    assert catalogue.recipe("supervisor").entrypoint == ("python", "-m", "runner.supervisor")


@pytest.mark.parametrize("name", ["aiperf", "supervisor", "vllm-cpu"])
def test_a_plain_build_and_a_build_by_runner_use_the_same_versions(
    catalogue: Catalogue, name: str
) -> None:
    recipe = catalogue.recipe(name)
    text = (catalogue.folder(recipe) / "Dockerfile").read_text()
    defaults = dict(re.findall(r"^ARG (\w+_VERSION)=(\S+)$", text, re.MULTILINE))
    assert defaults == build_arguments(recipe, {})


@pytest.mark.parametrize("name", ["aiperf", "supervisor", "vllm-cpu"])
def test_the_finished_stage_knows_no_index_and_no_wheel(catalogue: Catalogue, name: str) -> None:
    text = (catalogue.folder(catalogue.recipe(name)) / "Dockerfile").read_text()
    first, finished = re.split(r"^FROM \$\{BASE_IMAGE\}$", text, flags=re.MULTILINE)
    assert "ARG PIP_INDEX_URL" in first
    assert "PIP_" not in finished
    assert "wheels" not in finished
    assert "--mount" not in text


def test_overrides_change_arguments_versions_and_tag(catalogue: Catalogue) -> None:
    recipe = catalogue.recipe("vllm-cpu")
    older = {"VLLM_VERSION": "0.26.0", "TORCH_VERSION": "2.12.0+cpu"}
    assert effective_versions(recipe, older) == {"vllm": "0.26.0", "torch": "2.12.0+cpu"}
    assert image_reference(recipe, older) == "runner/vllm-cpu:0.26.0"
    assert build_arguments(recipe, {"MORE": "1"}) == {
        "VLLM_VERSION": "0.32.0",
        "TORCH_VERSION": "2.13.0+cpu",
        "MORE": "1",
    }


def test_a_plus_in_a_version_becomes_a_dash_in_the_tag(catalogue: Catalogue) -> None:
    recipe = catalogue.recipe("aiperf").model_copy(update={"versions": {"aiperf": "1.0+local"}})
    assert image_reference(recipe) == "runner/aiperf:1.0-local"


def test_defaults_by_role_and_vendor(catalogue: Catalogue) -> None:
    chosen = {role: recipe_for(_host(), role, catalogue) for role in Role}
    assert {role: it.name for role, it in chosen.items()} == {
        Role.SERVER: "vllm-cpu",
        Role.LOAD: "aiperf",
        Role.SUPERVISOR: "supervisor",
    }
    assert chosen[Role.SERVER].reference == "runner/vllm-cpu:0.32.0"
    assert recipe_for(_host(Vendor.AMD), Role.LOAD, catalogue).name == "aiperf"


@pytest.mark.parametrize(
    ("vendor", "name"), [(Vendor.AMD, "vllm-rocm"), (Vendor.NVIDIA, "vllm-cuda")]
)
def test_no_recipe_for_an_accelerator_says_what_to_set(
    catalogue: Catalogue, vendor: Vendor, name: str
) -> None:
    with pytest.raises(SpecError) as caught:
        recipe_for(_host(vendor), Role.SERVER, catalogue)
    assert str(caught.value) == (
        f"host 'box': there is no image '{name}' for a server on {vendor}\n"
        "  next: in hosts.yaml, set 'images: {server: REFERENCE}' for this host"
    )


def test_a_full_reference_is_used_as_it_is(catalogue: Catalogue) -> None:
    choice = recipe_for(_host(Vendor.AMD, server="team/vllm:1"), Role.SERVER, catalogue)
    assert (choice.reference, choice.recipe, choice.name) == ("team/vllm:1", None, "team/vllm:1")


def test_a_word_that_is_neither_and_an_image_for_another_role_are_refused(
    catalogue: Catalogue,
) -> None:
    with pytest.raises(SpecError, match=r"'vllm-cup', which is neither a recipe \(vllm-cpu\)"):
        recipe_for(_host(server="vllm-cup"), Role.SERVER, catalogue)
    with pytest.raises(SpecError, match=r"'aiperf', which is an image for: load"):
        recipe_for(_host(server="aiperf"), Role.SERVER, catalogue)


def test_an_unknown_name_tells_the_nearest(catalogue: Catalogue) -> None:
    with pytest.raises(UsageError) as caught:
        catalogue.recipe("aipref")
    assert caught.value.what == (
        "there is no image 'aipref'; did you mean 'aiperf'? known: aiperf, supervisor, vllm-cpu"
    )


def test_recipes_that_are_wrong_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="holds no recipe"):
        load_catalogue(tmp_path)
    (tmp_path / "one").mkdir()
    file = tmp_path / "one" / "image.yaml"
    file.write_text("description: x\nroles: [server]\nbase: b\n")
    with pytest.raises(SpecError, match="has no versions"):
        load_catalogue(tmp_path)
    file.write_text("description: x\nroles: [server]\nbase: b\nname: two\nversions: {a: '1'}\n")
    with pytest.raises(SpecError, match="name is 'two', its folder is 'one'"):
        load_catalogue(tmp_path)
    file.write_text("description: x\nroles: [server]\nbase: b\nversion: '1'\n")
    with pytest.raises(SpecError, match=r"image\.yaml:4:1: version: .*versions"):
        load_catalogue(tmp_path)
