"""Calls the API through the vendor's own client (pydo), and prints what it answered.

Standard input is one JSON document: endpoint, token, and calls, each a list of a method of the client (such as
`load_balancers.create`) and its keyword arguments. In arguments `{"of": N, "take": [KEY, ...]}` stands for a part of what call N
answered. Standard output is one JSON list with what came of each call. It asserts nothing.
"""

import json
import sys

import pydo
from azure.core.exceptions import HttpResponseError


def argument(value, answers):
    if isinstance(value, list):
        return [argument(one, answers) for one in value]
    if not isinstance(value, dict):
        return value
    if "of" in value:
        part = answers[value["of"]]
        for key in value["take"]:
            part = part[key]
        return part
    return {key: argument(one, answers) for key, one in value.items()}


def call(client, name, arguments):
    method = client
    for part in name.split("."):
        method = getattr(method, part)
    return method(**arguments)


def main():
    task = json.load(sys.stdin)
    client = pydo.Client(token=task["token"], endpoint=task["endpoint"], timeout=30, retry_total=0)
    answers, said = [], []
    for name, arguments in task["calls"]:
        try:
            answers.append(call(client, name, argument(arguments, answers)))
            # The client hands refusals of documented statuses on as answers.
            refused = isinstance(answers[-1], dict) and "request_id" in answers[-1]
            said.append({"refused": answers[-1]} if refused else {"answer": answers[-1]})
        except HttpResponseError as error:
            answers.append(None)
            said.append({"refused": error.model or json.loads(error.response.text()), "status": error.status_code})
    json.dump(said, sys.stdout)


main()
