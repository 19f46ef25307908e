"""The page that describes the addresses of a server, made from its OpenAPI description; it loads nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

STYLE = """
:root { color-scheme: light dark; }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem; }
code, pre { font: .9rem/1.4 ui-monospace, monospace; }
pre { overflow: auto; padding: .6rem; border: 1px solid #8886; border-radius: .3rem; }
table { border-collapse: collapse; display: block; overflow: auto; }
td, th { text-align: left; vertical-align: top; padding: .2rem .8rem .2rem 0; border-top: 1px solid #8886; }
"""
POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def page_of(description: Mapping[str, Any]) -> str:
    """The page of an OpenAPI description."""
    title = f"{escape(description['info']['title'])} {escape(description['info']['version'])}"
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f"<title>{title}</title><style>{STYLE}</style><main><h1>{title}</h1>"
        f"<p>{escape(description['info']['description'])} The same as <a href=openapi.json>OpenAPI</a>.</p>"
        + "".join(_addresses(description))
        + "</main></html>"
    )


def _addresses(description: Mapping[str, Any]) -> Iterator[str]:
    schemas = description["components"]["schemas"]
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            yield f"<h2><code>{method.upper()} {escape(path)}</code></h2><p>{escape(operation['description'])}</p>"
            content = operation.get("requestBody", {}).get("content", {}).get("application/json")
            if content is None:
                yield f"<pre>curl http://127.0.0.1:8000{escape(path)}</pre>"
                continue
            body = schemas[content["schema"]["$ref"].rsplit("/", 1)[1]]
            yield _table(body, "field")
            example = json.dumps({name: body["properties"][name]["examples"][0] for name in body["required"]})
            yield (
                f"<pre>curl http://127.0.0.1:8000{escape(path)} -H 'Content-Type: application/json' \\\n"
                f"  -d '{escape(example)}'</pre>"
            )
            answer = operation["responses"]["200"]["content"]["application/json"]["schema"]
            yield _table(schemas[answer["$ref"].rsplit("/", 1)[1]], "answer")
    yield "<h2>Errors</h2>" + _table(schemas["ErrorDetail"], '<code>"error"</code>')


def _table(schema: Mapping[str, Any], heading: str) -> str:
    required = schema.get("required", ())
    rows = "".join(
        f"<tr><td><code>{escape(name)}</code><td>{_kind(field)}<td>{_meaning(field, name in required)}"
        for name, field in schema["properties"].items()
    )
    return f"<table><tr><th>{heading}<th>type<th>meaning{rows}</table>"


def _kind(field: Mapping[str, Any]) -> str:
    """The type of a field, in words."""
    if "anyOf" in field:
        return " or ".join(dict.fromkeys(map(_kind, field["anyOf"])))
    kind = field.get("type", field.get("$ref", "any").rsplit("/", 1)[-1])
    return f"list of {_kind(field['items'])}" if kind == "array" and "items" in field else escape(str(kind))


def _meaning(field: Mapping[str, Any], is_required: bool) -> str:
    default = "" if is_required or field.get("default") is None else f"default {json.dumps(field['default'])}"
    bounds = [f"at most {field['maxItems']:,}"] if "maxItems" in field else []
    return escape("; ".join(filter(None, [field.get("description", ""), *bounds, default])))
