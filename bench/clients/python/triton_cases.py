"""tritonclient over HTTP and gRPC, on the server's first classical model.

Usage: triton_cases.py BASE_URL [GRPC_HOST:PORT]; without the latter, gRPC is left out.
"""

import sys

import numpy as np
import requests
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException

from case import expect, run

URL = sys.argv[1]
HOST = URL.split("://")[1]
GRPC = sys.argv[2] if len(sys.argv) > 2 else None
ROWS = np.array([[5.1, 3.5, 1.4, 0.2], [6.7, 3.0, 5.2, 2.3]], dtype=np.float32)

http = triton_http.InferenceServerClient(HOST)
INDEX = http.get_model_repository_index()
NAME = INDEX[0]["name"]
ABOUT = http.get_model_metadata(NAME)
INPUT, OUTPUT = ABOUT["inputs"][0]["name"], ABOUT["outputs"][0]["name"]
# What is right, by the plainest way there is.
WANT = np.array(requests.post(f"{URL}/v1/models/{NAME}:predict", json={"instances": ROWS.tolist()}).json()["predictions"], dtype=np.float32)


def same(got):
    expect(f"{got!r} is {WANT!r}", np.array_equal(np.asarray(got, dtype=np.float32).reshape(WANT.shape), WANT))
    return np.asarray(got).shape


def triton_input(module, binary=None):
    i = module.InferInput(INPUT, list(ROWS.shape), "FP32")
    if binary is None:
        i.set_data_from_numpy(ROWS)
    else:
        i.set_data_from_numpy(ROWS, binary_data=binary)
    return [i]


def http_health():
    expect("live", http.is_server_live())
    expect("ready", http.is_server_ready() and http.is_model_ready(NAME))
    expect("no other model", not http.is_model_ready("none"))
    expect("metadata", http.get_server_metadata()["name"] == "weir" and http.get_model_config(NAME)["name"] == NAME)
    return http.get_server_metadata()["extensions"]


def http_infer():
    shapes = []
    for binary in True, False:
        shapes.append(same(http.infer(NAME, triton_input(triton_http, binary)).as_numpy(OUTPUT)))
        for out in True, False:
            r = http.infer(NAME, triton_input(triton_http, binary), outputs=[triton_http.InferRequestedOutput(OUTPUT, binary_data=out)],
                           request_id="7", priority=1, timeout=5_000_000)
            shapes.append(same(r.as_numpy(OUTPUT)))
            expect("the id comes back", r.get_response()["id"] == "7")
    return shapes


def http_compressed():
    for coding in "gzip", "deflate":
        same(http.infer(NAME, triton_input(triton_http), request_compression_algorithm=coding, response_compression_algorithm=coding).as_numpy(OUTPUT))
    return "gzip, deflate"


def http_raw_body():
    r = requests.post(f"{URL}/v2/models/{NAME}/infer", data=ROWS.tobytes(),
                      headers={"Inference-Header-Content-Length": "0", "Content-Type": "application/octet-stream"})
    n = int(r.headers["Inference-Header-Content-Length"])
    return same(np.frombuffer(r.content[n:], dtype=np.float32))


def http_classes():
    r = http.infer(NAME, triton_input(triton_http), outputs=[triton_http.InferRequestedOutput(OUTPUT, class_count=2)]).as_numpy(OUTPUT)
    return [x.decode() for x in r.ravel()]


def http_refusals():
    for model, rows in (("none", ROWS), (NAME, ROWS[:, :2].copy())):
        i = triton_http.InferInput(INPUT, list(rows.shape), "FP32")
        i.set_data_from_numpy(rows)
        try:
            http.infer(model, [i])
        except InferenceServerException as e:
            text = e.message()
            expect("a status and a text", e.status() in ("400", "404") and len(text) > 10)
        else:
            raise AssertionError("no refusal")
    return text


def http_statistics():
    s = http.get_inference_statistics(NAME)["model_stats"][0]
    expect("requests are counted", s["inference_stats"]["success"]["count"] > 0 and s["inference_count"] >= s["inference_stats"]["success"]["count"])
    expect("batches are counted by size", s["batch_stats"] and all(b["batch_size"] > 0 and b["compute_infer"]["count"] > 0 for b in s["batch_stats"]))
    return s["inference_count"]


def http_repository():
    http.unload_model(NAME)
    expect("it is gone", not http.is_model_ready(NAME))
    http.load_model(NAME)
    expect("it is back", http.is_model_ready(NAME))
    return same(http.infer(NAME, triton_input(triton_http)).as_numpy(OUTPUT))


def grpc_all():
    c = triton_grpc.InferenceServerClient(GRPC)
    expect("health", c.is_server_live() and c.is_server_ready() and c.is_model_ready(NAME))
    expect("metadata", c.get_model_metadata(NAME).inputs[0].name == INPUT and c.get_model_config(NAME).config.name == NAME)
    expect("index", NAME in [m.name for m in c.get_model_repository_index().models])
    r = c.infer(NAME, triton_input(triton_grpc), request_id="7", priority=1, timeout=5_000_000, compression_algorithm="gzip")
    same(r.as_numpy(OUTPUT))
    expect("the id comes back", r.get_response().id == "7")
    expect("classes", b":" in c.infer(NAME, triton_input(triton_grpc), outputs=[triton_grpc.InferRequestedOutput(OUTPUT, class_count=2)]).as_numpy(OUTPUT).ravel()[0])
    statistics = c.get_inference_statistics(NAME).model_stats[0]
    expect("statistics", statistics.inference_stats.success.count > 0 and statistics.batch_stats[0].compute_infer.count > 0)
    try:
        c.infer("none", triton_input(triton_grpc))
    except InferenceServerException as e:
        expect("NOT_FOUND", "NOT_FOUND" in str(e.status()))
    answers = []
    c.start_stream(lambda result, error: answers.append(error or result))
    for _ in range(3):
        c.async_stream_infer(NAME, triton_input(triton_grpc))
    c.stop_stream()
    for a in answers:
        same(a.as_numpy(OUTPUT))
    expect("three answers", len(answers) == 3)
    c.unload_model(NAME)
    c.load_model(NAME)
    return c.get_server_metadata().version


cases = {f.__name__: f for f in (http_health, http_infer, http_compressed, http_raw_body, http_classes, http_refusals, http_statistics,
                                 http_repository)}
if GRPC:
    cases |= {"grpc_all": grpc_all}
run("tritonclient", cases)
