"""Times trees' own libraries and ONNX Runtime through their C APIs beside `weir bench gbdt`, on the same model and rows.

    python peers.py MODEL... [--weir ./weir] [--rows 1024] [--rounds 5] [--json FILE]

needs numpy, onnxruntime, onnxmltools and, by the models' formats, xgboost (*.json, *.ubj) or lightgbm (*.txt). Everything runs on
one thread, by turns, on rows that follow one another, so that no call repeats the last one's row. What a call of a C function
costs from here (an empty one, measured the same way) is subtracted from the peers' times; their inputs and outputs are made before
the clock starts.
"""

import argparse
import ctypes
import glob
import json
import os
import subprocess
import tempfile
import time
from statistics import median

import numpy as np

BATCHES = (1, 8, 64, 1024)


def ordered(values):
    return f"{median(values):.0f} ({min(values):.0f}-{max(values):.0f})"


class XGBoost:
    """XGBoosterPredictFromDense on arrays in place."""

    name = "xgboost"

    def __init__(self, path, rows):
        import xgboost
        from xgboost.core import _LIB

        self.version = xgboost.__version__
        self.booster = xgboost.Booster(model_file=path)
        self.booster.set_param({"nthread": 1})
        self.lib, self.rows = _LIB, rows
        self.config = json.dumps({"type": 1, "training": False, "iteration_begin": 0, "iteration_end": 0, "missing": float("nan"),
                                  "strict_shape": False, "cache_id": 0}).encode()
        self.shape, self.dim, self.result = ctypes.POINTER(ctypes.c_uint64)(), ctypes.c_uint64(), ctypes.POINTER(ctypes.c_float)()

    def calls(self, batch):
        arguments = []
        for at in range(0, len(self.rows), batch):
            part = self.rows[at:at + batch]
            interface = {"data": (part.ctypes.data, True), "shape": part.shape, "typestr": "<f4", "version": 3}
            arguments.append((self.booster.handle, ctypes.c_char_p(json.dumps(interface).encode()), ctypes.c_char_p(self.config), None,
                              ctypes.byref(self.shape), ctypes.byref(self.dim), ctypes.byref(self.result)))
        return self.lib.XGBoosterPredictFromDense, arguments

    def empty(self):
        v = ctypes.c_int()
        return self.lib.XGBoostVersion, [(ctypes.byref(v), ctypes.byref(v), ctypes.byref(v))]

    def margins(self):
        call, arguments = self.calls(len(self.rows))
        assert call(*arguments[0]) == 0
        return np.ctypeslib.as_array(self.result, (len(self.rows),)).copy()


class LightGBM:
    """LGBM_BoosterPredictForMatSingleRowFast, and LGBM_BoosterPredictForMat for more rows."""

    name = "lightgbm"
    PARAMETERS = b"num_threads=1 predict_disable_shape_check=true"

    def __init__(self, path, rows):
        import lightgbm
        from lightgbm.basic import _LIB

        self.version = lightgbm.__version__
        self.booster = lightgbm.Booster(model_file=path)
        self.lib, self.rows = _LIB, rows.astype(np.float64)
        self.out, self.length = np.zeros(len(rows)), ctypes.c_int64()
        self.fast = ctypes.c_void_p()
        check = self.lib.LGBM_BoosterPredictForMatSingleRowFastInit(
            self.booster._handle, 1, 0, -1, 1, ctypes.c_int32(rows.shape[1]), ctypes.c_char_p(self.PARAMETERS), ctypes.byref(self.fast))
        assert check == 0

    def calls(self, batch):
        out, length = ctypes.c_void_p(self.out.ctypes.data), ctypes.byref(self.length)
        starts = range(0, len(self.rows), batch)
        at = [ctypes.c_void_p(self.rows[s:].ctypes.data) for s in starts]
        if batch == 1:
            return self.lib.LGBM_BoosterPredictForMatSingleRowFast, [(self.fast, a, length, out) for a in at]
        return self.lib.LGBM_BoosterPredictForMat, [
            (self.booster._handle, a, ctypes.c_int(1), ctypes.c_int32(batch), ctypes.c_int32(self.rows.shape[1]), ctypes.c_int(1),
             ctypes.c_int(1), ctypes.c_int(0), ctypes.c_int(-1), ctypes.c_char_p(self.PARAMETERS), length, out) for a in at]

    def empty(self):
        return self.lib.LGBM_GetLastError, [()]

    def margins(self):
        call, arguments = self.calls(len(self.rows))
        assert call(*arguments[0]) == 0
        return self.out.copy()


