#!/usr/bin/env python3
"""Anthropic's, Google's and Amazon's APIs behind a router: what is sent there is what their own SDKs send, and OpenAI's and Anthropic's clients
understand what comes back.

    providers.py --weir ./weir

needs the packages openai, anthropic, google-genai and boto3. A server in this process stands for all three providers; it gives the answers of
router/provider/testdata, which are recorded. The status is 1 if a case fails.
"""
import argparse, http.server, json, os, subprocess, sys, tempfile, threading

import anthropic
import boto3
import botocore.auth
import openai
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from google import genai
from google.genai import types

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "remote"))
from engines import expect, start_weir  # noqa: E402

os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="weir-state-")  # weir serve makes its store there, not in the tester's home

DATA = os.path.join(HERE, "..", "..", "..", "router", "provider", "testdata")
KEY, SECRET = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
RIVER = {"type": "object", "properties": {"river": {"type": "string"}}, "required": ["river"], "additionalProperties": False}

# What the SDKs and the router are asked for: a picture, two calls at once, their results, a tool that must be called.
CHAT = {
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "How warm is it in Rome and in Oslo?"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64," + PICTURE}}]},
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Rome"}'}},
            {"id": "call_2", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}]},
        {"role": "tool", "tool_call_id": "call_1", "content": "25"},
        {"role": "tool", "tool_call_id": "call_2", "content": "-3"},
    ],
    "tools": [{"type": "function", "function": {"name": "weather", "description": "The weather", "parameters": CITY}}],
    "tool_choice": "required", "max_tokens": 300, "temperature": 0.5, "top_p": 0.9, "stop": ["END"],
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "river", "schema": RIVER}}


def recorded(name):
    with open(os.path.join(DATA, name), "rb") as f:
        return f.read()


class Provider(http.server.BaseHTTPRequestHandler):
    """Notes requests and gives recorded answers."""

    asked, fail = [], None

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        Provider.asked.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
        kind = "bedrock" if "/converse" in self.path else "gemini" if "enerateContent" in self.path else "anthropic"
        streams = "tream" in self.path or kind == "anthropic" and json.loads(body).get("stream")
        if Provider.fail:
            status, headers, text = Provider.fail
            return self.answer(status, "application/json", text.encode(), headers)
        if streams:
            media = "application/vnd.amazon.eventstream" if kind == "bedrock" else "text/event-stream"
            name = {"anthropic": "anthropic/json-other-tool.sse", "gemini": "gemini/tool-call.sse", "bedrock": "bedrock/call.eventstream"}[kind]
            return self.answer(200, media, recorded(name))
        self.answer(200, "application/json", recorded({"anthropic": "anthropic/text.json", "gemini": "gemini/text.json", "bedrock": "bedrock/text.json"}[kind]))

    def answer(self, status, media, body, headers=()):
        self.send_response(status)
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.send_header("Content-Type", media)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def last():
    path, headers, body = Provider.asked[-1]
    return path, headers, json.loads(body)


def sdk_anthropic(base, extra):
    c = anthropic.Anthropic(base_url=base, api_key="their-key", max_retries=0)
    c.messages.create(
        model="claude", max_tokens=300, extra_body={"temperature": 0.5, "top_p": 0.9}, stop_sequences=["END"], system="Be brief.",  # the SDK has no words for these two any more
        messages=[
            {"role": "user", "content": [{"type": "text", "text": "How warm is it in Rome and in Oslo?"}, {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PICTURE}}]},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "call_1", "name": "weather", "input": {"city": "Rome"}}, {"type": "tool_use", "id": "call_2", "name": "weather", "input": {"city": "Oslo"}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "25"}, {"type": "tool_result", "tool_use_id": "call_2", "content": "-3"}]}],
        tools=[{"name": "weather", "description": "The weather", "input_schema": CITY}], tool_choice={"type": "any"},
        **({"output_config": {"format": {"type": "json_schema", "schema": RIVER}}} if extra else {}))


def sdk_gemini(base, extra):
    import base64
    call = lambda n, city: types.Part(function_call=types.FunctionCall(id=n, name="weather", args={"city": city}))
    result = lambda n, text: types.Part(function_response=types.FunctionResponse(id=n, name="weather", response={"result": text}))
    c = genai.Client(api_key="their-key", http_options=types.HttpOptions(base_url=base, api_version="v1beta"))
    c.models.generate_content(
        model="gemini-2.5-flash",
        contents=[
            types.Content(role="user", parts=[types.Part(text="How warm is it in Rome and in Oslo?"), types.Part(inline_data=types.Blob(mime_type="image/png", data=base64.b64decode(PICTURE)))]),
            types.Content(role="model", parts=[call("call_1", "Rome"), call("call_2", "Oslo")]), types.Content(role="user", parts=[result("call_1", "25"), result("call_2", "-3")])],
        config=types.GenerateContentConfig(
            system_instruction=types.Content(parts=[types.Part(text="Be brief.")]), max_output_tokens=300, temperature=0.5, top_p=0.9, stop_sequences=["END"],
            tools=[types.Tool(function_declarations=[types.FunctionDeclaration(name="weather", description="The weather", parameters_json_schema=CITY)])],
            tool_config=types.ToolConfig(function_calling_config=types.FunctionCallingConfig(mode="ANY")), automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
            **({"response_mime_type": "application/json", "response_json_schema": RIVER} if extra else {})))


