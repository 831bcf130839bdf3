"""What all bodies have in common: nothing unknown, null for the default, and all faults told at once."""

from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler, ValidationError, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from taskflow_api.errors import Invalid
from taskflow_api.faults import faults

B = TypeVar("B", bound="Body")


class Body(BaseModel):
    """An object in which a null stands for the default, wherever there is one."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    never_null: ClassVar[frozenset[str]] = frozenset({"name", "queue", "payload"})

    @model_validator(mode="before")
    @classmethod
    def _null_is_the_default(cls, given: Any) -> Any:
        if not isinstance(given, dict) or None not in given.values():
            return given
        return {
            name: cls.model_fields[name].get_default() if value is None and cls._may_be_null(name) else value
            for name, value in given.items()
        }

    @classmethod
    def _may_be_null(cls, name: str) -> bool:
        field = cls.model_fields.get(name)
        return field is not None and not field.is_required() and name not in cls.never_null

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = handler(core)
        properties: dict[str, Any] = handler.resolve_ref_schema(schema)["properties"]
        for name, shape in properties.items():
            if cls._may_be_null(name) and {"type": "null"} not in shape.get("anyOf", ()):
                about = {key: shape.pop(key) for key in ("title", "description", "default") if key in shape}
                properties[name] = {"anyOf": [shape, {"type": "null"}], **about}
        return schema


def validate(model: type[B], value: Mapping[str, Any]) -> B:
    """`value` as this body, or `Invalid` with everything that is wrong with it."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise Invalid.of(faults(error)) from None
