"""What Python reads of results, beside what Rust writes: JSON Schema derived from its types."""

import json
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from pydantic import BaseModel

import canned
from pagelab import _core, counts, results
from pagelab.sources import Workload
from pagelab.window import Window

# What Python adds to what Rust returns.
ADDED = {"pages", "source", "host"}


def definitions(schema: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = schema.get("$defs", {})
    return found


def resolved(schema: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    """What a reference stands for; what may be absent as what it is where it is there."""
    while True:
        if "$ref" in schema:
            schema = definitions(root)[schema["$ref"].rsplit("/", 1)[1]]
        elif others := [one for one in schema.get("anyOf", []) if one.get("type") != "null"]:
            if len(others) != 1:
                return schema
            schema = others[0]
        else:
            return schema


def form(schema: dict[str, Any], root: dict[str, Any], names: frozenset[str] = frozenset()) -> Any:
    """What JSON a schema takes, as far as both sides say it: types, and of objects their fields."""
    schema = resolved(schema, root)
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next(one for one in kind if one != "null")
    if "const" in schema or "enum" in schema or schema.get("oneOf"):
        return "string"
    if kind == "array":
        prefix = schema.get("prefixItems")
        items = [form(one, root) for one in prefix] if prefix else form(schema["items"], root)
        return ["array", items]
    if kind == "object" and "properties" in schema:
        return {name: form(of, root) for name, of in schema["properties"].items()}
    if kind == "object":
        more = schema.get("additionalProperties", True)
        return ["object", form(more, root) if isinstance(more, dict) and more else "anything"]
    return kind or "anything"


def may_be_absent(schema: dict[str, Any], root: dict[str, Any], path: str = "") -> set[str]:
    """Paths of fields that need not be there."""
    schema = resolved(schema, root)
    if schema.get("type") == "array":
        return may_be_absent(schema["items"], root, f"{path}[]") if "items" in schema else set()
    absent = set()
    for name, of in schema.get("properties", {}).items():
        if name not in schema.get("required", []):
            absent.add(f"{path}.{name}")
        absent |= may_be_absent(of, root, f"{path}.{name}")
    return absent


@pytest.fixture(scope="module")
def written() -> dict[str, Any]:
    schema: dict[str, Any] = json.loads(_core.run_schema())
    return schema


@pytest.fixture(scope="module")
def read() -> dict[str, Any]:
    return results.Run.model_json_schema(by_alias=True)


def test_python_reads_every_field_that_is_written(
    written: dict[str, Any], read: dict[str, Any]
) -> None:
    ours, theirs = form(read, read), form(written, written)
    # A machine's description and the counters of a design are tables of any names to Python.
    for both in (ours, theirs):
        both["machine"] = both["design_counters"] = "anything"
    for name in ADDED:
        del ours[name]
    assert ours == theirs


def test_python_needs_what_is_always_written_and_nothing_else(
    written: dict[str, Any], read: dict[str, Any]
) -> None:
    machine = ".machine"
    absent = {path for path in may_be_absent(written, written) if not path.startswith(machine)}
    assert absent == may_be_absent(read, read)


def test_unknown_fields_are_refused() -> None:
    def models(model: type[BaseModel]) -> set[type[BaseModel]]:
        return {model}.union(*(models(below) for below in model.__subclasses__()))

    for model in models(counts.Model):
        assert model.model_config["extra"] == "forbid", model


def test_made_up_results_are_as_real_ones(written: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator.check_schema(written)
    for design in ("radix", "dpt", "ideal"):
        run = canned.run(design)
        jsonschema.validate({k: v for k, v in run.items() if k not in ADDED}, written)


@pytest.mark.parametrize("design", ["radix", "dpt+mosaic", "nested-ecpt", "radix+victima"])
def test_real_results_are_as_the_schema_says(design: str, written: dict[str, Any]) -> None:
    source = Workload("random-updates", {"footprint": "16MiB"}).describe(Window(limit=5000))
    text = _core.simulate(design, "golden-cove", [], json.dumps(source), lambda *_: True)
    jsonschema.validate(json.loads(text), written)


@pytest.mark.parametrize("preset", [name for name, _ in _core.machines()])
def test_presets_are_machines(preset: str) -> None:
    schema = json.loads(_core.machine_schema())
    jsonschema.validate(json.loads(_core.machine(preset, [])), schema)


def test_sizes_may_have_units() -> None:
    schema = json.loads(_core.machine_schema())
    machine = json.loads(_core.machine("dpt-paper", []))
    for size, right in (("16 GiB", True), (1 << 30, True), ("sixteen", False), (-1, False)):
        machine["memory"]["memory_bytes"] = size
        assert jsonschema.Draft202012Validator(schema).is_valid(machine) == right, size
