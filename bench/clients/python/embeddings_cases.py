"""Vectors and rankings through the official client, LangChain, LlamaIndex, Cohere's and plain HTTP."""

import json
import math
import urllib.error
import urllib.request

import cohere
import openai
from langchain_openai import OpenAIEmbeddings
from llama_index.embeddings.openai_like import OpenAILikeEmbedding

from case import BASE, KEY, MODEL, expect, run

ROOT = BASE.removesuffix("/v1")
QUERY = "How do I bake bread?"
DOCUMENTS = ["The central bank raised its rates again.", "Knead the dough, let it rise, and put the loaf into a hot oven.",
             "Our cat sleeps on the windowsill."]
client = openai.OpenAI(base_url=BASE, api_key=KEY, max_retries=0)


def embed(texts, **parameters):
    return client.embeddings.create(model=MODEL, input=texts, **parameters)


def plain(path, body):
    request = urllib.request.Request(ROOT + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(request))


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b)) / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


def same(a, b):
    expect("the same vectors", len(a) == len(b) and all(len(x) == len(y) and max(abs(p - q) for p, q in zip(x, y)) < 1e-6 for x, y in zip(a, b)))


def reference():
    return [d.embedding for d in embed([QUERY, *DOCUMENTS], encoding_format="float").data]


def formats():
    default = embed([QUERY, *DOCUMENTS])  # the client asks for base64 and decodes it
    same([d.embedding for d in default.data], reference())
    expect("in order", [d.index for d in default.data] == [0, 1, 2, 3])
    expect("usage", default.usage.prompt_tokens == default.usage.total_tokens > 4)
    return len(default.data[0].embedding)


def meaning():
    query, *documents = reference()
    scores = [cosine(query, d) for d in documents]
    expect(f"the second is nearest: {scores}", max(scores) == scores[1])
    expect("length 1", all(abs(cosine(v, v) - 1) < 1e-6 and abs(sum(x * x for x in v) - 1) < 1e-5 for v in documents))
    return scores


def forms():
    ids = plain("/tokenize", {"model": MODEL, "prompt": QUERY})["tokens"]
    one = reference()[0]
    same([one] * 3, [embed(QUERY).data[0].embedding, embed(ids).data[0].embedding, embed([ids]).data[0].embedding])
    return ids


def dimensions():
    whole, half = reference()[0], embed(QUERY, dimensions=64).data[0].embedding
    expect("64 numbers of length 1", len(half) == 64 and abs(sum(x * x for x in half) - 1) < 1e-5)
    expect("of the same direction", abs(cosine(half, whole[:64]) - 1) < 1e-6)
    return half[:2]


def refusals():
    for what, parameters, code in [("empty", {"input": ""}, "invalid_value"), ("long", {"input": "word " * 40000}, "context_length_exceeded"),
                                   ("dimensions", {"input": "a", "dimensions": 10**6}, "invalid_value")]:
        try:
            client.embeddings.create(model=MODEL, **parameters)
        except openai.BadRequestError as e:
            expect(f"{what}: {e.code}", e.code == code)
        else:
            raise AssertionError(f"{what}: accepted")
    cut = embed("word " * 40000, extra_body={"truncate_prompt_tokens": -1})
    return cut.usage.prompt_tokens


def chat_is_refused():
    try:
        client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "Hello"}])
    except openai.BadRequestError as e:
        expect(e.code, e.code == "wrong_model_kind")
        return e.message
    raise AssertionError("accepted")


def langchain():
    # The default would send the ids of OpenAI's own vocabulary.
    lines = OpenAIEmbeddings(model=MODEL, base_url=BASE, api_key=KEY, check_embedding_ctx_length=False)
    same([lines.embed_query(QUERY), *lines.embed_documents(DOCUMENTS)], reference())
    return "embed_query, embed_documents"


def llama_index():
    index = OpenAILikeEmbedding(model_name=MODEL, api_base=BASE, api_key=KEY)
    same([index.get_query_embedding(QUERY), *index.get_text_embedding_batch(DOCUMENTS)], reference())
    return "get_query_embedding, get_text_embedding_batch"


def ranked(results):
    order = [r.index for r in results]
    expect(f"the second is first: {order}", order[0] == 1)
    expect("scores fall", all(a.relevance_score >= b.relevance_score for a, b in zip(results, results[1:])))
    return order


def cohere_v1():
    answer = cohere.Client(api_key=KEY, base_url=ROOT).rerank(model=MODEL, query=QUERY, documents=DOCUMENTS, return_documents=True)
    expect("the texts", answer.results[0].document.text == DOCUMENTS[1])
    return ranked(answer.results)


def cohere_v2():
    answer = cohere.ClientV2(api_key=KEY, base_url=ROOT).rerank(model=MODEL, query=QUERY, documents=DOCUMENTS, top_n=2)
    expect("two", len(answer.results) == 2)
    return ranked(answer.results)


def cohere_embed():
    answer = cohere.ClientV2(api_key=KEY, base_url=ROOT).embed(
        model=MODEL, texts=[QUERY, *DOCUMENTS], input_type="search_document", embedding_types=["float", "ubinary", "base64"])
    same(answer.embeddings.float_, reference())
    signs = [[int("".join("01"[x > 0] for x in v[i:i + 8]).ljust(8, "0"), 2) for i in range(0, len(v), 8)] for v in reference()]
    expect("signs", answer.embeddings.ubinary == signs)
    expect("base64", len(answer.embeddings.base64) == len(signs))
    return answer.meta.billed_units.input_tokens


def http_rerank():
    body = {"model": MODEL, "query": QUERY, "documents": [{"text": d} for d in DOCUMENTS], "top_n": 1, "return_documents": False}
    answer = plain("/v1/rerank", body)
    expect("one, without its text", [(r["index"], "document" in r) for r in answer["results"]] == [(1, False)])
    expect("usage", answer["usage"]["total_tokens"] > 0)
    bare = plain("/rerank", {"model": MODEL, "query": QUERY, "texts": DOCUMENTS})
    expect("text-embeddings-inference's form", [r["index"] for r in bare][0] == 1 and len(bare) == 3)
    return answer["results"]


def http_score():
    scores = [d["score"] for d in plain("/score", {"model": MODEL, "text_1": QUERY, "text_2": DOCUMENTS})["data"]]
    same([[d["score"] for d in plain("/v1/score", {"model": MODEL, "text_1": [QUERY] * 3, "text_2": DOCUMENTS})["data"]]], [scores])
    query, *documents = reference()
    same([scores], [[cosine(query, d) for d in documents]])
    return scores


def http_embed():
    same(plain("/embed", {"model": MODEL, "inputs": [QUERY, *DOCUMENTS]}), reference())
    return "vectors without anything around them"


run("openai", {"formats": formats, "meaning": meaning, "forms": forms, "dimensions": dimensions, "refusals": refusals,
               "a chat is refused": chat_is_refused, "langchain": langchain, "llama_index": llama_index, "cohere v1": cohere_v1,
               "cohere v2": cohere_v2, "cohere embed": cohere_embed, "rerank": http_rerank, "score": http_score, "embed": http_embed})
