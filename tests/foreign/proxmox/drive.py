"""Calls a Proxmox VE API through proxmoxer, and prints what that client understood.

Standard input is one JSON document: host (with its port), user, token (its name), secret, and calls, each a list of a method,
a path and parameters. REQUESTS_CA_BUNDLE names the authority. Standard output is one JSON list with what came of each call. It
asserts nothing.
"""

import json
import os
import sys

from proxmoxer import ProxmoxAPI, ResourceException


def call(api, method, path, parameters):
    try:
        return {"answer": getattr(api(path), method)(**parameters)}
    except ResourceException as error:
        return {"refused": error.status_code, "content": error.content}


def main():
    task = json.load(sys.stdin)
    api = ProxmoxAPI(
        task["host"],
        user=task["user"],
        token_name=task["token"],
        token_value=task["secret"],
        verify_ssl=os.environ["REQUESTS_CA_BUNDLE"],
    )
    json.dump([call(api, *arguments) for arguments in task["calls"]], sys.stdout)


main()
