"""Holds answers against the vendor's OpenAPI document.

Standard input is one JSON document: `document`, the path of the specification's root file, and `answers`, each with the path of
the document, the method, the status and the body. Standard output is one JSON list with the errors of each answer, as text. An
object with a field that the document does not know is no error: the vendor adds fields, and so does the document.
"""

import json
import pathlib
import sys

import yaml
from jsonschema import Draft202012Validator
from jsonschema.validators import validator_for


class Document:
    """Files that refer to each other; what is read once is kept."""

    def __init__(self):
        self.files = {}

    def read(self, file):
        if file not in self.files:
            self.files[file] = yaml.load(file.read_text(), Loader=yaml.CSafeLoader)
        return self.files[file]

    def resolved(self, value, file, above=()):
        """The value with everything in place of what refers to it."""
        if isinstance(value, list):
            return [self.resolved(one, file, above) for one in value]
        if not isinstance(value, dict):
            return value
        if "$ref" in value:
            name, _, pointer = value["$ref"].partition("#")
            file = (file.parent / name).resolve() if name else file
            if (file, pointer) in above:
                return {}
            found = self.read(file)
            for key in filter(None, pointer.split("/")):
                found = found[key.replace("~1", "/").replace("~0", "~")]
            found = self.resolved(found, file, (*above, (file, pointer)))
            more = {key: self.resolved(one, file, above) for key, one in value.items() if key != "$ref"}
            return {**found, **more} if isinstance(found, dict) else found
        made = {key: self.resolved(one, file, above) for key, one in value.items() if key not in ("example", "examples")}
        if made.get("nullable"):
            made = {"anyOf": [{"type": "null"}, {key: one for key, one in made.items() if key != "nullable"}]}
        return made


def main():
    task = json.load(sys.stdin)
    root = pathlib.Path(task["document"]).resolve()
    document = Document()
    paths = document.read(root)["paths"]
    said = []
    for answer in task["answers"]:
        operation = document.resolved(paths[answer["path"]][answer["method"]], root)
        response = operation["responses"].get(str(answer["status"]))
        if response is None:
            said.append([f"the document has no status {answer['status']}"])
            continue
        schema = response.get("content", {}).get("application/json", {}).get("schema")
        if schema is None:
            said.append([] if answer["body"] is None else ["the document has no body"])
            continue
        validator = validator_for(schema, default=Draft202012Validator)(schema)
        errors = validator.iter_errors(answer["body"])
        said.append([f"{'/'.join(map(str, one.absolute_path))}: {one.message[:300]}" for one in errors])
    json.dump(said, sys.stdout)


main()