class ONNXRuntime:
    """OrtApi.Run with tensors that exist before; the numbers are places in that table of functions, which only grows."""

    name = "onnxruntime"
    CREATE_ENV, CREATE_SESSION, RUN, CREATE_OPTIONS, INTRA, INTER, TENSOR, MEMORY = 3, 7, 9, 10, 24, 25, 49, 68

    def __init__(self, path, rows):
        import onnxruntime

        self.version = onnxruntime.__version__
        lib = ctypes.CDLL(glob.glob(os.path.join(os.path.dirname(onnxruntime.__file__), "capi", "libonnxruntime.so*"))[0])
        lib.OrtGetApiBase.restype = ctypes.POINTER(ctypes.c_void_p)
        get = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)(lib.OrtGetApiBase()[0])
        self.lib, self.table, self.rows = lib, ctypes.cast(get(20), ctypes.POINTER(ctypes.c_void_p)), rows
        self.names = [v.name for s in [onnxruntime.InferenceSession(path)] for v in (s.get_inputs()[0], s.get_outputs()[0])]
        pointer = ctypes.c_void_p
        environment, options, memory, self.session = pointer(), pointer(), pointer(), pointer()
        self.do(self.CREATE_ENV, ctypes.c_int(3), ctypes.c_char_p(b"peers"), ctypes.byref(environment))
        self.do(self.CREATE_OPTIONS, ctypes.byref(options))
        self.do(self.INTRA, options, ctypes.c_int(1))
        self.do(self.INTER, options, ctypes.c_int(1))
        self.do(self.CREATE_SESSION, environment, ctypes.c_char_p(path.encode()), options, ctypes.byref(self.session))
        self.do(self.MEMORY, ctypes.c_char_p(b"Cpu"), ctypes.c_int(1), ctypes.c_int(0), ctypes.c_int(0), ctypes.byref(memory))
        self.memory = memory
        self.out = np.zeros((len(rows), 1), np.float32)

    def function(self, place):
        return ctypes.CFUNCTYPE(ctypes.c_void_p)(self.table[place])

    def do(self, place, *arguments):
        f = self.function(place)
        f.argtypes = [type(a) if not hasattr(a, "_obj") else ctypes.c_void_p for a in arguments]
        assert f(*arguments) is None, f"ONNX Runtime's function {place} failed"

    def tensor(self, array):
        shape, value = (ctypes.c_int64 * 2)(*array.shape), ctypes.c_void_p()
        self.do(self.TENSOR, self.memory, ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes),
                ctypes.cast(shape, ctypes.c_void_p), ctypes.c_size_t(2), ctypes.c_int(1), ctypes.byref(value))
        return value

    def calls(self, batch):
        pointer = ctypes.c_void_p
        inputs, outputs = ((ctypes.c_char_p * 1)(n.encode()) for n in self.names)
        run = ctypes.CFUNCTYPE(pointer, pointer, pointer, pointer, pointer, ctypes.c_size_t, pointer, ctypes.c_size_t, pointer)(
            self.table[self.RUN])
        self.kept, arguments = [inputs, outputs], []
        for at in range(0, len(self.rows), batch):
            given = (pointer * 1)(self.tensor(self.rows[at:at + batch]).value)
            taken = (pointer * 1)(self.tensor(self.out[at:at + batch]).value)
            self.kept += [given, taken]
            arguments.append((self.session, None, ctypes.cast(inputs, pointer), ctypes.cast(given, pointer), 1,
                              ctypes.cast(outputs, pointer), 1, ctypes.cast(taken, pointer)))
        return run, arguments

    def empty(self):
        return self.lib.OrtGetApiBase, [()]

    def margins(self):
        call, arguments = self.calls(len(self.rows))
        assert call(*arguments[0]) is None
        return self.out[:, 0].copy()


