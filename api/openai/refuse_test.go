package openai

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"weir/internal/inference"
)

type errorBody struct {
	Error *struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    *string `json:"code"`
	} `json:"error"`
}

func parseError(t testing.TB, body string) (param, code, message string) {
	t.Helper()
	var e errorBody
	if err := json.Unmarshal([]byte(body), &e); err != nil || e.Error == nil {
		t.Fatalf("no error object in %q: %v", body, err)
	}
	if e.Error.Param != nil {
		param = *e.Error.Param
	}
	if e.Error.Code != nil {
		code = *e.Error.Code
	}
	return param, code, e.Error.Message
}

const hi = `"messages":[{"role":"user","content":"hi"}]`

func chatWith(fields string) string { return `{` + hi + `,` + fields + `}` }

func message(m string) string { return `{"messages":[` + m + `]}` }

func textWith(fields string) string { return `{"prompt":"hi",` + fields + `}` }

// refused are requests that must end in a 4xx that says what is wrong where.
// Status is 400 where it is not given.
var refused = []struct {
	path, body  string
	status      int
	param, code string
}{
	// the body as a whole
	{routeChat, ``, 400, "", "invalid_json"},
	{routeChat, `{`, 400, "", "invalid_json"},
	{routeChat, `{"messages":[}`, 400, "", "invalid_json"},
	{routeChat, `{} {}`, 400, "", "invalid_json"},
	{routeChat, `null`, 400, "", "invalid_type"},
	{routeChat, `[]`, 400, "", "invalid_type"},
	{routeChat, `"x"`, 400, "", "invalid_type"},
	{routeChat, "{\"messages\":\"\xff\"}", 400, "", "invalid_json"},
	{routeChat, `{"a":` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + `}`, 400, "", "invalid_json"},
	{routeChat, strings.Repeat("[", 100000), 400, "", "invalid_json"},
	{routeChat, `{"a":1,'b':2}`, 400, "", "invalid_json"},
	{routeChat, `{"a":NaN}`, 400, "", "invalid_json"},
	{routeChat, `{` + hi + `,` + hi + `}`, 400, "messages", "duplicate_parameter"},
	{routeChat, chatWith(`"seed":1,"\u0073eed":2`), 400, "seed", "duplicate_parameter"},
	{routeChat, `{` + hi + manyFields(300) + `}`, 400, "", "invalid_value"},

	// model
	{routeChat, chatWith(`"model":"other"`), 404, "model", "model_not_found"},
	{routeChat, chatWith(`"model":7`), 400, "model", "invalid_type"},
	{routeCompletions, textWith(`"model":"gpt-4o"`), 404, "model", "model_not_found"},

	// messages
	{routeChat, `{}`, 400, "messages", "missing_required_parameter"},
	{routeChat, `{"messages":null}`, 400, "messages", "missing_required_parameter"},
	{routeChat, `{"messages":[]}`, 400, "messages", "invalid_value"},
	{routeChat, `{"messages":"hi"}`, 400, "messages", "invalid_type"},
	{routeChat, `{"messages":{"role":"user"}}`, 400, "messages", "invalid_type"},
	{routeChat, message(`"hi"`), 400, "messages[0]", "invalid_type"},
	{routeChat, message(`null`), 400, "messages[0]", "invalid_type"},
	{routeChat, message(`{"content":"hi"}`), 400, "messages[0].role", "missing_required_parameter"},
	{routeChat, message(`{"role":"user"}`), 400, "messages[0].content", "missing_required_parameter"},
	{routeChat, message(`{"role":"assistant","content":null}`), 400, "messages[0].content", "missing_required_parameter"},
	{routeChat, message(`{"role":"robot","content":"hi"}`), 400, "messages[0].role", "invalid_value"},
	{routeChat, message(`{"role":"tool","content":"hi","tool_call_id":"x"}`), 400, "messages[0].tool_call_id", "invalid_value"},
	{routeChat, message(`{"role":"function","content":"hi"}`), 400, "messages[0].tool_call_id", "missing_required_parameter"},
	{routeChat, message(`{"role":1,"content":"hi"}`), 400, "messages[0].role", "invalid_type"},
	{routeChat, message(`{"role":"user","content":1}`), 400, "messages[0].content", "invalid_type"},
	{routeChat, message(`{"role":"user","content":{}}`), 400, "messages[0].content", "invalid_type"},
	{routeChat, message(`{"role":"user","content":[]}`), 400, "messages[0].content", "invalid_value"},
	{routeChat, message(`{"role":"user","content":["hi"]}`), 400, "messages[0].content[0]", "invalid_type"},
	{routeChat, message(`{"role":"user","content":[{"text":"hi"}]}`), 400, "messages[0].content[0].type", "missing_required_parameter"},
	{routeChat, message(`{"role":"user","content":[{"type":"text"}]}`), 400, "messages[0].content[0].text", "missing_required_parameter"},
	{routeChat, message(`{"role":"user","content":[{"type":"text","text":1}]}`), 400, "messages[0].content[0].text", "invalid_type"},
	{routeChat, message(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}`), 400, "messages[0].content[0].type", "unsupported_parameter"},
	{routeChat, message(`{"role":"user","role":"system","content":"hi"}`), 400, "messages[0].role", "duplicate_parameter"},
	{routeChat, message(`{"role":"user","content":"hi"},{"role":"assistant","content":"x","tool_calls":[{"id":"a"}]}`), 400, "messages[1].tool_calls[0].function", "missing_required_parameter"},
	{routeChat, message(`{"role":"user","content":"raise"}`), 400, "messages", "template_error"},
	{routeChat, message(`{"role":"user","content":"` + strings.Repeat("x", 300) + `"}`), 400, "messages", "context_length_exceeded"},
	{routeChat, chatWith(`"continue_final_message":true,"add_generation_prompt":true`), 400, "continue_final_message", "invalid_value"},
	{routeChat, chatWith(`"chat_template_kwargs":[]`), 400, "chat_template_kwargs", "invalid_type"},

	// limits and sampling
	{routeChat, chatWith(`"n":0`), 400, "n", "invalid_value"},
	{routeChat, chatWith(`"n":129`), 400, "n", "invalid_value"},
	{routeChat, chatWith(`"n":1000000`), 400, "n", "invalid_value"},
	{routeChat, chatWith(`"n":"1"`), 400, "n", "invalid_type"},
	{routeChat, chatWith(`"max_tokens":0`), 400, "max_tokens", "invalid_value"},
	{routeChat, chatWith(`"max_tokens":99999999999999999999`), 400, "max_tokens", "invalid_value"},
	{routeChat, chatWith(`"max_tokens":1,"max_completion_tokens":2`), 400, "max_completion_tokens", "invalid_value"},
	{routeChat, chatWith(`"min_tokens":300`), 400, "min_tokens", "invalid_value"},
	{routeChat, chatWith(`"temperature":-0.1`), 400, "temperature", "invalid_value"},
	{routeChat, chatWith(`"temperature":2.1`), 400, "temperature", "invalid_value"},
	{routeChat, chatWith(`"temperature":1e400`), 400, "temperature", "invalid_value"},
	{routeChat, chatWith(`"temperature":"hot"`), 400, "temperature", "invalid_type"},
	{routeChat, chatWith(`"temperature":true`), 400, "temperature", "invalid_type"},
	{routeChat, chatWith(`"top_p":0`), 400, "top_p", "invalid_value"},
	{routeChat, chatWith(`"top_p":1.01`), 400, "top_p", "invalid_value"},
	{routeChat, chatWith(`"top_k":-2`), 400, "top_k", "invalid_value"},
	{routeChat, chatWith(`"top_k":1.5`), 400, "top_k", "invalid_type"},
	{routeChat, chatWith(`"min_p":-1`), 400, "min_p", "invalid_value"},
	{routeChat, chatWith(`"typical_p":0`), 400, "typical_p", "invalid_value"},
	{routeChat, chatWith(`"repetition_penalty":0`), 400, "repetition_penalty", "invalid_value"},
	{routeChat, chatWith(`"presence_penalty":2.5`), 400, "presence_penalty", "invalid_value"},
	{routeChat, chatWith(`"frequency_penalty":-3`), 400, "frequency_penalty", "invalid_value"},
	{routeChat, chatWith(`"seed":1.5`), 400, "seed", "invalid_type"},
	{routeChat, chatWith(`"seed":9223372036854775808`), 400, "seed", "invalid_value"},
	{routeChat, chatWith(`"logit_bias":[]`), 400, "logit_bias", "invalid_type"},
	{routeChat, chatWith(`"logit_bias":{"x":1}`), 400, "logit_bias", "invalid_value"},
	{routeChat, chatWith(`"logit_bias":{"-1":1}`), 400, "logit_bias", "invalid_value"},
	{routeChat, chatWith(`"logit_bias":{"007":1}`), 400, "logit_bias", "invalid_value"},
	{routeChat, chatWith(`"logit_bias":{"99999":1}`), 400, "logit_bias", "invalid_value"},
	{routeChat, chatWith(`"logit_bias":{"5":101}`), 400, "logit_bias.5", "invalid_value"},
	{routeChat, chatWith(`"logit_bias":{"5":1,"5":2}`), 400, "logit_bias.5", "duplicate_parameter"},

	// stop
	{routeChat, chatWith(`"stop":""`), 400, "stop", "invalid_value"},
	{routeChat, chatWith(`"stop":1`), 400, "stop", "invalid_type"},
	{routeChat, chatWith(`"stop":["a",1]`), 400, "stop[1]", "invalid_type"},
	{routeChat, chatWith(`"stop":[` + strings.TrimSuffix(strings.Repeat(`"a",`, 17), ",") + `]`), 400, "stop", "invalid_value"},
	{routeChat, chatWith(`"stop":"` + strings.Repeat("x", 5000) + `"`), 400, "stop", "invalid_value"},
	{routeChat, chatWith(`"stop_token_ids":1`), 400, "stop_token_ids", "invalid_type"},
	{routeChat, chatWith(`"stop_token_ids":[99999]`), 400, "stop_token_ids[0]", "invalid_value"},
	{routeChat, chatWith(`"stop_token_ids":[` + strings.TrimSuffix(strings.Repeat("1,", 300), ",") + `]`), 400, "stop_token_ids", "invalid_value"},

	// switches
	{routeChat, chatWith(`"stream":1`), 400, "stream", "invalid_type"},
	{routeChat, chatWith(`"stream":"true"`), 400, "stream", "invalid_type"},
	{routeChat, chatWith(`"stream":true,"stream_options":true`), 400, "stream_options", "invalid_type"},
	{routeChat, chatWith(`"stream":true,"stream_options":{"include_usage":1}`), 400, "stream_options.include_usage", "invalid_type"},
	{routeChat, chatWith(`"stream":true,"stream_options":{"continuous_usage_stats":1}`), 400, "stream_options.continuous_usage_stats", "invalid_type"},
	{routeChat, chatWith(`"logprobs":1`), 400, "logprobs", "invalid_type"},
	{routeChat, chatWith(`"top_logprobs":1`), 400, "top_logprobs", "invalid_value"},
	{routeChat, chatWith(`"logprobs":true,"top_logprobs":21`), 400, "top_logprobs", "invalid_value"},
	{routeChat, chatWith(`"ignore_eos":"no"`), 400, "ignore_eos", "invalid_type"},

	// known and not served
	{routeChat, chatWith(`"logprob_token_ids":[42]`), 400, "logprob_token_ids", "invalid_value"},
	{routeCompletions, textWith(`"truncate_prompt_tokens":4,"truncation_side":"middle"`), 400, "truncation_side", "invalid_value"},
	{routeCompletions, textWith(`"n_probs":5`), 400, "n_probs", "unsupported_parameter"},
	{routeCompletions, textWith(`"prompt_embeds":"AAAA"`), 400, "prompt_embeds", "unsupported_parameter"},
	{routeCompletions, textWith(`"tools":[{"type":"function"}]`), 400, "tools", "unsupported_parameter"},
	{routeCompletions, textWith(`"functions":[{}]`), 400, "functions", "unsupported_parameter"},
	{routeChat, chatWith(`"response_format":"text"`), 400, "response_format", "invalid_type"},
	{routeChat, chatWith(`"response_format":{}`), 400, "response_format.type", "missing_required_parameter"},
	{routeChat, chatWith(`"response_format":{"type":"xml"}`), 400, "response_format.type", "invalid_value"},
	{routeChat, chatWith(`"response_format":{"type":"structural_tag","structures":[],"triggers":["x"]}`), 400, "response_format#/structures", "invalid_grammar"},
	{routeChat, chatWith(`"response_format":{"type":"json_schema"}`), 400, "response_format.json_schema", "missing_required_parameter"},
	{routeChat, chatWith(`"response_format":{"type":"json_schema","json_schema":{"name":"n"}}`), 400, "response_format.json_schema.schema", "missing_required_parameter"},
	{routeChat, chatWith(`"response_format":{"type":"json_schema","json_schema":{"name":"a b","schema":{}}}`), 400, "response_format.json_schema.name", "invalid_value"},
	{routeChat, chatWith(`"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"strin"}}}`), 400, "response_format.json_schema.schema#/type", "invalid_schema"},
	{routeChat, chatWith(`"response_format":{"type":"json_object"},"guided_regex":"a"`), 400, "guided_regex", "invalid_value"},
	{routeChat, chatWith(`"structured_outputs":{"json":{},"choice":["a"]}`), 400, "structured_outputs.choice", "invalid_value"},
	{routeChat, chatWith(`"structured_outputs":{}`), 400, "structured_outputs", "invalid_value"},
	{routeChat, chatWith(`"structured_outputs":{"choice":[]}`), 400, "structured_outputs.choice", "invalid_value"},
	{routeChat, chatWith(`"structured_outputs":{"choice":[1]}`), 400, "structured_outputs.choice[0]", "invalid_type"},
	{routeChat, chatWith(`"guided_regex":"("`), 400, "guided_regex", "invalid_grammar"},
	{routeChat, chatWith(`"guided_grammar":"root ::= \"a"`), 400, "guided_grammar", "invalid_grammar"},
	{routeChat, chatWith(`"structured_outputs":{"structural_tag":{}}`), 400, "structured_outputs.structural_tag", "invalid_grammar"},
	{routeChat, chatWith(`"prompt_logprobs":-1`), 400, "prompt_logprobs", "invalid_value"},
	{routeChat, chatWith(`"prompt_logprobs":1,"stream":true`), 400, "prompt_logprobs", "invalid_value"},
	{routeChat, chatWith(`"request_id":"two words"`), 400, "request_id", "invalid_value"},
	{routeChat, chatWith(`"modalities":["audio"]`), 400, "modalities", "unsupported_parameter"},
	{routeChat, chatWith(`"guided_json":7`), 400, "guided_json", "invalid_schema"},
	{routeChat, chatWith(`"prompt":"x"`), 400, "prompt", "unsupported_parameter"},
	{routeChat, chatWith(`"echo":true`), 400, "echo", "unsupported_parameter"},
	{routeCompletions, textWith(`"best_of":2`), 400, "best_of", "unsupported_parameter"},
	{routeCompletions, textWith(`"suffix":"x"`), 400, "suffix", "unsupported_parameter"},
	{routeChat, chatWith(`"suffix":"x"`), 400, "suffix", "unsupported_parameter"},
	{routeCompletions, textWith(`"messages":[]`), 400, "messages", "unsupported_parameter"},

	// prompt
	{routeCompletions, `{}`, 400, "prompt", "missing_required_parameter"},
	{routeCompletions, `{"prompt":null}`, 400, "prompt", "missing_required_parameter"},
	{routeCompletions, `{"prompt":7}`, 400, "prompt", "invalid_type"},
	{routeCompletions, `{"prompt":{}}`, 400, "prompt", "invalid_type"},
	{routeCompletions, `{"prompt":""}`, 400, "prompt", "invalid_value"},
	{routeCompletions, `{"prompt":[]}`, 400, "prompt", "invalid_value"},
	{routeCompletions, `{"prompt":["a",""]}`, 400, "prompt[1]", "invalid_value"},
	{routeCompletions, `{"prompt":["a",1]}`, 400, "prompt[1]", "invalid_type"},
	{routeCompletions, `{"prompt":[1,"a"]}`, 400, "prompt[1]", "invalid_type"},
	{routeCompletions, `{"prompt":[1,1.5]}`, 400, "prompt[1]", "invalid_type"},
	{routeCompletions, `{"prompt":[-1]}`, 400, "prompt[0]", "invalid_value"},
	{routeCompletions, `{"prompt":[99999]}`, 400, "prompt[0]", "invalid_value"},
	{routeCompletions, `{"prompt":[[1],[]]}`, 400, "prompt[1]", "invalid_value"},
	{routeCompletions, `{"prompt":[[1],"a"]}`, 400, "prompt[1]", "invalid_type"},
	{routeCompletions, `{"prompt":[[1],[[1]]]}`, 400, "prompt[1][0]", "invalid_type"},
	{routeCompletions, `{"prompt":[true]}`, 400, "prompt[0]", "invalid_type"},
	{routeCompletions, `{"prompt":[null]}`, 400, "prompt[0]", "invalid_type"},
	{routeCompletions, `{"prompt":["a","b","c","d","e","f","g","h","i"],"n":128}`, 400, "prompt", "invalid_value"},
	{routeCompletions, `{"prompt":"` + strings.Repeat("x", 300) + `"}`, 400, "prompt", "context_length_exceeded"},
	{routeCompletions, textWith(`"max_tokens":0`), 400, "max_tokens", "invalid_value"},
	{routeCompletions, textWith(`"logprobs":true`), 400, "logprobs", "invalid_type"},
	{routeCompletions, textWith(`"logprobs":21`), 400, "logprobs", "invalid_value"},
	{routeCompletions, textWith(`"logprobs":-1`), 400, "logprobs", "invalid_value"},

	// the rest
	{routeTokenize, `{}`, 400, "prompt", "missing_required_parameter"},
	{routeTokenize, `{"prompt":["a"]}`, 400, "prompt", "invalid_type"},
	{routeTokenize, `{"prompt":"a","messages":[{"role":"user","content":"hi"}]}`, 400, "prompt", "unsupported_parameter"},
	{routeTokenize, `{"prompt":"a","return_token_strs":1}`, 400, "return_token_strs", "invalid_type"},
	{routeDetokenize, `{}`, 400, "tokens", "missing_required_parameter"},
	{routeDetokenize, `{"tokens":[-1]}`, 400, "tokens[0]", "invalid_value"},
	{routeDetokenize, `{"tokens":"a"}`, 400, "tokens", "invalid_type"},
	{routeTemplate, `{"messages":[]}`, 400, "messages", "invalid_value"},
}

func manyFields(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(`,"f` + strconv.Itoa(i) + `":1`)
	}
	return b.String()
}

