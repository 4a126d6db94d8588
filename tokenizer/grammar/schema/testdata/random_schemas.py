"""Writes random schemas of draft 2020-12, a line each: random_schemas.py COUNT. The same schemas each time.

Keywords that look at one another are mixed: unevaluated ones, dependencies, conditions, overlapping patterns, dynamic references.
"""
import json
import random
import sys

NAMES = ["a", "b", "ab", "x1", "foo", "bar"]
IN_PLACE = ["allOf", "anyOf", "oneOf"]
OF_OBJECTS = ["properties", "properties", "required", "additionalProperties", "patternProperties", "propertyNames", "counts", "dependentRequired",
              "dependentSchemas", "unevaluatedProperties", "not", "if", "$ref", *IN_PLACE]
OF_LISTS = ["items", "prefixItems", "contains", "counts", "uniqueItems", "unevaluatedItems", "allOf", "anyOf"]


class Maker:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def some(self, most, least=1):
        return self.random.sample(NAMES, self.random.randint(least, most))

    def leaf(self):
        r = self.random
        return r.choice([
            lambda: {"type": "integer", "minimum": r.randint(-5, 5), "maximum": r.randint(3, 30)},
            lambda: {"type": "string", "pattern": r.choice(["^a", "b$", "^[a-c]+$", "^[0-9]{1,3}$", "a.b"]), "maxLength": r.randint(2, 8)},
            lambda: {"enum": r.sample([1, 2, "a", "b", None, True, [1], {"a": 1}, "ab", 2.5], r.randint(1, 5))},
            lambda: {"const": r.choice([1, "a", None, False, "ab"])},
            lambda: {"type": r.choice(["boolean", "null", "string", "integer", "number", ["string", "null"], ["integer", "boolean"]])},
            lambda: {"type": "number", "multipleOf": r.choice([1, 2, 3, 0.5]), "minimum": 0, "maximum": 20},
            lambda: {"not": r.choice([{"type": "string"}, {"const": "a"}, {"type": "object"}, {"enum": [1, "a"]}, {"minimum": 3}])},
            lambda: True,
            lambda: {"$ref": "#/$defs/" + r.choice("pqr")},
            lambda: {"$dynamicRef": "#node"},
            lambda: {"type": ["string", "integer"], "minLength": r.randint(0, 2), "minimum": r.randint(0, 3)},
        ])()

    def any(self, depth):
        kind = self.random.random()
        if depth <= 0 or kind > 0.9:
            return self.leaf()
        s = {}
        if kind < 0.7:
            if self.random.random() < 0.8:
                s["type"] = "object"
            for _ in range(self.random.randint(1, 5)):
                self.of_objects(s, self.random.choice(OF_OBJECTS), depth - 1)
        else:
            s["type"] = "array"
            for _ in range(self.random.randint(1, 4)):
                self.of_lists(s, self.random.choice(OF_LISTS), depth - 1)
        return s

    def of_objects(self, s, keyword, depth):
        r = self.random
        if keyword in IN_PLACE:
            s[keyword] = [self.any(depth) for _ in range(r.randint(2, 4))]
        elif keyword == "properties":
            s[keyword] = {n: self.any(depth) for n in self.some(4)}
        elif keyword == "required":
            s[keyword] = self.some(2)
        elif keyword in ("additionalProperties", "unevaluatedProperties"):
            s[keyword] = r.choice([False, False, self.any(depth)])
        elif keyword == "patternProperties":
            s[keyword] = {p: self.any(depth) for p in r.sample(["^a", "b", "^x", "o$", "^[a-f]+$", "1"], r.randint(1, 3))}
        elif keyword == "propertyNames":
            s[keyword] = r.choice([{"pattern": "^[a-z]+$"}, {"maxLength": 3}, {"enum": NAMES[:4]}, {"not": {"const": "b"}}, {"minLength": 2}])
        elif keyword == "counts":
            s.update(r.choice([{"minProperties": r.randint(0, 2)}, {"maxProperties": r.randint(2, 4)}, {"minProperties": 1, "maxProperties": 3}]))
        elif keyword == "dependentRequired":
            s[keyword] = {n: self.some(1) for n in self.some(2)}
        elif keyword == "dependentSchemas":
            s[keyword] = {n: self.any(depth) for n in self.some(2)}
        elif keyword == "not":
            name = r.choice(NAMES)
            s[keyword] = r.choice([{"required": [name]}, {"properties": {name: self.leaf()}, "required": [name]}, self.leaf(), self.any(depth)])
        elif keyword == "if":
            name = r.choice(NAMES)
            s[keyword] = r.choice([{"required": [name]}, {"properties": {name: self.leaf()}}, self.any(depth)])
            for branch in ("then", "else"):
                if r.random() < 0.7:
                    s[branch] = self.any(depth)
        else:
            s[keyword] = "#/$defs/" + r.choice("pqr")

    def of_lists(self, s, keyword, depth):
        r = self.random
        if keyword in IN_PLACE:
            s[keyword] = [self.any(depth) for _ in range(2)]
        elif keyword == "items":
            s[keyword] = self.any(depth)
        elif keyword == "prefixItems":
            s[keyword] = [self.any(depth) for _ in range(r.randint(1, 3))]
        elif keyword == "contains":
            s.update({keyword: self.leaf(), **r.choice([{}, {"minContains": r.randint(0, 2)}, {"maxContains": r.randint(1, 3)}])})
        elif keyword == "counts":
            s.update({"minItems": r.randint(0, 2), "maxItems": r.randint(2, 5)})
        elif keyword == "uniqueItems":
            s[keyword] = True
        else:
            s[keyword] = r.choice([False, self.any(depth)])


def schema(seed):
    m = Maker(seed)
    s = m.any(m.random.choice([2, 2, 3]))
    if not isinstance(s, dict):
        s = {"allOf": [s]}
    # Definitions refer to nothing, so that no way leads back without reading a value, where validators never end.
    plain = {k: json.loads(json.dumps(m.any(1)).replace('"$ref"', '"title"').replace('"$dynamicRef"', '"title"')) for k in "pqr"}
    node = {"$dynamicAnchor": "node", "type": "object", "properties": {"next": {"$dynamicRef": "#node"}, "v": {"type": "integer", "maximum": 9}},
            "unevaluatedProperties": False}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **s, "$defs": {**plain, "n": node}}


for seed in range(int(sys.argv[1])):
    print(json.dumps(schema(seed)))
