"""Turn what pydantic says about a setting into a sentence that names it and tells what is allowed."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from taskflow_runtime.masking import mask
from taskflow_runtime.sources import Found, layers, variable

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

    from taskflow_runtime.settings import Settings

COMMAND_LINE = "command line"

_SCALARS = {
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "string": "text",
    "array": "a comma-separated list",
}


def explain(error: "ValidationError", cls: "type[Settings]", overrides: Mapping[str, Any]) -> str:
    """All that is wrong, as one line."""
    found: dict[str, Found] = {}
    for layer in reversed(layers(cls)):
        found |= layer
    found |= {field: Found(value, variable(field), COMMAND_LINE) for field, value in overrides.items()}
    properties = cls.model_json_schema()["properties"]
    told: dict[str, str] = {}  # one sentence a setting: the first fault is the one to mend
    for fault in error.errors():
        field = str(fault["loc"][0]) if fault["loc"] else ""
        told.setdefault(field, _sentence(field, fault, found.get(field), properties.get(field, {})))
    return " ".join(told.values())


def _sentence(field: str, fault: "ErrorDetails", found: Found | None, schema: Mapping[str, Any]) -> str:
    if not field:  # a check across settings names them itself
        return str(fault["ctx"]["error"])
    if fault["type"] == "extra_forbidden":
        return f"There is no setting {field!r}."
    rule = str(fault["ctx"]["error"]) if fault["type"] == "value_error" else f"must be {allowed(schema)}"
    if found is None:
        return f"{variable(field)} is not set, but {rule}."
    name = f"{found.name} ({found.file})" if found.file else found.name
    if schema.get("format") == "password":
        return f"{name} {rule}."
    return f"{name} is {mask(repr(found.value))}, but {rule}."


def allowed(schema: Mapping[str, Any]) -> str:
    """What a JSON schema admits, in words."""
    for choice in schema.get("anyOf", ()):
        if choice.get("type") != "null":
            return allowed(choice)
    if "enum" in schema:
        return "one of " + ", ".join(map(str, schema["enum"]))
    words = _SCALARS.get(schema.get("type", ""), "valid")
    if "pattern" in schema:
        return f"{words} that matches {schema['pattern']}"
    if "minimum" in schema and "maximum" in schema:
        return f"{words} from {schema['minimum']:g} to {schema['maximum']:g}"
    bounds = {"minimum": "of at least", "exclusiveMinimum": "greater than", "maximum": "of at most"}
    limits = [f"{phrase} {schema[key]:g}" for key, phrase in bounds.items() if key in schema]
    return " ".join([words, " and ".join(limits)]).strip()
