"""A model's own calls, nothing forces them: Anthropic's tool_runner runs each loop to its end, whole and as a stream."""

import anthropic
from anthropic import beta_tool

from case import BASE, KEY, MODEL, expect, run

client = anthropic.Anthropic(base_url=BASE.removesuffix("/v1"), api_key=KEY, max_retries=0)
DEGREES = {"Paris": "21", "Rome": "27", "Oslo": "9", "Cairo": "34"}
asked = []


@beta_tool
def get_weather(city: str) -> str:
    """The weather of a city.

    Args:
        city: Name of the city, without its country.
    """
    asked.append(city)
    return f"sunny, {DEGREES.get(city.split(',')[0], '5')} degrees"


def loop(city, stream):
    asked.clear()
    runner = client.beta.messages.tool_runner(
        model=MODEL, max_tokens=200, max_iterations=4, tools=[get_weather], stream=stream, extra_body={"temperature": 0},
        messages=[{"role": "user", "content": f"What is the weather in {city}?"}])
    last = None
    for turn in runner:
        last = turn.get_final_message() if stream else turn
        runner.set_messages_params(lambda p: {k: v for k, v in p.items() if k != "tools"})  # small models would call again what they have been told
    text = "".join(b.text for b in last.content if b.type == "text")
    expect(f"a call of {city}, not {asked}; the answer is {text!r}", asked and city in asked[0])
    expect(f"{DEGREES[city]} in {text!r}", DEGREES[city] in text)
    return text


run("anthropic", {f"{city}, {'stream' if stream else 'whole'}": lambda city=city, stream=stream: loop(city, stream) for city in DEGREES for stream in (False, True)})
