"""Reads lines {"draft", "schema", "instances"} and writes what does not validate, by the Python package jsonschema.

Needs the packages jsonschema and rfc3339-validator. Numbers are read exactly, as Decimal. The last line is a count.
"""
import decimal
import json
import re
import sys

import jsonschema

decimal.getcontext().prec = 1000  # multipleOf divides long numbers by small ones


def read(text):
    return json.loads(text, parse_float=decimal.Decimal)


def checker(kind):
    """The format checks of a draft but for relative-json-pointer, of which the package refuses numbers with
    a digit behind a 0, such as 501; the draft refuses a 0 in front alone."""
    own = jsonschema.FormatChecker(())
    own.checkers = {name: check for name, check in kind.FORMAT_CHECKER.checkers.items() if name != "relative-json-pointer"}
    return own


checked = wrong = unreadable = 0
for line in sys.stdin:
    case = json.loads(line)
    schema = read(case["schema"])
    kind = {"draft7": jsonschema.Draft7Validator, "draft2020-12": jsonschema.Draft202012Validator}.get(case["draft"])
    if kind is None:  # what $schema says, whatever host and scheme it names
        named = str(schema.get("$schema", "")) if isinstance(schema, dict) else ""
        kinds = {"draft-04": jsonschema.Draft4Validator, "draft-06": jsonschema.Draft6Validator, "draft-07": jsonschema.Draft7Validator,
                 "2019-09": jsonschema.Draft201909Validator}
        kind = next((k for name, k in kinds.items() if name in named), jsonschema.Draft202012Validator)
    validator = kind(schema, format_checker=checker(kind))
    for text in case["instances"]:
        try:
            error = next(validator.iter_errors(read(text)), None)
        except re.error:
            unreadable += 1  # a pattern that Python does not read
            continue
        except json.JSONDecodeError as problem:
            error = problem
        if isinstance(error, jsonschema.ValidationError) and error.validator == "pattern" and "\ufeff" in error.instance:
            unreadable += 1  # ECMA-262 counts U+FEFF as a blank, Python does not
            continue
        checked += 1
        if error is not None:
            wrong += 1
            print("%.1000s\n\t%s\n\t%s" % (case["schema"], text, str(error).split("\n")[0]))
print("checked %d wrong %d unreadable %d" % (checked, wrong, unreadable))