func TestBadRequestsAreRefusedByName(t *testing.T) {
	if len(refused) < 80 {
		t.Fatalf("only %d cases", len(refused))
	}
	r := newRig(t, DefaultConfig(), &fakeBackend{})
	defer r.close()
	for _, tc := range refused {
		status, body := r.post(tc.path, tc.body)
		param, code, text := parseError(t, body)
		if status != tc.status || param != tc.param || code != tc.code {
			t.Errorf("%s %.100s\n got %d param %q code %q: %s\nwant %d param %q code %q",
				tc.path, tc.body, status, param, code, text, tc.status, tc.param, tc.code)
		}
		if len(text) > 1000 {
			t.Errorf("%s %.100s: a message of %d bytes", tc.path, tc.body, len(text))
		}
	}
	if n := len(r.backend.runs); n != 0 {
		t.Errorf("%d refused requests reached the backend", n)
	}
}

// Values that mean the same as leaving a field out.
func TestHarmlessValuesPass(t *testing.T) {
	r := newRig(t, DefaultConfig(), &fakeBackend{})
	defer r.close()
	for _, body := range []string{
		chatWith(`"tools":[],"tool_choice":"none","functions":[],"response_format":{"type":"text"},"store":false,"modalities":["text"]`),
		chatWith(`"user":"u","safety_identifier":"s","prompt_cache_key":"k","metadata":{"a":"b"},"service_tier":"auto"`),
		chatWith(`"temperature":0,"top_p":1,"top_k":-1,"min_p":0,"n":1,"stop":[],"logit_bias":{},"seed":-5,"priority":0`),
		`{"messages":[{"role":"assistant","content":"a","refusal":null,"annotations":[],"tool_calls":[],"function_call":null,"audio":null}]}`,
		`{"messages":[{"role":"user","content":"hi","name":"bob"}],"chat_template_kwargs":{"enable_thinking":false}}`,
	} {
		status, answer := r.post(routeChat, body)
		if status != 200 {
			t.Errorf("%s: %d %s", body, status, answer)
		}
	}
	if status, answer := r.post(routeCompletions, textWith(`"best_of":1,"suffix":"","logprobs":null`)); status != 200 {
		t.Error(status, answer)
	}
}

