package openai_test

import (
	"fmt"
	"time"

	"github.com/valyala/fasthttp"

	"weir/api/openai/answer"
	"weir/api/openai/job"
	"weir/api/openai/jsonbody"
	"weir/api/openai/logprob"
	"weir/api/openai/models"
	"weir/api/openai/params"
	"weir/api/openai/pooling"
	"weir/api/openai/priority"
	"weir/api/openai/prompt"
	"weir/api/tenant"
	"weir/engine/gguf"
	"weir/internal/defaultmodel"
	"weir/internal/inference"
	"weir/tokenizer"
)

// What is wrong is told with the value and its limits.
func Example_params() {
	o, fault := jsonbody.Parse([]byte(`{"max_tokens": 40, "temperature": 3, "stop": ["END"]}`), true)
	if fault != nil {
		panic(fault)
	}
	p := params.Read(o, &models.Model{MaxModelLen: 8192}, &params.Rules{MaxChoices: 8, MaxStopTokens: 16}, &fault)
	fmt.Println(p.MaxTokens, p.LengthName, len(p.Stops.Patterns))
	fmt.Println(fault.Message)
	// Output:
	// 40 max_tokens 1
	// temperature is 3; it must be between 0 and 2
}

// A tenant whose requests are of the default class at most asks for a higher one, and for an answer within five seconds.
func Example_priority() {
	o, fault := jsonbody.Parse([]byte(`{"service_tier": "priority", "deadline_ms": 5000}`), false)
	if fault != nil {
		panic(fault)
	}
	acme := tenant.New("acme")
	acme.HighestClass = inference.Default
	arrived := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

	terms, fault := priority.Reader{Header: new(fasthttp.RequestHeader), Arrived: arrived}.Read(o, &acme)
	fmt.Println(terms.Class, terms.Tier, terms.DoneBy.Sub(arrived), fault == nil)
	fmt.Println(o.Notes.Header())
	// Output:
	// default default 5s true
	// service_tier lowered to class default, the highest of the tenant
}

// Two texts are two prompts; a client that tokenises by itself sends ids.
func Example_prompt() {
	tok := builtinTokenizer()
	r := prompt.Reader{Field: "prompt", Most: 2, TooMany: "in one request", Model: &models.Model{Tokenizer: tok}, Notes: new(jsonbody.Notes)}
	for _, field := range []string{`["A weir", "Water"]`, `[65, 66]`, `["a", "b", "c"]`} {
		prompts, fault := r.All([]byte(field))
		if fault != nil {
			fmt.Println(fault.Message)
		}
		for _, p := range prompts {
			fmt.Printf("%q %v\n", p.Text, p.IDs)
		}
	}
	// Output:
	// "A weir" [35 314]
	// "Water" [57 259 282]
	// "_`" [65 66]
	// prompt has more than 2 values in one request
}

// A limit beyond what the prompt leaves of the context is cut, with a warning; a prompt that leaves no room is refused.
func Example_job() {
	m := &models.Model{ID: "llama", MaxModelLen: 8}
	for _, tokens := range []int{3, 8} {
		j := &job.Job{
			Model: m, Params: &params.Params{N: 1, MaxTokens: 40, LengthName: "max_tokens", Notes: new(jsonbody.Notes)},
			Prompts: []job.Prompt{{IDs: make([]inference.TokenID, tokens)}},
		}
		if fault := j.LimitOutput("prompt", 16); fault != nil {
			fmt.Println(fault.Code, fault.Message)
			continue
		}
		fmt.Println(j.Room(0), j.Params.Notes.Header())
	}
	// Output:
	// 5 max_tokens 40 cut to 5; the context has 8
	// context_length_exceeded This model's maximum context length is 8 tokens. However, you requested 48 tokens (8 in the prompt, 40 in the completion). Please reduce the length of the prompt or completion.
}

// A body is checked and taken apart once.
func Example_jobReadBody() {
	o, fault := job.ReadBody([]byte(`{"model": "llama", "store": true, "previous_response_id": "resp_1"}`), false)
	fmt.Println(len(o.Fields), o.Has("store"), fault == nil)
	_, fault = job.ReadBody([]byte(`{"model": "llama", "model": "gpt-4o"}`), false)
	fmt.Println(fault.Code, fault.Message)
	// Output:
	// 3 true true
	// duplicate_parameter "model" is given twice; which one counts is not defined
}

// A request for embeddings says which texts are read, and then writes its answer from the vectors of the model.
func Example_pooling() {
	tok := builtinTokenizer()
	m := &models.Model{ID: "minilm", MaxModelLen: 512, Tokenizer: tok, Pooler: &models.Pooler{Dimensions: 4}}
	o, fault := job.ReadBody([]byte(`{"model": "minilm", "input": ["A weir", "Water"], "dimensions": 2}`), true)
	if fault != nil {
		fmt.Println(fault)
		return
	}
	r, fault := pooling.Rules{}.ReadEmbedding(o, m)
	if fault != nil {
		fmt.Println(fault)
		return
	}
	fmt.Println(r.Texts, r.Tokens(), "tokens")
	r.Model = m                                        // the version that answers
	vectors := [][]float32{{3, 4, 0, 0}, {0, 2, 1, 0}} // what the model gives
	fmt.Println(string(r.Answer.AppendAnswer(nil, r, vectors)))
	// Output:
	// [[35 314] [57 259 282]] 5 tokens
	// {"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.6,0.8]},{"object":"embedding","index":1,"embedding":[0,1]}],"model":"minilm","usage":{"prompt_tokens":5,"total_tokens":5}}
}

// A token and its alternatives, as chat completions and as completions show them.
func Example_logprob() {
	tok := builtinTokenizer()
	ids := tok.AppendEncode(nil, "A weir", tokenizer.EncodeOptions{})
	sampled := answer.TokenRecord{ID: ids[1], Logprob: -0.25}
	names := logprob.Names{Tokenizer: tok}
	fmt.Printf("%s\n", names.AppendRecords(nil, []answer.TokenRecord{sampled}))
	fmt.Printf("%s\n", names.AppendTopOf(nil, &sampled))
	// Output:
	// {"token":" weir","logprob":-0.25,"bytes":[32,119,101,105,114],"top_logprobs":[]}
	// {" weir":-0.25}
}

// builtinTokenizer returns that of the model which is part of the binary.
func builtinTokenizer() *tokenizer.Tokenizer {
	f, err := gguf.Parse(defaultmodel.Reader(), int64(len(defaultmodel.GGUF())))
	if err != nil {
		panic(err)
	}
	tok, err := tokenizer.New(f.Value)
	if err != nil {
		panic(err)
	}
	return tok
}
