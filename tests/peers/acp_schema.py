"""Validates messages of the zone with the schemas of the ACP SDK."""

import importlib.resources
import json

import yaml
from jsonschema import Draft202012Validator, FormatChecker
from referencing import Registry
from referencing.jsonschema import DRAFT202012

FORMATS = FormatChecker()
assert {"date-time", "uri"} <= set(FORMATS.checkers), "the formats are not checked"

_FOLDER = importlib.resources.files("acp") / "schemas"
_OPENAPI = yaml.safe_load((_FOLDER / "acp-schema.yaml").read_text())
_REGISTRY = Registry().with_resource("acp:", DRAFT202012.create_resource(_OPENAPI))


def _no_nulls(value, path):
    if isinstance(value, dict):
        for key, inner in value.items():
            _no_nulls(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for inner in value:
            _no_nulls(inner, path + "[]")
    else:
        assert value is not None, f"{path} is null; absent members must be omitted"


def valid(name, value):
    """Validates `value` against the schema `name` of the SDK's OpenAPI document and returns it."""
    schema = {"$ref": f"acp:#/components/schemas/{name}"}
    Draft202012Validator(schema, registry=_REGISTRY, format_checker=FORMATS).validate(value)
    _no_nulls(value, name)
    return value


def valid_card(card):
    schema = json.loads((_FOLDER / "agent-card.schema.json").read_text())
    Draft202012Validator(schema, format_checker=FORMATS).validate(card)
    return card


def assert_invalid(name, value):
    """Asserts that the schema rejects `value`, to make sure that the validation works."""
    try:
        valid(name, value)
    except Exception:
        return
    raise AssertionError(f"the schema {name} accepts an invalid value")


assert_invalid("MethodResult", {"type": "task"})
assert_invalid("TaskObject", {"taskId": "t", "status": "DONE", "createdAt": "2026-01-01T00:00:00Z"})
assert_invalid("TaskObject", {"taskId": "t", "status": "WORKING", "createdAt": "yesterday"})
