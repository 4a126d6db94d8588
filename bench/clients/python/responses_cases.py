"""POST /v1/responses by the official Python client."""

import re

import openai

from case import ASK, BASE, KEY, LONG, MODEL, expect, run

client = openai.OpenAI(base_url=BASE, api_key=KEY, max_retries=0)


def ask(**parameters):
    return client.responses.create(model=MODEL, **{"input": "Hello", "temperature": 0, "max_output_tokens": 24, **parameters})


def whole():
    r = ask()
    expect(f"status {r.status}", r.status in ("completed", "incomplete"))
    expect("usage adds up", r.usage.total_tokens == r.usage.input_tokens + r.usage.output_tokens)
    chat = client.chat.completions.create(model=MODEL, messages=ASK, temperature=0, max_tokens=24)
    expect("the answer of a chat", r.output_text == chat.choices[0].message.content)
    return r.output_text


def events():
    seen, text, last = [], "", None
    for event in ask(stream=True):
        expect(f"number {event.sequence_number}", event.sequence_number == len(seen))
        seen.append(event.type)
        if event.type == "response.output_text.delta":
            text += event.delta
        last = event
    expect(f"the order {seen}", seen[:2] == ["response.created", "response.in_progress"])
    expect(f"the end {seen[-1]}", seen[-1] in ("response.completed", "response.incomplete"))
    expect("the same text", text == last.response.output_text == ask().output_text)
    return seen


def stream_helper():
    with client.responses.stream(model=MODEL, input="Hello", temperature=0) as stream:
        text = "".join(e.delta for e in stream if e.type == "response.output_text.delta")
        final = stream.get_final_response()
    expect("the same text", text == final.output_text)
    return text


def conversation():
    first = ask()
    history = [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "Hello"}]
    history += [item.model_dump(exclude_none=True) for item in first.output]
    second = ask(instructions="Answer in English.", input=history + [{"role": "user", "content": "Thank you"}])
    expect("more input", second.usage.input_tokens > first.usage.input_tokens)
    return second.output_text


def incomplete():
    r = ask(max_output_tokens=1)
    expect(f"{r.status} {r.incomplete_details}", r.status == "incomplete" and r.incomplete_details.reason == "max_output_tokens")
    return r.status


PATCH = {"type": "custom", "name": "apply_patch", "description": "Edits files", "format": {"type": "grammar", "syntax": "lark", "definition": r"""
start: begin hunk~1..3 end
begin: "*** Begin Patch" LF
end: "*** End Patch" LF?
hunk: "*** Delete File: " NAME LF | "*** Add File: " NAME LF added~1..3
added: "+" /[a-z ]{0,12}/ LF -> line
NAME: /[a-z]{1,8}/
%import common.LF
"""}}
A_PATCH = r"\*\*\* Begin Patch\n(\*\*\* (Delete|Add) File: [a-z]{1,8}\n(\+[a-z ]{0,12}\n)*)+\*\*\* End Patch\n?"
TOOL = {"type": "function", "name": "get_time", "parameters": {"type": "object", "properties": {}, "additionalProperties": False}, "strict": True}


def patched(item):
    expect(f"a custom call, not {item!r}", item.type == "custom_tool_call" and item.name == "apply_patch" and item.call_id and item.id)
    expect(f"a text of the grammar, not {item.input!r}", re.fullmatch(A_PATCH, item.input))
    return item.input


def custom(**parameters):
    return ask(tools=[TOOL, PATCH], tool_choice={"type": "custom", "name": "apply_patch"}, max_output_tokens=200, **parameters)


def custom_tool():
    r = custom()
    expect("the tool as it was sent", r.tools[1].format.definition == PATCH["format"]["definition"])
    return patched(r.output[-1])