// Every field reaches the backend as it was sent.
func TestParametersReachTheBackend(t *testing.T) {
	b := &fakeBackend{}
	r := newRig(t, DefaultConfig(), b)
	defer r.close()
	status, body := r.post(routeChat, chatWith(`"temperature":0.5,"top_p":0.9,"top_k":40,"min_p":0.05,"typical_p":0.8,
		"repetition_penalty":1.1,"presence_penalty":0.5,"frequency_penalty":-0.5,"seed":-7,"n":2,"max_tokens":9,"min_tokens":3,
		"ignore_eos":true,"stop_token_ids":[7,8],"logit_bias":{"5":-100,"6":1.5},"logprobs":true,"top_logprobs":4,"speculative_ngram":false`))
	if status != 200 {
		t.Fatal(status, body)
	}
	got := b.runs[0].req
	s := got.Sampling
	if s.Temperature != 0.5 || s.TopP != 0.9 || s.TopK != 40 || s.MinP != 0.05 || s.TypicalP != 0.8 || s.RepetitionPenalty != 1.1 ||
		s.PresencePenalty != 0.5 || s.FrequencyPenalty != -0.5 || s.Seed != uint64(1<<64-7) || s.Logprobs != 4 {
		t.Errorf("sampling %+v", s)
	}
	if len(s.LogitBias) != 2 || s.LogitBias[0] != (inference.TokenBias{ID: 5, Bias: -100}) || s.LogitBias[1] != (inference.TokenBias{ID: 6, Bias: 1.5}) {
		t.Errorf("bias %v", s.LogitBias)
	}
	if got.N != 2 || got.MaxTokens != 9 || got.MinTokens != 3 || !got.IgnoreEOS || len(got.StopTokens) != 2 || got.PromptLogprobs != -1 || got.Arrived.IsZero() || got.Speculation != inference.ToggleOff {
		t.Errorf("request %+v", got)
	}
}

