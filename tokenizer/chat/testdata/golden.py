#!/usr/bin/env python3
"""Writes golden.json: small templates with what Jinja2 makes of them.

Jinja2 is set up as transformers does for chat templates. Needs jinja2 3.1.6:

    python3 golden.py            # rewrites golden.json beside this file
"""

import datetime
import json
import pathlib
import re

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = datetime.datetime(2026, 1, 2, 3, 4, 5)


class Generation(jinja2.ext.Extension):
    """{% generation %}, which marks what training learns."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_text"), [], [], body).set_lineno(line)

    def _text(self, caller):
        return caller()


class Namespace(jinja2.utils.Namespace):
    def __init__(*args, **kwargs):
        self, attrs = args[0], dict(*args[1:], **kwargs)
        for name in attrs:
            Namespace.check(name)
        jinja2.utils.Namespace.__init__(self, attrs)

    def __setitem__(self, name, value):
        Namespace.check(name)
        jinja2.utils.Namespace.__setitem__(self, name, value)

    @staticmethod
    def check(name):
        if name.startswith("_"):
            raise jinja2.exceptions.SecurityError("underscore")


def environment():
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = NOW.strftime
    env.globals["namespace"] = Namespace
    return env


# What every template sees beside messages.
EXTRA = {
    "s": "Hello, Wörld",
    "spaced": " \t a b  c \n",
    "lines": "one\n two\n\nthree\r\nfour",
    "html": "<a href=\"x\">'&'</a>",
    "n": 42,
    "neg": -7,
    "f": 2.5,
    "tiny": 1e-07,
    "huge": 123456789012345678901234567890,
    "yes": True,
    "nil": None,
    "nums": [3, 1, 2, 3],
    "words": ["pear", "Apple", "fig", "apple"],
    "empty": [],
    "d": {"b": 2, "a": 1, "C": [1, {"x": "y"}]},
    "items": [
        {"name": "x", "v": 1, "tags": ["p", "q"], "n": {"k": 5}},
        {"name": "Y", "v": 3, "tags": []},
        {"name": "z", "v": 2, "on": True},
    ],
    "tree": [{"t": "a", "kids": [{"t": "b", "kids": []}, {"t": "c", "kids": [{"t": "d", "kids": []}]}]}],
    "odd": {"items": "own", "get": 1, "a b": 2, "_x": 3},
    "emoji": "a\U0001f999b\u00e9\u4e2d",
    "quote": "it's \"q\" \\ \x01\u00a0\u200b\n",
}

MESSAGES = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": " Hi <|im_end|> "},
    {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": {"x": 1.0}}}]},
]

HERE = pathlib.Path(__file__).parent


def templates():
    """Yields (name, template): blocks of golden.txt, lines of expressions.txt."""
    for block in (HERE / "golden.txt").read_text(encoding="utf-8").split("\n=====\n"):
        name, _, template = block.partition("\n")
        yield name, template
    yield "carriage returns", "a\r\n  {% if true %}\rb\r\n{% endif %}{{ '\r\n' }}c\r\n"
    for line in (HERE / "expressions.txt").read_text(encoding="utf-8").splitlines():
        yield line, "{{ " + line + " }}"


def main():
    env = environment()
    cases = []
    for name, template in templates():
        case = {"name": name, "template": template}
        try:
            case["rendered"] = env.from_string(template).render(
                messages=MESSAGES, add_generation_prompt=True, bos_token="<s>", eos_token="</s>", **EXTRA
            )
            if re.search(r"<(built-in|bound|function|generator|class|map|list_reverse)| at 0x", case["rendered"]):
                del case["rendered"]
                case["error"] = "text that holds an address, which weir refuses to print"
        except Exception as e:  # whatever Jinja2 raises is the expectation
            case["error"] = f"{type(e).__name__}: {e}"
        cases.append(case)
    out = {"now": NOW.isoformat(), "messages": MESSAGES, "extra": EXTRA, "cases": cases}
    path = HERE / "golden.json"
    path.write_text(json.dumps(out, ensure_ascii=True, indent=1) + "\n", encoding="utf-8")
    errors = sum("error" in c for c in cases)
    print(f"{len(cases)} cases, {errors} of them errors")


if __name__ == "__main__":
    main()
