"""Named cases of one client against a running server: each is run, printed and counted."""

import json
import sys
import urllib.request
from importlib.metadata import version

BASE = sys.argv[1] + "/v1"
KEY = "unused"
MODEL = json.load(urllib.request.urlopen(BASE + "/models"))["data"][0]["id"]
ASK = [{"role": "user", "content": "Hello"}]
LONG = [{"role": "user", "content": "many words and no end " * 20000}]


def expect(what, ok):
    """Fails the case that calls it, with what was expected, unless ok."""
    if not ok:
        raise AssertionError(what)


def run(package, cases):
    """Runs cases (name to function), prints a line for each and a count, and ends the process."""
    failed = 0
    for name, check in cases.items():
        try:
            print(f"ok    {name}: {str(check())[:150]!r}")
        except Exception as e:  # a failing case must not hide the others
            failed += 1
            print(f"FAIL  {name}: {type(e).__name__}: {str(e)[:600]}")
    print(f"{package} {version(package)}: {len(cases) - failed} passed, {failed} failed")
    sys.exit(failed > 0)
