"""The OpenAPI description as a page that loads nothing from elsewhere."""

import json
from html import escape
from typing import Any


def page(schema: dict[str, Any]) -> str:
    """Return the HTML of an OpenAPI description."""
    routes = [
        _route(path, method, operation, schema)
        for path, methods in schema["paths"].items()
        for method, operation in methods.items()
    ]
    title = f"{schema['info']['title']} {schema['info']['version']}"
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}: HTTP</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="stylesheet" href="/page.css"><link rel="icon" href="data:,"></head><body>'
        f"<h1>{escape(title)}</h1><p>{escape(schema['info'].get('description', ''))} "
        'As <a href="/openapi.json">OpenAPI</a>; <a href="/">ask a question</a>.</p>'
        + "".join(routes)
        + "</body></html>"
    )


def _route(path: str, method: str, operation: dict[str, Any], schema: dict[str, Any]) -> str:
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    parts = [f"<h2><code>{method.upper()} {escape(path)}</code></h2>"]
    parts += [f"<p>{escape(operation[name])}</p>" for name in ("summary", "description") if name in operation]
    if body:
        fields = _resolved(body, schema)
        required = fields.get("required", [])
        rows = [_row(name, value, name in required) for name, value in fields.get("properties", {}).items()]
        example = (fields.get("examples") or [{name: _example(fields["properties"][name]) for name in required}])[0]
        parts.append(f"<dl>{''.join(rows)}</dl><pre>{escape(_curl(path, example))}</pre>")
    else:
        parts.append(f"<pre>{escape(f'curl http://localhost:8080{path}')}</pre>")
    return f"<section>{''.join(parts)}</section>"


def _resolved(value: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    name = value.get("$ref", "").rpartition("/")[2]
    found: dict[str, Any] = schema["components"]["schemas"][name] if name else value
    return found


def _row(name: str, value: dict[str, Any], required: bool) -> str:
    kinds = [each.get("type", "") for each in value.get("anyOf", [value])]
    said = [" or ".join(kind for kind in kinds if kind), "required" if required else "", value.get("description", "")]
    if "default" in value:
        said.append(f"by default {json.dumps(value['default'])}")
    return f"<dt><code>{escape(name)}</code></dt><dd>{escape('; '.join(part for part in said if part))}</dd>"


def _example(value: dict[str, Any]) -> Any:
    return ["..."] if value.get("type") == "array" else "..."


def _curl(path: str, example: dict[str, Any]) -> str:
    return f"curl http://localhost:8080{path} -H 'Content-Type: application/json' -d '{json.dumps(example)}'"