def sdk_bedrock(base, extra):
    import base64
    c = boto3.client("bedrock-runtime", region_name="us-east-1", endpoint_url=base, aws_access_key_id=KEY, aws_secret_access_key=SECRET, config=Config(retries={"total_max_attempts": 1}))
    c.converse(
        modelId="us.amazon.nova-micro-v1:0", system=[{"text": "Be brief."}],
        messages=[
            {"role": "user", "content": [{"text": "How warm is it in Rome and in Oslo?"}, {"image": {"format": "png", "source": {"bytes": base64.b64decode(PICTURE)}}}]},
            {"role": "assistant", "content": [{"toolUse": {"toolUseId": "call_1", "name": "weather", "input": {"city": "Rome"}}}, {"toolUse": {"toolUseId": "call_2", "name": "weather", "input": {"city": "Oslo"}}}]},
            {"role": "user", "content": [{"toolResult": {"toolUseId": "call_1", "content": [{"text": "25"}]}}, {"toolResult": {"toolUseId": "call_2", "content": [{"text": "-3"}]}}]}],
        toolConfig={"tools": [{"toolSpec": {"name": "weather", "description": "The weather", "inputSchema": {"json": CITY}}}], "toolChoice": {"any": {}}},
        inferenceConfig={"maxTokens": 300, "temperature": 0.5, "topP": 0.9, "stopSequences": ["END"]},
        **({"outputConfig": {"textFormat": {"type": "json_schema", "structure": {"jsonSchema": {"name": "river", "schema": json.dumps(RIVER, separators=(",", ":"))}}}}} if extra else {}))


def camel(v):
    """Google's SDK writes some fields with underscores, and base64 as URLs have it, which its API takes for the same."""
    names = {"mime_type": "mimeType", "parameters_json_schema": "parametersJsonSchema"}
    if isinstance(v, dict):
        return {names.get(k, k): x.replace("-", "+").replace("_", "/") if k == "data" else camel(x) for k, x in v.items()}
    return [camel(x) for x in v] if isinstance(v, list) else v


def same(kind, sdk, base, client):
    """The router's request and the SDK's, for the same conversation."""
    for extra in (False, True):
        sdk(base, extra)
        want_path, want_headers, want = last()
        client.chat.completions.create(model=kind, **CHAT, **({"response_format": FORMAT} if extra else {}))
        path, headers, got = last()
        canon = lambda v: json.dumps(camel(v), sort_keys=True, separators=(",", ":"))
        expect(f"{kind}: the same path, {path} and {want_path}", path == want_path)
        expect(f"{kind}: the same body,\n{canon(got)}\n{canon(want)}", canon(got) == canon(want))
        key = lambda h: h.get("x-api-key") or h.get("x-goog-api-key") or h.get("authorization", "").removeprefix("Bearer ").split(" ")[0]
        expect(f"{kind}: the same key, {key(headers)} and {key(want_headers)}", key(headers) == key(want_headers))
        for name in ("content-type", "x-goog-api-key"):
            expect(f"{kind}: the same {name}, {headers.get(name)} and {want_headers.get(name)}", headers.get(name) == want_headers.get(name))
    return "bodies, paths and keys are the SDK's"


def signed(base):
    """botocore computes the signature that the router has sent."""
    path, headers, _ = last()
    body = Provider.asked[-1][2]
    names = headers["authorization"].split("SignedHeaders=")[1].split(",")[0].split(";")
    request = AWSRequest("POST", base + path, data=body, headers={n: headers[n] for n in names if n not in ("host", "x-amz-date")})
    request.context["timestamp"] = headers["x-amz-date"]
    signer = botocore.auth.SigV4Auth(Credentials(KEY, SECRET), "bedrock", "us-east-1")
    request.headers["X-Amz-Date"] = headers["x-amz-date"]
    text = signer.string_to_sign(request, signer.canonical_request(request))
    expect("botocore's signature", headers["authorization"].endswith("Signature=" + signer.signature(text, request)))
    expect(f"the date and the host are signed: {names}", {"host", "x-amz-date"} <= set(names))
    return "botocore computes the same signature"


