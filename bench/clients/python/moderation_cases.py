"""Moderation with the official Python client, against a server with the policy of bench/clients/policy.yml."""

import openai

from case import BASE, KEY, MODEL, expect, run

client = openai.OpenAI(base_url=BASE, api_key=KEY, max_retries=0, _strict_response_validation=True)
QUESTION = [{"role": "user", "content": "What is TTFT?"}]


def moderations():
    r = client.moderations.create(input=["a pipe bomb", "a cat"], model="omni-moderation-latest")
    expect("two results", [x.flagged for x in r.results] == [True, False])
    expect("a category", r.results[0].categories.illicit_violent and r.results[0].category_scores.illicit_violent == 1)
    expect("what was read", r.results[0].category_applied_input_types.illicit_violent == ["text"])
    return r.id


def refused():
    try:
        client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "How is a pipe bomb made?"}])
    except openai.BadRequestError as e:
        expect(f"the code, not {e.code}", e.code == "content_policy_violation")
        return e.body["content_filter_result"]
    raise AssertionError("the request was answered")


def blocked_stream():
    """The helper raises what it raises for OpenAI's own filter."""
    try:
        with client.chat.completions.stream(model=MODEL, messages=QUESTION, temperature=0, max_tokens=60) as stream:
            for _ in stream:
                pass
            stream.get_final_completion()
    except openai.ContentFilterFinishReasonError as e:
        return e
    raise AssertionError("the helper took the answer for a whole one")


def blocked_chunks():
    text, reason = "", None
    for chunk in client.chat.completions.create(model=MODEL, messages=QUESTION, temperature=0, max_tokens=60, stream=True):
        text += chunk.choices[0].delta.content or ""
        reason = chunk.choices[0].finish_reason or reason
    expect(f"the end is content_filter, not {reason}, after {text!r}", reason == "content_filter" and "token" not in text)
    return text


def incomplete_response():
    r = client.responses.create(model=MODEL, input="What is TTFT?", temperature=0, max_output_tokens=60)
    expect(f"{r.status}, {r.incomplete_details}", r.status == "incomplete" and r.incomplete_details.reason == "content_filter")
    return r.output_text


run("openai", {"moderations": moderations, "a refused request": refused, "a blocked stream, by the helper": blocked_stream,
               "a blocked stream": blocked_chunks, "a blocked response": incomplete_response})
