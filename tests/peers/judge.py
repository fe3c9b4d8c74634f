"""The schemas that the ACP SDK ships, as a judge of what the zone says."""

import importlib.resources
import json

import yaml
from jsonschema import Draft202012Validator, FormatChecker
from referencing import Registry
from referencing.jsonschema import DRAFT202012

FORMATS = FormatChecker()
assert {"date-time", "uri"} <= set(FORMATS.checkers), "the formats would not be checked"

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
        assert value is not None, f"{path} is null; what is absent is left out"


def valid(name, value):
    """Fails unless `value` is what the SDK's OpenAPI document calls `name`; gives it back."""
    schema = {"$ref": f"acp:#/components/schemas/{name}"}
    Draft202012Validator(schema, registry=_REGISTRY, format_checker=FORMATS).validate(value)
    _no_nulls(value, name)
    return value


def valid_card(card):
    schema = json.loads((_FOLDER / "agent-card.schema.json").read_text())
    Draft202012Validator(schema, format_checker=FORMATS).validate(card)
    return card


def fails(name, value):
    """The judge must be able to say no."""
    try:
        valid(name, value)
    except Exception:
        return
    raise AssertionError(f"the schema takes anything for {name}")


fails("MethodResult", {"type": "task"})
fails("TaskObject", {"taskId": "t", "status": "DONE", "createdAt": "2026-01-01T00:00:00Z"})
fails("TaskObject", {"taskId": "t", "status": "WORKING", "createdAt": "yesterday"})
