"""Tools and typed answers with LangChain, LiteLLM and Pydantic AI, by what the request demands: it holds for any model."""

import asyncio
import json
import os
from typing import Literal

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # prices come with the package; none are fetched

import litellm  # noqa: E402
from langchain.agents import create_agent  # noqa: E402
from langchain.agents.structured_output import ToolStrategy  # noqa: E402
from langchain_core.messages import ToolMessage  # noqa: E402
from langchain_core.tools import tool  # noqa: E402
from langchain_openai import ChatOpenAI  # noqa: E402
from langgraph.errors import GraphRecursionError  # noqa: E402
from pydantic import BaseModel  # noqa: E402
from pydantic_ai import Agent, NativeOutput, ToolOutput  # noqa: E402
from pydantic_ai.models.openai import OpenAIChatModel  # noqa: E402
from pydantic_ai.providers.openai import OpenAIProvider  # noqa: E402

from case import BASE, KEY, MODEL, expect, run  # noqa: E402

litellm.suppress_debug_info = True
QUESTION = "What is the weather in Paris?"
asked = []


class Weather(BaseModel):
    """The weather of a city."""

    city: Literal["Paris", "Rome"]
    days: Literal[1, 2, 3]


@tool
def get_weather(city: Literal["Paris", "Rome"]) -> str:
    """The weather of a city."""
    asked.append(city)
    return "sun"


model = ChatOpenAI(model=MODEL, base_url=BASE, api_key=KEY, temperature=0, max_tokens=200, max_retries=0)


def bind_tools():
    bound = model.bind_tools([get_weather], tool_choice="get_weather")
    r = bound.invoke(QUESTION)
    whole = None
    for chunk in bound.stream(QUESTION):
        whole = chunk if whole is None else whole + chunk
    expect("the stream has the same call", [c["args"] for c in whole.tool_calls] == [c["args"] for c in r.tool_calls])
    call = r.tool_calls[0]
    after = model.bind_tools([get_weather], tool_choice="none").invoke([("user", QUESTION), r, ToolMessage("sun", tool_call_id=call["id"])])
    expect("no call", not after.tool_calls)
    return call["args"]


def structured(method):
    def case():
        r = model.with_structured_output(Weather, method=method).invoke(QUESTION)
        expect(f"a Weather, not {r!r}", isinstance(r, Weather))
        return r
    return case


def agent():
    made = create_agent(model, tools=[get_weather], response_format=ToolStrategy(Weather))
    try:
        r = made.invoke({"messages": [("user", QUESTION)]}, {"recursion_limit": 20})
    except GraphRecursionError:  # each turn must call one of the two, and the model never chose the last
        expect("the tool was called", asked)
        return "calls to the last turn"
    expect("a typed answer", isinstance(r["structured_response"], Weather))
    return r["structured_response"], len(r["messages"])


def lite(**parameters):
    return litellm.completion(**{
        "model": f"hosted_vllm/{MODEL}", "api_base": BASE, "api_key": KEY, "num_retries": 0, "temperature": 0, "max_tokens": 200,
        "messages": [{"role": "user", "content": QUESTION}], **parameters})


TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": Weather.model_json_schema()}}


def litellm_tools():
    demand = {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "get_weather"}}}
    r = lite(**demand).choices[0].message.tool_calls
    whole = litellm.stream_chunk_builder(list(lite(stream=True, **demand))).choices[0].message.tool_calls
    expect("the stream has the same call", [c.function.arguments for c in whole] == [c.function.arguments for c in r])
    return Weather.model_validate_json(r[0].function.arguments)


def litellm_schema():
    return Weather.model_validate_json(lite(response_format=Weather).choices[0].message.content)


def pydantic_ai(output):
    def case():
        made = Agent(OpenAIChatModel(MODEL, provider=OpenAIProvider(base_url=BASE, api_key=KEY)), output_type=output,
                     model_settings={"temperature": 0, "max_tokens": 200, "parallel_tool_calls": False})
        r = made.run_sync(QUESTION).output
        expect(f"a Weather, not {r!r}", isinstance(r, Weather))
        return r
    return case


def pydantic_ai_stream():
    async def last():
        made = Agent(OpenAIChatModel(MODEL, provider=OpenAIProvider(base_url=BASE, api_key=KEY)), output_type=ToolOutput(Weather),
                     model_settings={"temperature": 0, "max_tokens": 200, "parallel_tool_calls": False})
        async with made.run_stream(QUESTION) as r:
            return await r.get_output()
    return asyncio.run(last())


class Person(BaseModel):
    """A person."""

    name: str
    age: int


ANN, SAID = "Ann is 31 years old.", "The weather in Paris is sunny, 21 degrees."


@tool("get_weather")
def report(city: str) -> str:
    """The weather of a city."""
    return {"Paris": "sunny, 21 degrees"}[city]


def own_agent():
    """The embedded model calls the tool by itself and tells its result."""
    r = create_agent(model, tools=[report]).invoke({"messages": [("user", QUESTION)]})
    expect(f"the tool's result, not {r['messages'][-1].content!r}", r["messages"][-1].content == SAID)
    return [m.type for m in r["messages"]]


def own_calls():
    """A stream has the call by itself, too."""
    whole = None
    for chunk in model.bind_tools([report]).stream(QUESTION):
        whole = chunk if whole is None else whole + chunk
    calls = [(c["name"], c["args"]) for c in whole.tool_calls]
    expect(f"one call of Paris, not {calls}", calls == [("get_weather", {"city": "Paris"})])
    return calls


def ann(answer):
    def case():
        r = answer()
        expect(f"Ann, 31, not {r!r}", r == Person(name="Ann", age=31))
        return r
    return case


def own_litellm():
    r = lite(tools=[{"type": "function", "function": {"name": "get_weather", "parameters": report.args_schema.model_json_schema()}}])
    calls = [(c.function.name, json.loads(c.function.arguments)) for c in r.choices[0].message.tool_calls or []]
    expect(f"one call of Paris, not {calls}", calls == [("get_weather", {"city": "Paris"})])
    return calls


def ann_of_agent(output):
    return lambda: Agent(OpenAIChatModel(MODEL, provider=OpenAIProvider(base_url=BASE, api_key=KEY)), output_type=output,
                         model_settings={"temperature": 0, "max_tokens": 200}).run_sync(ANN).output


# What the embedded model answers by itself.
EMBEDDED = {
    "langchain: own agent": own_agent, "langchain: own calls": own_calls, "litellm: own calls": own_litellm,
    **{f"langchain: Ann by {m}": ann(lambda m=m: model.with_structured_output(Person, method=m).invoke(ANN)) for m in ("function_calling", "json_schema")},
    "litellm: Ann": ann(lambda: Person.model_validate_json(
        lite(response_format=Person, messages=[{"role": "user", "content": ANN}]).choices[0].message.content)),
    "pydantic-ai: Ann by schema": ann(ann_of_agent(NativeOutput(Person))),
}

run("langchain", {
    "langchain: tools": bind_tools, **{f"langchain: {m}": structured(m) for m in ("function_calling", "json_schema")},
    "langchain: agent": agent, "litellm: tools": litellm_tools, "litellm: schema": litellm_schema,
    "pydantic-ai: tool": pydantic_ai(ToolOutput(Weather)), "pydantic-ai: schema": pydantic_ai(NativeOutput(Weather)),
    "pydantic-ai: stream": pydantic_ai_stream, **(EMBEDDED if MODEL == "weir-default" else {}),
})
