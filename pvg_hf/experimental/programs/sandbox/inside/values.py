"""Python values as JSON, with a mark for each type that JSON does not have."""

import json
from typing import Any

# A marked value is an object with this one key. Anything else with such a key is written as a marked mapping.
_TUPLE, _SET, _FROZENSET, _MAPPING = "__tuple__", "__set__", "__frozenset__", "__mapping__"
_BYTES, _COMPLEX = "__bytes__", "__complex__"
_MARKS = frozenset((_TUPLE, _SET, _FROZENSET, _MAPPING, _BYTES, _COMPLEX))


def encode_value(value: Any) -> Any:
    """
    Return a value as what `json.dumps` can write.

    JSON values stay as they are. A tuple becomes `{"__tuple__": [...]}`; sets, mappings with keys that are not texts,
    bytes and complex numbers have marks of the same kind. An object of a subclass is written as its base class would
    be, without asking any of its own methods.

    Raises `TypeError` if the value, or one in it, is of another type, such as a generator.
    Raises `RecursionError` if it is nested too deeply or contains itself.
    """
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__pos__(value)
    if isinstance(value, float):
        return float.__pos__(value)
    if isinstance(value, list):
        return [encode_value(item) for item in list.__iter__(value)]
    if isinstance(value, tuple):
        return {_TUPLE: [encode_value(item) for item in tuple.__iter__(value)]}
    if isinstance(value, dict):
        return _encode_mapping(value)
    if isinstance(value, set):
        return {_SET: _in_order(set.__iter__(value))}
    if isinstance(value, frozenset):
        return {_FROZENSET: _in_order(frozenset.__iter__(value))}
    if isinstance(value, bytes):
        return {_BYTES: bytes.hex(value)}
    if isinstance(value, complex):
        return {_COMPLEX: [value.real, value.imag]}
    raise TypeError(f"a {type(value).__name__} is not a value that can be compared")


def _encode_mapping(value: dict) -> Any:
    items = list(dict.items(value))
    if all(type(key) is str for key, _ in items) and not (len(items) == 1 and items[0][0] in _MARKS):
        return {key: encode_value(item) for key, item in items}
    return {_MAPPING: [[encode_value(key), encode_value(item)] for key, item in items]}


def _in_order(items: Any) -> list[Any]:
    """Elements of a set in an order that depends on them alone."""
    return sorted((encode_value(item) for item in items), key=lambda item: json.dumps(item, sort_keys=True))


def decode_value(value: Any) -> Any:
    """Return the Python value of what [`encode_value`] returned."""
    if isinstance(value, list):
        return [decode_value(item) for item in value]
    if not isinstance(value, dict):
        return value
    mark, content = next(iter(value.items())) if len(value) == 1 else (None, None)
    if mark in (_TUPLE, _SET, _FROZENSET):
        kind = {_TUPLE: tuple, _SET: set, _FROZENSET: frozenset}[mark]
        return kind(decode_value(item) for item in content)
    if mark == _MAPPING:
        return {decode_value(key): decode_value(item) for key, item in content}
    if mark == _BYTES:
        return bytes.fromhex(content)
    if mark == _COMPLEX:
        return complex(*content)
    return {key: decode_value(item) for key, item in value.items()}
