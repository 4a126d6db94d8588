"""KServe's REST and gRPC clients, on the server's first classical model.

Usage: kserve_cases.py BASE_URL [GRPC_HOST:PORT]; without the latter, gRPC is left out. The client and tritonclient cannot share a process:
each registers its own messages of one name.
"""

import asyncio
import sys
import uuid

import kserve
import numpy as np
import requests

from case import expect, run

URL = sys.argv[1]
GRPC = sys.argv[2] if len(sys.argv) > 2 else None
ROWS = np.array([[5.1, 3.5, 1.4, 0.2], [6.7, 3.0, 5.2, 2.3]], dtype=np.float32)
NAME = requests.get(f"{URL}/v2/models").json()["models"][0]
INPUT = requests.get(f"{URL}/v2/models/{NAME}").json()["inputs"][0]["name"]
# What is right, by the plainest way there is.
WANT = np.array(requests.post(f"{URL}/v1/models/{NAME}:predict", json={"instances": ROWS.tolist()}).json()["predictions"], dtype=np.float32)


def same(got):
    expect(f"{got!r} is {WANT!r}", np.array_equal(np.asarray(got, dtype=np.float32).reshape(WANT.shape), WANT))
    return np.asarray(got).shape


def kserve_rest():
    async def all_of_it():
        shapes = []
        for protocol in "v1", "v2":
            c = kserve.InferenceRESTClient(kserve.RESTConfig(protocol=protocol, timeout=10))
            expect("live", await c.is_server_live(URL))
            expect(f"the model is ready ({protocol})", await c.is_model_ready(URL, NAME))
            if protocol == "v2":
                expect("ready", await c.is_server_ready(URL))
        i = kserve.InferInput(INPUT, list(ROWS.shape), "FP32")
        for binary in False, True:
            i.set_data_from_numpy(ROWS, binary_data=binary)
            q = kserve.InferRequest(model_name=NAME, infer_inputs=[i], request_id=str(uuid.uuid4()))
            r = await c.infer(URL, q, model_name=NAME)
            shapes.append(same(r.outputs[0].as_numpy()))
            expect("the id comes back", r.id == q.id)
        c = kserve.InferenceRESTClient(kserve.RESTConfig(protocol="v1", timeout=10))
        r = await c.infer(URL, {"instances": ROWS.tolist()}, model_name=NAME)
        shapes.append(same(r["predictions"]))
        return shapes
    return asyncio.run(all_of_it())


def kserve_grpc():
    async def all_of_it():
        c = kserve.InferenceGRPCClient(GRPC, timeout=10)
        expect("health", await c.is_server_live() and await c.is_server_ready() and await c.is_model_ready(NAME))
        shapes = []
        for binary in False, True:
            i = kserve.InferInput(INPUT, list(ROWS.shape), "FP32")
            i.set_data_from_numpy(ROWS, binary_data=binary)
            r = await c.infer(kserve.InferRequest(model_name=NAME, infer_inputs=[i]))
            shapes.append(same(r.outputs[0].as_numpy()))
        await c.close()
        return shapes
    return asyncio.run(all_of_it())


cases = {"kserve_rest": kserve_rest}
if GRPC:
    cases |= {"kserve_grpc": kserve_grpc}
run("kserve", cases)
