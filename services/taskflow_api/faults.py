"""Say what pydantic found in words that fit an answer: which field, and what it must be."""

from typing import Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from taskflow_api.errors import Detail
from taskflow_api.parse import join_path

SET_BY_SERVER: Final = frozenset({"id", "status", "created_at", "updated_at", "attempt_count"})


def faults(error: ValidationError, within: tuple[str | int, ...] = ()) -> list[Detail]:
    """Each fault with its field's path; `within` is where the validated value stands in the body."""
    found = error.errors(include_url=False, include_input=False)
    return [Detail(join_path((*within, *fault["loc"])), _message(fault)) for fault in found]


def _message(fault: ErrorDetails) -> str:
    context = fault.get("ctx", {})
    match fault["type"]:
        case "missing":
            return "is required"
        case "extra_forbidden":
            last = fault["loc"][-1]
            return "is set by the server" if last in SET_BY_SERVER else "there is no such field"
        case "value_error":
            return str(context["error"])
        case "string_pattern_mismatch":
            return f"must match {context['pattern']}"
        case "enum":
            return f"must be one of {context['expected']}".replace("'", "").replace(" or ", ", ")
        case "too_long":
            return f"may have {context['max_length']:,} items, no more"
        case "too_short":
            return f"needs {context['min_length']:,} item or more"
        case "tuple_type" | "list_type":
            return "must be a list"
        case "model_type" | "dict_type" | "model_attributes_type":
            return "must be an object"
        case _:
            return fault["msg"].replace("Input should be", "must be").replace("String should have", "must have")
