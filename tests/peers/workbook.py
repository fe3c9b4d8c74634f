"""openpyxl, unmodified, as a reader of workbooks. Takes one in base64 and prints its sheets as JSON: each
with its name and its rows, a cell as its type and its value, and all numbers as they are exactly.
"""

import base64
import io
import json
import sys

from openpyxl import load_workbook

book = load_workbook(io.BytesIO(base64.b64decode(sys.stdin.read())))


def cell(it):
    value = float(it.value).hex() if it.data_type == "n" and it.value is not None else it.value
    return [it.data_type, value]


print(json.dumps([
    {"name": sheet.title, "rows": [[cell(it) for it in row] for row in sheet.iter_rows()]}
    for sheet in book.worksheets
]))
