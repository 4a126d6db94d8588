"""Files and batches by the official Python client, against a server with a store."""

import io
import json
import time

import openai

from case import BASE, KEY, MODEL, expect, run

client = openai.OpenAI(base_url=BASE, api_key=KEY, max_retries=0)


def upload(*questions, **fields):
    lines = [{"custom_id": f"line-{i}", "method": "POST", "url": "/v1/chat/completions", "body": {
        "model": MODEL, "messages": [{"role": "user", "content": q}], "temperature": 0, "max_tokens": 12, **fields}} for i, q in enumerate(questions)]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    return client.files.create(file=("in.jsonl", io.BytesIO(text.encode())), purpose="batch")


def create(file):
    return client.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h", metadata={"case": "client"})


def wait(batch):
    for _ in range(3000):
        batch = client.batches.retrieve(batch.id)
        if batch.status in ("completed", "failed", "expired", "cancelled"):
            return batch
        time.sleep(0.02)
    raise AssertionError(f"the batch is still {batch.status}")


def files():
    f = client.files.create(file=("notes.txt", b"some notes"), purpose="user_data", expires_after={"anchor": "created_at", "seconds": 3600})
    expect("an end of life", f.expires_at == f.created_at + 3600 and f.bytes == 10 and f.filename == "notes.txt")
    expect("it is listed", f.id in [g.id for g in client.files.list(purpose="user_data")])
    expect("it is the same", client.files.retrieve(f.id) == f)
    expect("its bytes", client.files.content(f.id).read() == b"some notes")
    expect("it is deleted", client.files.delete(f.id).deleted)
    try:
        client.files.retrieve(f.id)
    except openai.NotFoundError as e:
        return e.code
    raise AssertionError("a deleted file is there")


def batch():
    b = wait(create(upload("Hello", "Who are you?", "Hello")))
    expect(f"completed, not {b}", b.status == "completed" and b.request_counts.completed == 3 and b.error_file_id is None)
    expect("usage", b.usage.total_tokens == b.usage.input_tokens + b.usage.output_tokens > 0)
    expect("metadata", b.metadata == {"case": "client"})
    answers = {}
    for line in client.files.content(b.output_file_id).text.splitlines():
        line = json.loads(line)
        answers[line["custom_id"]] = line["response"]["body"]["choices"][0]["message"]["content"]
    expect("each line once", sorted(answers) == ["line-0", "line-1", "line-2"])
    expect("the same answers to the same questions", answers["line-0"] == answers["line-2"])
    direct = client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "Hello"}], temperature=0, max_tokens=12)
    expect("the same answer as without a batch", answers["line-0"] == direct.choices[0].message.content)
    expect("it is listed", b.id in [c.id for c in client.batches.list(limit=5)])
    return answers["line-0"]


def errors():
    b = wait(create(upload("Hello", temperature=99)))
    expect(f"no output, not {b}", b.status == "completed" and b.request_counts.failed == 1 and b.output_file_id is None)
    line = json.loads(client.files.content(b.error_file_id).text)
    expect("the line's error", line["response"]["status_code"] == 400 and line["response"]["body"]["error"]["param"] == "temperature")
    return line["response"]["body"]["error"]["message"]


def invalid():
    f = client.files.create(file=("bad.jsonl", b'{"custom_id": "a"}\nnot json\n'), purpose="batch")
    b = wait(create(f))
    expect(f"failed, not {b}", b.status == "failed" and [(e.code, e.line) for e in b.errors.data] == [("invalid_method", 1), ("invalid_json_line", 2)])
    return b.errors.data[1].message


def cancel():
    b = create(upload(*["Hello"] * 3000, max_completion_tokens=200))
    b = client.batches.cancel(b.id)
    expect(f"cancelling, not {b.status}", b.status in ("cancelling", "cancelled", "finalizing"))
    b = wait(b)
    expect(f"cancelled, not {b}", b.status == "cancelled" and b.cancelled_at and b.request_counts.completed < 3000)
    return f"{b.request_counts.completed} lines were done"


run("openai", {"files": files, "batch": batch, "lines that fail": errors, "an invalid file": invalid, "cancel": cancel})