func TestDefaultsOfLength(t *testing.T) {
	b := &fakeBackend{}
	r := newRig(t, DefaultConfig(), b)
	defer r.close()
	r.post(routeChat, `{`+hi+`}`)
	r.post(routeCompletions, `{"prompt":"hi"}`)
	chat, text := b.runs[0].req, b.runs[1].req
	if want := 256 - len(chat.Prompt); chat.MaxTokens != want {
		t.Errorf("a chat may write %d tokens, want the rest of the context, %d", chat.MaxTokens, want)
	}
	if text.MaxTokens != 16 {
		t.Errorf("a completion may write %d tokens, want 16", text.MaxTokens)
	}
	if a, b := chat.Sampling.Seed, text.Sampling.Seed; a == b {
		t.Error("two requests without a seed got the same one")
	}
}

func TestChatNeedsATemplate(t *testing.T) {
	b := &fakeBackend{}
	r := newRig(t, DefaultConfig(), b)
	defer r.close()
	m := testModel(t, b)
	m.Template = nil
	if err := r.openai.SetModels(m); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{routeChat, routeTemplate, routeTokenize} {
		status, body := r.post(path, `{`+hi+`}`)
		if _, code, _ := parseError(t, body); status != 400 || code != "no_chat_template" {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	if status, body := r.post(routeCompletions, `{"prompt":"hi"}`); status != 200 {
		t.Error(status, body)
	}
}

func TestClientTextIsNeverAControlToken(t *testing.T) {
	b := &fakeBackend{}
	r := newRig(t, DefaultConfig(), b)
	defer r.close()
	r.post(routeChat, message(`{"role":"user","content":"<|im_end|><|endoftext|>"}`))
	r.post(routeCompletions, `{"prompt":"<|im_end|>"}`)
	control := 0
	for _, id := range b.runs[0].req.Prompt {
		if b.tok.IsControl(id) {
			control++
		}
	}
	if control != 3 { // start, end, start of the template
		t.Errorf("%d control tokens in a chat's prompt, want the template's 3", control)
	}
	for _, id := range b.runs[1].req.Prompt {
		if b.tok.IsControl(id) {
			t.Error("a completion's text became a control token")
		}
	}
}
