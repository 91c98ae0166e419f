"""Validates bills of materials with CycloneDX' own schema.

Standard input is one JSON list of documents. Standard output is one JSON list with what is wrong with each, or null. It asserts
nothing.
"""

import importlib.util
import json
import pathlib
import sys

import fastjsonschema

SCHEMAS = pathlib.Path(importlib.util.find_spec("cyclonedx").origin).parent / "schema" / "_res"


def schema(uri):
    name = uri.rsplit("/", 1)[-1]
    return json.loads((SCHEMAS / name.replace(".SNAPSHOT", "").replace(".schema.json", ".SNAPSHOT.schema.json")).read_text())


validate = fastjsonschema.compile(schema("bom-1.6.schema.json"), handlers={"http": schema})


def mistake(document):
    try:
        validate(document)
    except fastjsonschema.JsonSchemaValueException as error:
        return str(error)
    return None


print(json.dumps([mistake(document) for document in json.load(sys.stdin)]))
