"""JSON Schema, as far as replies are read and checked by it."""

from collections.abc import Mapping
from typing import Any

_NAMES = {str: "string", bool: "boolean", int: "integer number", float: "number", list: "array", dict: "object"}
TYPES = {kind: frozenset(names.split()) for kind, names in {**_NAMES, type(None): "null"}.items()}
"""The types of JSON Schema that a value has."""

ANY = frozenset[str]().union(*TYPES.values())


def types_of(schema: Any, root: Mapping[str, Any], seen: frozenset[str] = frozenset()) -> frozenset[str]:
    """Return the types that a schema allows; all of them where it does not say."""
    if not isinstance(schema, dict):
        return ANY
    if isinstance(reference := schema.get("$ref"), str):
        return ANY if reference in seen else types_of(_defined(reference, root), root, seen | {reference})
    for combined in ("anyOf", "oneOf", "allOf"):
        if isinstance(options := schema.get(combined), list) and options:
            return frozenset[str]().union(*(types_of(option, root, seen) for option in options))
    given = schema.get("type")
    if isinstance(given, str | list):
        return frozenset([given] if isinstance(given, str) else map(str, given))
    values = schema.get("enum", [schema["const"]] if "const" in schema else None)
    return frozenset[str]().union(*(TYPES.get(type(one), ANY) for one in values)) if isinstance(values, list) else ANY


def fits(value: Any, schema: Any) -> bool:
    """Return whether a value of JSON has the types, fields and choices that a schema asks for.

    No more is compared: bounds and patterns are the graph's own check.
    """
    try:
        return _fits(value, schema, schema)
    except RecursionError:  # a model may nest without end
        return False


def takes(schema: Any, given: Mapping[str, Any]) -> bool:
    """Return whether a tool of that schema takes these arguments by their names; a node may pass them on itself."""
    if not isinstance(schema, dict) or "properties" not in schema or schema.get("additionalProperties"):
        return True
    return set(schema.get("required") or ()) <= given.keys() <= set(schema["properties"])


def example(schema: Any, text: str, root: Mapping[str, Any] | None = None, seen: frozenset[str] = frozenset()) -> Any:
    """Return a value that fits a schema: its first choice or example, or `text`, and of objects the required fields.

    References in `seen` have the example None, so that a schema that holds itself has an end.
    """
    if not isinstance(schema, dict):
        return text
    root = schema if root is None else root
    if isinstance(reference := schema.get("$ref"), str):
        return None if reference in seen else example(_defined(reference, root), text, root, seen | {reference})
    if choices := schema.get("examples") or schema.get("enum") or [schema[key] for key in schema if key == "const"]:
        return choices[0]
    if options := schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf"):
        found = (example(option, text, root, seen) for option in options)
        return next((one for one in found if one is not None), None)
    if schema.get("format") == "date-time":
        return "2026-01-01T12:00:00"
    if schema.get("format") == "date" or "yyyy-mm-dd" in str(schema.get("description")).lower():
        return "2026-01-01"
    given, number = schema.get("type", ""), schema.get("minimum", 1)
    kind = str(given[0] if isinstance(given, list) else given)
    if kind == "object":
        properties = schema.get("properties") or {}
        return {name: example(properties.get(name), text, root, seen) for name in schema.get("required") or ()}
    if kind == "array":
        part = example(schema.get("items"), text, root, seen)
        return [] if part is None else [part]
    return {"integer": number, "number": number, "boolean": True, "null": None}.get(kind, text)


def _defined(reference: str, root: Mapping[str, Any]) -> Any:
    """Return the schema that a reference names; None if there is none."""
    definitions = root.get("$defs") or root.get("definitions")
    return definitions.get(reference.rpartition("/")[2]) if isinstance(definitions, dict) else None


def _fits(value: Any, schema: Any, root: Mapping[str, Any]) -> bool:
    if not isinstance(schema, dict):
        return True
    if isinstance(reference := schema.get("$ref"), str):
        return _fits(value, _defined(reference, root), root)
    kind = int if isinstance(value, float) and value.is_integer() else type(value)
    if not TYPES[kind] & types_of(schema, root):
        return False
    options = schema.get("anyOf") or schema.get("oneOf")
    if options and not any(_fits(value, option, root) for option in options):
        return False
    if value not in schema.get("enum", [schema.get("const", value)]):
        return False
    if isinstance(value, list):
        return all(_fits(part, schema.get("items"), root) for part in value)
    if not isinstance(value, dict):
        return True
    properties = schema.get("properties") or {}
    missing = set(schema.get("required") or ()) - value.keys()
    return not missing and all(_fits(part, properties.get(name), root) for name, part in value.items())