def custom_events():
    seen, pieces, last = [], "", None
    for event in custom(stream=True):
        expect(f"number {event.sequence_number}", event.sequence_number == len(seen))
        seen.append(event.type)
        if event.type == "response.custom_tool_call_input.delta":
            pieces += event.delta
        if event.type == "response.custom_tool_call_input.done":
            expect("the pieces' text", event.input == pieces)
        if event.type in ("response.output_item.added", "response.output_item.done"):
            last = event.item
    expect("the same item in its event and in the response", event.response.output[-1] == last)
    expect(f"pieces, not {seen}", seen.count("response.custom_tool_call_input.delta") > 2 and seen.count("response.custom_tool_call_input.done") == 1)
    return patched(last)


def custom_helper():
    with client.responses.stream(model=MODEL, input="Hello", tools=[TOOL, PATCH], tool_choice={"type": "custom", "name": "apply_patch"},
                                 max_output_tokens=200) as stream:
        for _ in stream:
            pass
        return patched(stream.get_final_response().output[-1])


def custom_history():
    first = custom()
    call = first.output[-1]
    history = [{"role": "user", "content": "Hello"}, *[item.model_dump(exclude_none=True) for item in first.output],
               {"type": "custom_tool_call_output", "call_id": call.call_id, "output": "Done"}]
    r = ask(input=history, tools=[TOOL, PATCH], tool_choice="none")
    expect("a message", r.output[-1].type == "message")
    return r.output_text


def compaction():
    history = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi!"}, {"role": "user", "content": "Thank you"}]
    small = client.responses.compact(model=MODEL, input=history)
    expect(f"object {small.object}", small.object == "response.compaction" and small.usage.input_tokens > 0)
    *said, summary = small.output
    expect("what the user said", [item.content[0].text for item in said] == ["Hello", "Thank you"])
    expect(f"a {summary.type}", summary.type == "compaction" and summary.encrypted_content)
    r = ask(input=[*[item.model_dump(exclude_none=True) for item in small.output], {"role": "user", "content": "Hello"}])
    expect(f"status {r.status}", r.status in ("completed", "incomplete"))
    return r.output_text


def kept_chats():
    def chat(**parameters):
        return client.chat.completions.create(model=MODEL, messages=ASK, temperature=0, max_tokens=16, **parameters)

    first = chat(store=True, metadata={"case": "kept"})
    last = None
    for last in chat(store=True, stream=True, metadata={"case": "kept"}):
        pass
    chat()
    listed = list(client.chat.completions.list(metadata={"case": "kept"}, limit=1))
    expect(f"{len(listed)} are listed", [c.id for c in listed] == [first.id, last.id])
    expect("the same answer", listed[0].choices[0].message.content == listed[1].choices[0].message.content == first.choices[0].message.content)
    again = client.chat.completions.update(first.id, metadata={"case": "other"})
    expect("other metadata", again.metadata == {"case": "other"} and client.chat.completions.retrieve(first.id).metadata == {"case": "other"})
    messages = list(client.chat.completions.messages.list(first.id))
    expect("its messages", [m.content for m in messages] == [m["content"] for m in ASK])
    for kept in (first.id, last.id):
        expect("deleted", client.chat.completions.delete(kept).deleted)
    try:
        client.chat.completions.retrieve(first.id)
    except openai.NotFoundError as e:
        return e.code
    expect("a chat that was deleted is gone", False)


def refusals():
    for parameters, field in (({"input": [{"type": "item_reference", "id": "x"}]}, "input[0].type"),
                              ({"tools": [{"type": "web_search"}]}, "tools[0].type"), ({"temperature": 9}, "temperature")):
        try:
            ask(**parameters)
        except openai.BadRequestError as e:
            expect(f"{e.param} is {field}", e.param == field)
        else:
            expect(f"{field} is refused", False)
    try:
        ask(input=LONG)
    except openai.BadRequestError as e:
        expect(f"code {e.code}", e.code == "context_length_exceeded")
        return e.code
    expect("a long input is refused", False)


run("openai", {f.__name__: f for f in (
    whole, events, stream_helper, conversation, incomplete, custom_tool, custom_events, custom_helper, custom_history, compaction, kept_chats, refusals)})
