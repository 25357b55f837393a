"""Reads notebooks as Jupyter does: schema, unique ids, conversion.

stdin: a JSON list of paths. stdout: a JSON list, for each notebook the cells
as nbformat reads them, or the error.
"""

import json
import sys

import nbformat
import nbformat.validator
from nbconvert import PythonExporter


def read(path):
    with open(path, encoding="utf-8") as f:
        raw = json.load(f)
    # The file itself, before nbformat joins and strips anything.
    for error in nbformat.validator.iter_validate(raw, version=4, version_minor=5):
        raise error
    nb = nbformat.read(path, as_version=4)
    ids = [c["id"] for c in nb.cells]
    assert len(set(ids)) == len(ids), "ids are not unique"
    PythonExporter().from_notebook_node(nb)
    nbformat.writes(nb).encode("utf-8")  # Jupyter can save it again
    return {"cells": [{"id": c["id"], "cell_type": c["cell_type"], "source": c["source"]} for c in nb.cells]}


answers = []
for path in json.load(sys.stdin):
    try:
        answers.append(read(path))
    except Exception as e:
        answers.append({"error": f"{type(e).__name__}: {e}"})
json.dump(answers, sys.stdout)
