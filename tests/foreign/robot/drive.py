"""Calls the Robot web service through a client that others made, and prints what that client understood.

Standard input is one JSON document: endpoint, authority (a file), user, password, and calls, each a list of a
function's name and its arguments. Standard output is one JSON list with what came of each call. It asserts nothing.
"""

import importlib
import json
import ssl
import sys
import typing

import attrs
import httpx

CLIENT = "hetzner_robot_webservice_api_unofficial_client"
FOLDERS = {
    "list_servers": "server",
    "get_server": "server",
    "update_server": "server",
    "list_reset_options": "reset",
    "get_server_reset_options": "reset",
    "execute_server_reset": "reset",
}
# The one form field of each call that posts.
FORMS = {
    "update_server": ("ServerMetadataUpdateRequest", "server_name"),
    "execute_server_reset": ("ExecuteResetRequest", "type_"),
}

models = importlib.import_module(f"{CLIENT}.models")
Unset = importlib.import_module(f"{CLIENT}.types").Unset


def fits(value, hint):
    """Whether a value is what its annotation promises; of lists only that they are lists."""
    choices = typing.get_args(hint) if typing.get_origin(hint) is typing.Union else (hint,)
    return any(isinstance(value, typing.get_origin(choice) or choice) for choice in choices)


def understood(envelope):
    if isinstance(envelope, list):
        return [understood(entry) for entry in envelope]
    name = next(field for field in ("server", "reset", "error") if hasattr(envelope, field))
    model = getattr(envelope, name)
    hints = typing.get_type_hints(type(model), vars(models))
    fields = [field.name for field in attrs.fields(type(model)) if field.name != "additional_properties"]
    return {
        "class": type(model).__name__,
        "value": model.to_dict(),
        "absent": [field for field in fields if isinstance(getattr(model, field), Unset)],
        "mistyped": [field for field in fields if not fits(getattr(model, field), hints[field])],
        "undocumented": sorted(model.additional_properties),
    }


def call(client, name, *arguments):
    function = importlib.import_module(f"{CLIENT}.api.{FOLDERS[name]}.{name}").sync_detailed
    keywords = {}
    if name in FORMS:
        *arguments, value = arguments
        model, field = FORMS[name]
        keywords["body"] = getattr(models, model)(**{field: value})
    try:
        answer = function(*arguments, client=client, **keywords)
    except (httpx.TransportError, ValueError) as error:
        return {"failed": type(error).__name__}
    return {"status": int(answer.status_code), "understood": understood(answer.parsed)}


def main():
    task = json.load(sys.stdin)
    client = importlib.import_module(CLIENT).Client(
        base_url=task["endpoint"],
        timeout=httpx.Timeout(30.0),
        verify_ssl=ssl.create_default_context(cafile=task["authority"]),
        httpx_args={"auth": (task["user"], task["password"]), "trust_env": False},
    )
    json.dump([call(client, *arguments) for arguments in task["calls"]], sys.stdout)


main()
