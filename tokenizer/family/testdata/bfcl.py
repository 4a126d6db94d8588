# Writes bfcl.json: tools and expected calls of the Berkeley Function-Calling Leaderboard, from the package bfcl-eval 2026.3.23
# (Apache-2.0), whose folder bfcl_eval is the argument. The first accepted value of each argument is taken.
import json, pathlib, sys

root = pathlib.Path(sys.argv[1]) / "data"
TYPES = {"dict": "object", "float": "number", "tuple": "array", "any": None}


def schema(s):
    out = {}
    for k, v in s.items():
        if k == "type":
            v = TYPES.get(v, v)
            if v is None:
                continue
        elif k == "properties":
            v = {n: schema(p) for n, p in v.items()}
        elif k == "items":
            v = schema(v)
        elif k in ("description", "default", "optional", "format"):
            continue
        out[k] = v
    return out


def first(v):
    """The first accepted value, without the lists of accepted values inside objects."""
    if isinstance(v, dict):
        return {k: first(x[0]) for k, x in v.items() if x and x[0] != ""}
    if isinstance(v, list):
        return [first(x) for x in v]
    return v


cases = []
for name, take in [("simple_python", 14), ("multiple", 10), ("parallel", 12), ("parallel_multiple", 12)]:
    questions = [json.loads(l) for l in open(root / f"BFCL_v4_{name}.json")]
    answers = {a["id"]: a["ground_truth"] for a in map(json.loads, open(root / f"possible_answer/BFCL_v4_{name}.json"))}
    for q in questions[:: max(1, len(questions) // take)][:take]:
        calls = []
        for call in answers[q["id"]]:
            (f, args), = call.items()
            calls.append({"name": f, "arguments": {k: first(v[0]) for k, v in args.items() if v and v[0] != ""}})
        tools = [{"name": f["name"], "parameters": schema(f["parameters"])} for f in q["function"]]
        cases.append({"id": q["id"], "tools": tools, "calls": calls})
with open(pathlib.Path(__file__).parent / "bfcl.json", "w") as out:
    out.write("[\n" + ",\n".join(json.dumps(c, ensure_ascii=False) for c in cases) + "\n]\n")