def per_call(call, arguments, least):
    """Nanoseconds per call over at least that many seconds."""
    done, begun = 0, time.perf_counter_ns()
    while time.perf_counter_ns() - begun < least * 1e9:
        for a in arguments:
            call(*a)
        done += len(arguments)
    return (time.perf_counter_ns() - begun) / done


def measure(peer, least=0.15):
    """Nanoseconds per row by batch."""
    call, arguments = peer.empty()
    nothing = per_call(call, arguments * 1000, 0.02)
    found = {}
    for batch in BATCHES:
        call, arguments = peer.calls(batch)
        per_call(call, arguments, 0.02)
        found[batch] = (per_call(call, arguments, least) - nothing) / batch
    return found


def convert(path, features, folder):
    """An ONNX file of the model."""
    from onnxmltools.convert.common.data_types import FloatTensorType

    kind = [("input", FloatTensorType([None, features]))]
    if path.endswith(".txt"):
        import lightgbm
        from onnxmltools import convert_lightgbm

        model = convert_lightgbm(lightgbm.Booster(model_file=path), initial_types=kind, zipmap=False)
    else:
        import xgboost
        from onnxmltools import convert_xgboost

        model = convert_xgboost(xgboost.Booster(model_file=path), initial_types=kind)
    out = os.path.join(folder, os.path.basename(path) + ".onnx")
    with open(out, "wb") as f:
        f.write(model.SerializeToString())
    return out


def weir(binary, path, rows):
    """Nanoseconds per row by batch, and the kernel's names."""
    result = json.loads(subprocess.run([binary, "bench", "gbdt", path, "--rows", rows, "-o", "json", "--no-limits"], check=True,
                                       capture_output=True).stdout)
    return {int(r["name"].removeprefix("batch")): r["value"] for r in result["rows"] if r["unit"] == "ns/row"}, result["kernel"]


def compare(path, o, folder):
    features = o.features
    rows = np.random.default_rng(1).normal(size=(o.rows, features)).astype(np.float32)
    data = os.path.join(folder, "rows.f32")
    rows.tofile(data)
    peers = [(LightGBM if path.endswith(".txt") else XGBoost)(path, rows), ONNXRuntime(convert(path, features, folder), rows)]
    margins = [p.margins() for p in peers]
    print(f"\n{path}: largest difference of the peers' own margins {np.abs(margins[0] - margins[1]).max():.2g}")
    times = {p.name: {b: [] for b in BATCHES} for p in peers} | {"weir": {b: [] for b in BATCHES}}
    kernel = ""
    for _ in range(o.rounds):
        for p in peers:
            for b, t in measure(p).items():
                times[p.name][b].append(t)
        if o.weir:
            found, kernel = weir(o.weir, path, data)
            for b in BATCHES:
                times["weir"][b].append(found[b])
    report(path, peers, times, kernel, o)
    return times


def report(path, peers, times, kernel, o):
    print(f"{os.path.basename(path)}, {o.rounds} rounds, ns per row: median (least-most); weir by {kernel}")
    print("| batch | " + " | ".join(f"{p.name} {p.version}" for p in peers) + " | weir | better peer / weir |")
    print("|---" * (len(peers) + 3) + "|")
    for b in BATCHES:
        cells = [ordered(times[p.name][b]) for p in peers]
        ratio = "-"
        if o.weir:
            cells.append(ordered(times["weir"][b]))
            by_round = [min(times[p.name][b][i] for p in peers) / times["weir"][b][i] for i in range(o.rounds)]
            ratio = f"{median(by_round):.1f} ({min(by_round):.1f}-{max(by_round):.1f})"
        print(f"| {b} | " + " | ".join(cells) + f" | {ratio} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--weir", default="")
    parser.add_argument("--features", type=int, default=28)
    parser.add_argument("--rows", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", default="")
    o = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = {path: compare(path, o, folder) for path in o.models}
    if o.json:
        with open(o.json, "w") as f:
            json.dump(found, f, indent=1)


if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "1"
    main()
