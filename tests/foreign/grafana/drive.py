"""Reads dashboards with Grafana's own types, and prints what those made of them.

Standard input is one JSON list of dashboards. Standard output is the list of the same, written by the types that read
them: fields that Grafana does not know are missing. It asserts nothing.
"""

import json
import sys

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models import dashboard

register_default_plugins()
read = [dashboard.Dashboard.from_json(one) for one in json.load(sys.stdin)]
print(JSONEncoder().encode(read))