def clients(kind, client, claude):
    """OpenAI's and Anthropic's clients read the recorded answers."""
    want = {"claude": ("weather", {"location": "San Francisco"}, 843, 28), "gemini": ("weather", {"location": "San Francisco"}, 29, 60), "bedrock": ("get_temperature", {"city": "Paris"}, 471, 91)}[kind]
    ask = dict(model=kind, messages=[{"role": "user", "content": "Hi"}], max_tokens=100)
    name, arguments, usage, reason = "", "", None, None
    for chunk in client.chat.completions.create(**ask, stream=True, stream_options={"include_usage": True}):
        usage = chunk.usage or usage
        for choice in chunk.choices:
            reason = choice.finish_reason or reason
            for call in choice.delta.tool_calls or []:
                name, arguments = name + (call.function.name or ""), arguments + (call.function.arguments or "")
    expect(f"{kind}: a stream of a chat, {name} {arguments} {reason} {usage}", (name, json.loads(arguments), usage.prompt_tokens, usage.completion_tokens) == want and reason == "tool_calls")
    with claude.messages.stream(**ask) as stream:
        m = stream.get_final_message()
    call = next(b for b in m.content if b.type == "tool_use")
    expect(f"{kind}: a stream of Messages, {m}", (call.name, call.input, m.usage.input_tokens, m.usage.output_tokens) == want and m.stop_reason == "tool_use")
    with client.responses.stream(model=kind, input="Hi", store=False) as stream:
        r = stream.get_final_response()
    call = next(i for i in r.output if i.type == "function_call")
    expect(f"{kind}: a stream of Responses, {r}", (call.name, json.loads(call.arguments), r.usage.input_tokens, r.usage.output_tokens) == want)
    text = client.chat.completions.create(**ask).choices[0].message.content
    expect(f"{kind}: the same text by three APIs", text and text == claude.messages.create(**ask).content[0].text == client.responses.create(model=kind, input="Hi", store=False).output_text)
    return f"{want[0]}, usage {want[2]} and {want[3]} by three APIs"


def errors(client):
    for kind, fail, want in (
        ("claude", (529, {"Retry-After": "9"}, '{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}'), (503, "9")),
        ("gemini", (429, {}, recorded("gemini/429.json").decode()), (429, "35")),
        ("bedrock", (429, {"x-amzn-ErrorType": "ThrottlingException"}, '{"message":"Too many requests"}'), (429, "1")),
    ):
        Provider.fail = fail
        try:
            client.chat.completions.create(model=kind, messages=[{"role": "user", "content": "Hi"}])
            expect(f"{kind}: an error", False)
        except openai.APIStatusError as e:
            expect(f"{kind}: {e.status_code} {e.response.headers.get('retry-after')} {e}", (e.status_code, e.response.headers.get("retry-after")) == want)
        finally:
            Provider.fail = None
    try:
        client.chat.completions.create(model="gemini", messages=[{"role": "user", "content": "Hi"}], n=3)
        expect("a refusal", False)
    except openai.BadRequestError as e:
        expect(f"the field is named: {e}", e.param == "n")
    return "529, RetryInfo, exceptions and a refused field"


def fallback(client):
    raw = client.chat.completions.with_raw_response.create(model="down", messages=[{"role": "user", "content": "Hi"}])
    expect(f"the fallback is named, {raw.headers}", raw.headers.get("x-weir-fallback") == "claude" and raw.parse().choices[0].message.content)
    return "a model without replicas is answered by Anthropic's"


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--weir", required=True)
    args = p.parse_args()
    args.log = subprocess.DEVNULL
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Provider)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{server.server_port}"
    os.environ.update(AWS_ACCESS_KEY_ID=KEY, AWS_SECRET_ACCESS_KEY=SECRET, AWS_REGION="us-east-1", THEIR_KEY="their-key")
    os.environ.pop("AWS_SESSION_TOKEN", None)
    models = [
        {"name": "claude", "replicas": [{"url": base, "kind": "anthropic", "model": "claude", "api_key_env": "THEIR_KEY"}]},
        {"name": "gemini", "replicas": [{"url": base, "kind": "gemini", "model": "gemini-2.5-flash", "api_key_env": "THEIR_KEY"}]},
        {"name": "bedrock", "replicas": [{"url": base, "kind": "bedrock", "model": "us.amazon.nova-micro-v1:0"}]},
        {"name": "down", "fallback": ["claude"], "replicas": [{"url": "http://127.0.0.1:9", "kind": "vllm"}]}]
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "router.yml")
        with open(path, "w") as f:
            json.dump({"models": models}, f)
        process, port, _ = start_weir(args, "route", "--config", path, "--api-key", "client-key-of-16-bytes")
        try:
            client = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="client-key-of-16-bytes", max_retries=0, timeout=30)
            claude = anthropic.Anthropic(base_url=f"http://127.0.0.1:{port}", api_key="client-key-of-16-bytes", max_retries=0, timeout=30)
            cases = [
                ("anthropic: requests", lambda: same("claude", sdk_anthropic, base, client)), ("gemini: requests", lambda: same("gemini", sdk_gemini, base, client)),
                ("bedrock: requests", lambda: same("bedrock", sdk_bedrock, base, client)), ("bedrock: signature", lambda: signed(base))]
            cases += [(f"{kind}: clients", lambda kind=kind: clients(kind, client, claude)) for kind in ("claude", "gemini", "bedrock")]
            cases += [("fallback", lambda: fallback(client)), ("errors", lambda: errors(client))]
            for name, case in cases:
                try:
                    print(f"ok    {name}: {case()}", flush=True)
                except Exception as e:  # noqa: BLE001
                    failed += 1
                    print(f"FAIL  {name}: {type(e).__name__}: {e}", flush=True)
        finally:
            process.terminate()
            process.wait()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
