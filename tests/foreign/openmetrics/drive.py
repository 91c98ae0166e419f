"""Reads a scrape as OpenMetrics, strictly, and prints name and type of each family.

Standard input is one JSON document with the scrape in `text`. Standard output is one JSON list. It asserts nothing.
"""

import json
import sys

from prometheus_client.openmetrics.parser import text_string_to_metric_families

text = json.load(sys.stdin)["text"]
json.dump([[family.name, family.type] for family in text_string_to_metric_families(text)], sys.stdout)
