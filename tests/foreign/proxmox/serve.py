"""Serves fakepve, unmodified, and does to it what happens to a real cluster and what no client can ask for.

Arguments: a folder with certificate.pem and key.pem, a token's ID and its secret. The first line of standard output is the
URL. Then each line of standard input is one order, a JSON list of a name and arguments, and each has a line of JSON in answer.
It ends with its standard input, and asserts nothing.
"""

import asyncio
import json
import sys

import fakepve


def agent(pve, vmid, interfaces):
    """The machine's guest agent runs and reports these interfaces; null: it does not run."""
    pve.vm(vmid).agent = None if interfaces is None else {"interfaces": interfaces}


def requests(pve):
    """Method and path of every request since this was asked the last time."""
    seen = [f"{method} {path}" for method, path, _ in pve.requests]
    pve.requests.clear()
    return seen


ORDERS = {"agent": agent, "requests": requests}
# What fakepve itself offers to tests.
SCENARIOS = ("add_node", "grant", "set_node_offline")


async def main():
    folder, token, secret = sys.argv[1:]
    pve = fakepve.FakePve(host="127.0.0.1", port=0)
    pve.apitokens[token] = secret
    await pve.start(f"{folder}/certificate.pem", f"{folder}/key.pem")
    print(json.dumps(pve.url), flush=True)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        name, *arguments = json.loads(line)
        answer = getattr(pve, name)(*arguments) if name in SCENARIOS else ORDERS[name](pve, *arguments)
        print(json.dumps(answer), flush=True)
    await pve.stop()


asyncio.run(main())
