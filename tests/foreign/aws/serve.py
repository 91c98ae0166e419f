"""Serves moto, unmodified, and drives it through boto3, AWS' own client; asserts nothing.

The first line of standard output is the URL. Then each line of standard input is one order, a JSON list of a name and arguments,
and each has a line of JSON in answer. It ends with its standard input.

moto knows no throttling and no requests that fail half-way. Such answers are given before moto sees the request.
"""

import collections
import io
import json
import logging
import os
import sys
import threading
import urllib.parse

for name, value in {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_EC2_METADATA_DISABLED": "true"}.items():
    os.environ[name] = value

import boto3
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

REGION = "eu-west-1"
# Standard error is for what goes wrong.
logging.getLogger("werkzeug").setLevel(logging.ERROR)


class Cloud:
    def __init__(self):
        self.moto = DomainDispatcherApplication(create_backend_app)
        self.seen = []
        self.refusals = collections.deque()

    def __call__(self, environ, start_response):
        agent = environ.get("HTTP_USER_AGENT", "")
        if agent.startswith("Boto3"):
            return self.moto(environ, start_response)
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = io.BytesIO(body)
        action = urllib.parse.parse_qs(body.decode()).get("Action", ["?"])[0]
        self.seen.append(action)
        for refusal in list(self.refusals):
            if refusal[0] == action:
                self.refusals.remove(refusal)
                start_response(refusal[1], [("content-type", "text/xml")])
                return [refusal[2].encode()]
        return self.moto(environ, start_response)


def requests(cloud):
    """The actions since this was asked the last time, boto3's own left out."""
    seen, cloud.seen = cloud.seen, []
    return seen


def refuse(cloud, action, status, body):
    """Answers the next request with this action so."""
    cloud.refusals.append((action, status, body))


def main():
    cloud = Cloud()
    server = make_server("127.0.0.1", 0, cloud, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    clients = {
        service: boto3.client(service, region_name=REGION, endpoint_url=url) for service in ("ec2", "elbv2", "elb")
    }
    print(json.dumps(url), flush=True)
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        if name == "call":
            service, method, parameters = arguments
            answer = getattr(clients[service], method)(**parameters)
        else:
            answer = {"requests": requests, "refuse": refuse}[name](cloud, *arguments)
        print(json.dumps(answer, default=str), flush=True)


main()
