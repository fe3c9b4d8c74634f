"""Reads a workbook with openpyxl. Reads it in base64 from stdin and prints its sheets as JSON: name and rows, with the
type and value of each cell, and numbers in hexadecimal, so that they are exact.
"""

import base64
import io
import json
import sys

from openpyxl import load_workbook

book = load_workbook(io.BytesIO(base64.b64decode(sys.stdin.read())))


def cell_json(cell):
    value = float(cell.value).hex() if cell.data_type == "n" and cell.value is not None else cell.value
    return [cell.data_type, value]


print(json.dumps([
    {"name": sheet.title, "rows": [[cell_json(cell) for cell in row] for row in sheet.iter_rows()]}
    for sheet in book.worksheets
]))
