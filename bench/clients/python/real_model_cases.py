"""What only a trained model can answer, with the official Python client: chat, typed answers and tools."""

import json

import openai
from pydantic import BaseModel

from case import BASE, KEY, MODEL, expect, run

client = openai.OpenAI(base_url=BASE, api_key=KEY, max_retries=0)
# Words of right answers. Small models in few bits miss some questions, and each rounding others: most must hold.
KNOWN = {
    "What is the capital of Japan?": "Tokyo", "Who wrote Romeo and Juliet?": "Shakespeare", "How many days are in a week?": "7",
    "What is 2 plus 2?": "4", "What is the opposite of hot?": "cold", "What is the chemical symbol for gold?": "Au",
    "What is the largest planet in the solar system?": "Jupiter", "What language is spoken in Brazil?": "Portuguese",
}
CAPITAL = [{"role": "user", "content": "What is the capital of France? Answer in one sentence."}]
WEATHER = {"type": "function", "function": {"name": "get_weather", "description": "The weather of a city", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "maxLength": 30}}, "required": ["city"]}}}


class Person(BaseModel):
    """Somebody that a text speaks of."""

    name: str
    age: int


def ask(**parameters):
    return client.chat.completions.create(model=MODEL, **{"messages": CAPITAL, "temperature": 0, "max_tokens": 48, **parameters})


def chat():
    answers = {q: ask(messages=[{"role": "user", "content": q}], max_tokens=24).choices[0].message.content for q in KNOWN}
    right = [q for q, word in KNOWN.items() if word in answers[q]]
    expect(f"6 of {len(KNOWN)} right answers: {answers}", len(right) >= 6)
    return f"{len(right)} of {len(KNOWN)} right"


def stream():
    whole = ask()
    text, usage = "", None
    for chunk in ask(stream=True, stream_options={"include_usage": True}):
        text += "".join(c.delta.content or "" for c in chunk.choices)
        usage = chunk.usage or usage
    expect("the stream's text is the whole answer", text == whole.choices[0].message.content)
    expect("the stream's usage is the whole answer's", usage.completion_tokens == whole.usage.completion_tokens)
    return text


def turns():
    messages = [*CAPITAL, {"role": "assistant", "content": ask().choices[0].message.content}, {"role": "user", "content": "And of Italy?"}]
    r = ask(messages=messages)
    expect("the first turn comes from the prefix cache", r.usage.prompt_tokens_details.cached_tokens > 0)
    return r.choices[0].message.content


def typed():
    messages = [{"role": "user", "content": "Ann is 31 years old. Give her name and age as JSON."}]
    r = client.chat.completions.parse(model=MODEL, messages=messages, response_format=Person, temperature=0, max_tokens=60)
    answer = r.choices[0].message.parsed
    expect(f"Ann and 31, not {answer}", (answer.name, answer.age) == ("Ann", 31))
    return answer


def call():
    r = ask(messages=[{"role": "user", "content": "What is the weather in Paris?"}], tools=[WEATHER], tool_choice="required", parallel_tool_calls=False, max_tokens=80)
    calls = r.choices[0].message.tool_calls
    expect("one call", len(calls) == 1 and calls[0].function.name == "get_weather")
    city = json.loads(calls[0].function.arguments)["city"]
    expect(f"of Paris, not {city!r}", "Paris" in city)
    return city


def fill():
    """Models without tokens for it refuse a suffix by name; of others the middle joins both ends."""
    ask_for = {"model": MODEL, "prompt": "def add(a, b):\n    ", "suffix": "\n\nprint(add(2, 3))\n", "temperature": 0, "max_tokens": 16}
    try:
        whole = client.completions.create(**ask_for, n=2, logprobs=1)
    except openai.BadRequestError as e:
        expect(f"suffix is refused by name: {e.body}", e.code == "unsupported_parameter" and e.param == "suffix")
        return "refused"
    expect(f"a + b in {whole.choices[0].text!r}", "a + b" in whole.choices[0].text)
    expect("two equal choices with log-probabilities", whole.choices[0].text == whole.choices[1].text and whole.choices[0].logprobs.tokens)
    parts = [c.text for chunk in client.completions.create(**ask_for, stream=True) for c in chunk.choices]
    expect("the stream's text is the whole answer", "".join(parts) == whole.choices[0].text)
    return whole.choices[0].text


run("openai", {"chat": chat, "stream": stream, "a second turn": turns, "typed answer": typed, "call": call, "fill in the middle": fill})
