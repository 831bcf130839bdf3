"""How a job's payload becomes a call, and what the call returns becomes a result.

A payload is any JSON value.  The first rule that fits decides:

1. A function with one parameter, and that positional-only (`def f(payload, /)`), gets the payload whole, whatever
   it is.
2. An object with exactly the keys `args` (an array) and `kwargs` (an object) is `f(*args, **kwargs)`.
3. Any other object is `f(**payload)` if the parameters take it; so `{}` is `f()`.
4. Any other value, and an object that a function of exactly one parameter could not take by rule 3, is `f(payload)`.

What fits none of them is a TypeError that says so: an ordinary failed attempt, retried like others, for the next
version of the code may take it.  What a function returns must be JSON, at most RESULT_MAX_BYTES of it.
"""

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

RESULT_MAX_BYTES = 1 << 20  # it stands in the server's memory until retention

Arguments: TypeAlias = tuple[tuple[Any, ...], dict[str, Any]]

_ENVELOPE = {"args", "kwargs"}
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_COMPACT = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def takes_whole(signature: inspect.Signature) -> bool:
    """Whether rule 1 applies."""
    kinds = [parameter.kind for parameter in signature.parameters.values()]
    return kinds == [inspect.Parameter.POSITIONAL_ONLY]


def takes(signature: inspect.Signature, keywords: dict[str, Any]) -> bool:
    """Whether rule 3 applies to an object."""
    try:
        signature.bind(**keywords)
    except TypeError:
        return False
    return True


def arguments_for(name: str, signature: inspect.Signature, payload: Any) -> Arguments:
    """The arguments to call a function with, by rules 2 to 4.  Raises TypeError when the payload does not fit."""
    arguments: Arguments = ((payload,), {})
    if isinstance(payload, dict):
        if payload.keys() == _ENVELOPE and isinstance(payload["args"], list) and isinstance(payload["kwargs"], dict):
            arguments = (tuple(payload["args"]), payload["kwargs"])
        elif not _takes_one(signature) or takes(signature, payload):
            arguments = ((), payload)
    try:
        signature.bind(*arguments[0], **arguments[1])
    except TypeError as error:
        raise TypeError(f"the payload does not fit {name}{signature}: {error}") from None
    return arguments


def payload_for(name: str, signature: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The payload that becomes this call again by the rules.  Raises TypeError when the function does not take it."""
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{name}{signature} cannot be called so: {error}") from None
    if takes_whole(signature):
        return args[0] if args else next(iter(signature.parameters.values())).default
    return call_payload(args, kwargs)


def call_payload(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The payload of a call: the keywords as they are, if there is nothing else and rule 2 does not claim them."""
    if args or kwargs.keys() == _ENVELOPE:
        return {"args": list(args), "kwargs": dict(kwargs)}
    return dict(kwargs)


def encode_result(value: Any) -> bytes | None:
    """A returned value as compact JSON; None, which is stored as nothing at all, for None."""
    if value is None:
        return None
    try:
        encoded = _COMPACT.encode(value).encode()
    except TypeError as error:
        raise TypeError(f"a task returns JSON, but: {error}") from None
    except UnicodeEncodeError:
        raise ValueError("a task returns JSON, which cannot hold half a surrogate pair") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"a task returns JSON, but: {error}") from None
    if len(encoded) > RESULT_MAX_BYTES:
        raise ValueError(f"a result may take {RESULT_MAX_BYTES:,} bytes of JSON, not {len(encoded):,}")
    return encoded


def is_result(value: object, most_bytes: int = RESULT_MAX_BYTES) -> bool:
    """Whether this is what `encode_result` gives: JSON text that may be stored, or None."""
    if value is None:
        return True
    if not isinstance(value, bytes) or len(value) > most_bytes:
        return False
    try:
        json.loads(value, parse_constant=refuse)
    except (ValueError, RecursionError):
        return False
    return True


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """The function's parameters, without their annotations, which no rule asks for and messages need not show."""
    bare = inspect.signature(function)
    parameters = [p.replace(annotation=inspect.Parameter.empty) for p in bare.parameters.values()]
    return bare.replace(parameters=parameters, return_annotation=inspect.Signature.empty)


def _takes_one(signature: inspect.Signature) -> bool:
    kinds = [parameter.kind for parameter in signature.parameters.values()]
    return len(kinds) == 1 and kinds[0] in _POSITIONAL


def refuse(word: str) -> None:
    """For `parse_constant` of json: NaN and Infinity are words of Python's alone."""
    raise ValueError(f"{word} is not JSON")
