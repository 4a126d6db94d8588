"""LangChain's OpenAI models."""

import asyncio

import openai
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_openai import ChatOpenAI, OpenAI

from case import BASE, KEY, LONG, MODEL, expect, run


def chat_model(**parameters):
    return ChatOpenAI(**{"model": MODEL, "base_url": BASE, "api_key": KEY, "temperature": 0, "max_tokens": 24, "max_retries": 0,
                         **parameters})


def chat():
    r = chat_model().invoke([SystemMessage("Be brief."), HumanMessage("Hello")])
    expect("a finish reason", r.response_metadata["finish_reason"] in ("stop", "length"))
    expect("usage", r.usage_metadata["total_tokens"] == r.usage_metadata["input_tokens"] + r.usage_metadata["output_tokens"])
    return r.content


def stream():
    whole = None
    for chunk in chat_model(stream_usage=True).stream("Hello"):
        whole = chunk if whole is None else whole + chunk
    expect("the same text", whole.content == chat_model().invoke("Hello").content)
    expect("usage", whole.usage_metadata["output_tokens"] > 0)
    return whole.content


def conversation():
    return chat_model().invoke([HumanMessage("Hello"), AIMessage("Hi."), HumanMessage("Hello", name="ann")]).content


def chain():
    line = ChatPromptTemplate.from_messages([("user", "Hello {name}")]) | chat_model() | StrOutputParser()
    answers = line.batch([{"name": "Ann"}, {"name": "Bob"}, {"name": "Ann"}])
    expect("the same question has the same answer", answers[0] == answers[2])
    return answers[0]


def asynchronous():
    async def last():
        return [c.content async for c in chat_model().astream("Hello")]
    return "".join(asyncio.run(last()))


def logprobs():
    r = chat_model(logprobs=True, top_logprobs=2).invoke("Hello")
    content = r.response_metadata["logprobs"]["content"]
    expect("two alternatives per token", content and all(len(t["top_logprobs"]) == 2 for t in content))
    return len(content)


def stops():
    word = chat_model().invoke("Hello").content.split()[1]
    r = chat_model(stop=[word]).invoke("Hello")
    expect(f"nothing from {word!r} on", word not in r.content)
    return f"ended before {word!r}"


def overflow():
    try:
        chat_model().invoke(LONG)
    except openai.BadRequestError as e:
        expect("the code", e.code == "context_length_exceeded")
        return e
    raise AssertionError("no error")


def completion():
    text = OpenAI(model=MODEL, base_url=BASE, api_key=KEY, temperature=0, max_tokens=5, max_retries=0).invoke("Hello")
    expect("text", text)
    return text


run("langchain-openai", {"chat": chat, "stream": stream, "conversation": conversation, "chain": chain, "async": asynchronous,
                         "logprobs": logprobs, "stops": stops, "overflow": overflow, "completion": completion})
