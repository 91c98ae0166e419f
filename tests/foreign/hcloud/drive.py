"""Calls the cloud's API through the vendor's own client, and prints what that client understood.

Standard input is one JSON document: endpoint, token, and calls, each a list of a method of the client (such as
`load_balancers.create`, or `wait` for an action) and its keyword arguments. In arguments `{"class": NAME, ...}` stands for an
object of the client's own, and `{"of": N, "take": FIELD}` for a field of what call N answered. Standard output is one JSON
list with what came of each call. It asserts nothing.
"""

import datetime
import importlib
import json
import sys

import hcloud
from hcloud.actions import ActionException
from hcloud.core import BaseDomain
from hcloud.core.client import BoundModelBase

MODULES = ["certificates", "load_balancer_types", "load_balancers", "locations", "networks", "servers"]


def made(name, fields):
    found = [getattr(module, name, None) for module in (importlib.import_module(f"hcloud.{one}") for one in MODULES)]
    return next(one for one in found if one is not None)(**fields)


def argument(value, answers):
    if isinstance(value, list):
        return [argument(one, answers) for one in value]
    if not isinstance(value, dict):
        return value
    if "of" in value:
        return getattr(answers[value["of"]], value["take"]) if "take" in value else answers[value["of"]]
    fields = {key: argument(one, answers) for key, one in value.items() if key != "class"}
    return made(value["class"], fields) if "class" in value else fields


def understood(value):
    if isinstance(value, BoundModelBase):
        # What is only named must stay so: reading more of it would be one more request.
        return understood(value.data_model) if value.complete else {"id": value.data_model.id}
    if isinstance(value, BaseDomain):
        return {field: understood(getattr(value, field)) for field in value.__api_properties__}
    if isinstance(value, (list, tuple)):
        return [understood(one) for one in value]
    if isinstance(value, dict):
        return {key: understood(one) for key, one in value.items()}
    return value.isoformat() if isinstance(value, datetime.datetime) else value


def call(client, name, arguments):
    if name == "wait":
        action = arguments["action"]
        action.wait_until_finished()
        return action
    method = client
    for part in name.split("."):
        method = getattr(method, part)
    return method(**arguments)


def main():
    task = json.load(sys.stdin)
    client = hcloud.Client(token=task["token"], api_endpoint=task["endpoint"], poll_interval=0.05, timeout=30)
    answers, said = [], []
    for name, arguments in task["calls"]:
        try:
            answers.append(call(client, name, argument(arguments, answers)))
            said.append({"answer": understood(answers[-1])})
        except hcloud.APIException as error:
            answers.append(None)
            said.append({"refused": error.code, "details": error.details})
        except ActionException as error:
            answers.append(None)
            said.append({"failed": error.action.error})
    json.dump(said, sys.stdout)


main()
