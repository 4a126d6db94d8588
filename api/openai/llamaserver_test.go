package openai

import (
	"encoding/json"
	"strings"
	"testing"

	"weir/api/openai/job"
	"weir/api/openai/models"

	"weir/api"
	"weir/api/openai/llamaserver"
)

// nativeAnswer has the fields of llama.cpp's answers that its clients read.
type nativeAnswer struct {
	Content   string
	Tokens    []int
	Stop      bool
	StopType  string `json:"stop_type"`
	Prompt    string
	Predicted int `json:"tokens_predicted"`
	Settings  struct {
		Predict int `json:"n_predict"`
	} `json:"generation_settings"`
	Timings struct {
		PromptN int `json:"prompt_n"`
		N       int `json:"predicted_n"`
	}
	Probs []struct {
		ID  int
		Top []struct{ Token string } `json:"top_logprobs"`
	} `json:"completion_probabilities"`
}

// TestNativeCompletions: llama.cpp's /completion, whole and as events that say the same.
func TestNativeCompletions(t *testing.T) {
	r := newRig(t, DefaultConfig(), &fakeBackend{})
	defer r.close()
	body := `{"prompt":"ping","n_predict":8,"return_tokens":true,"cache_prompt":true,"seed":-1}`
	status, text := r.post(routeNative, body)
	var whole nativeAnswer
	if err := json.Unmarshal([]byte(text), &whole); err != nil || status != 200 {
		t.Fatalf("%d %s: %v", status, text, err)
	}
	if whole.Content != "Hello world" || !whole.Stop || whole.StopType != "eos" || whole.Prompt != "ping" || whole.Settings.Predict != 8 || len(whole.Tokens) == 0 ||
		whole.Timings.N != whole.Predicted || whole.Timings.PromptN != 1 {
		t.Errorf("%s", text)
	}
	_, stream := r.do("POST", routeNative, "", strings.Replace(body, "{", `{"stream":true,`, 1))
	said, ends := "", 0
	for line := range strings.SplitSeq(stream, "\n") {
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		var e nativeAnswer
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			t.Fatalf("%q: %v", data, err)
		}
		if said += e.Content; e.Stop {
			ends++
		} else if len(e.Tokens) == 0 {
			t.Errorf("an event without tokens: %s", data)
		}
	}
	if said != whole.Content || ends != 1 {
		t.Errorf("%q and %d ends: %s", said, ends, stream)
	}
}

// TestNativeForms: lists of prompts, chosen fields, and what is wrong, by the client's names.
func TestNativeForms(t *testing.T) {
	r := newRig(t, DefaultConfig(), &fakeBackend{})
	defer r.close()
	var list []nativeAnswer
	if status, text := r.post(routeNative, `{"prompt":["ping","ping"],"n_predict":4}`); status != 200 || json.Unmarshal([]byte(text), &list) != nil || len(list) != 2 {
		t.Errorf("%d %s", status, text)
	}
	if status, text := r.post(routeNative, `{"prompt":[[65,"ping"],{"prompt_string":"ping"}],"n_predict":4}`); status != 200 || json.Unmarshal([]byte(text), &list) != nil || len(list) != 2 ||
		!strings.HasSuffix(list[0].Prompt, "ping") || list[1].Prompt != "ping" {
		t.Errorf("%d %s", status, text)
	}
	if status, text := r.post(routeNative, `{"prompt":[65,"ping",66],"n_predict":4}`); status != 200 || text[0] != '{' {
		t.Errorf("%d %s", status, text)
	}
	if status, text := r.post(routeNative, `{"prompt":"ping","response_fields":["content","generation_settings/n_predict","none"]}`); status != 200 || text != `{"content":"Hello world","generation_settings/n_predict":-1}` {
		t.Errorf("%d %s", status, text)
	}
	for body, param := range map[string]string{
		`{"n_predict":4}`:                            `"param":"prompt"`,
		`{"prompt":"x","logit_bias":[["Hello"]]}`:    `"param":"logit_bias[0]"`,
		`{"prompt":"x","logit_bias":[[1e9,1]]}`:      `"param":"logit_bias[0]"`,
		`{"prompt":"x","logit_bias":{"1":"a"}}`:      `"param":"logit_bias.1"`,
		`{"prompt":"x","response_fields":"content"}`: `"param":"response_fields"`,
		`{"prompt":"x","n_predict":"8"}`:             `"param":"n_predict"`,
	} {
		if status, text := r.post(routeNative, body); status != 400 || !strings.Contains(text, param) {
			t.Errorf("%s: %d %s", body, status, text)
		}
	}
	for body, param := range map[string]string{
		`{"input_prefix":"a"}`: `"param":"input_suffix"`,
		`{"input_prefix":"a","input_suffix":"b","input_extra":[{"filename":"x"}]}`:            `"param":"input_extra[0].text"`,
		`{"input_prefix":"a","input_suffix":"b","input_extra":[{"filename":1,"text":"abc"}]}`: `"param":"input_extra[0].filename"`,
	} {
		if status, text := r.post(routeInfill, body); status != 400 || !strings.Contains(text, param) {
			t.Errorf("%s: %d %s", body, status, text)
		}
	}
}

// TestNativeBias: tokens by their ids and their texts, whose biases add up, as generation_settings tells them with what ignore_eos bans.
func TestNativeBias(t *testing.T) {
	r := newRig(t, DefaultConfig(), &fakeBackend{})
	defer r.close()
	for body, want := range map[string]string{
		`{"prompt":"x","logit_bias":[[65,1.5],[65,-1],["CD",2],[66,false]]}`: `"logit_bias":[{"token":65,"bias":0.5},{"token":66,"bias":-100},{"token":67,"bias":2},{"token":68,"bias":2}]`,
		`{"prompt":"x","logit_bias":{"65":3,"A":-100}}`:                      `"logit_bias":[{"token":65,"bias":-97}]`,
		`{"prompt":"x"}`: `"logit_bias":[]`,
		`{"prompt":"x","ignore_eos":true,"n_predict":2}`: `,"bias":null}`,
	} {
		if status, text := r.post(routeNative, body); status != 200 || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s", body, status, text)
		}
	}
}

// TestNativeFaults: errors of llama.cpp's paths have its types, and the tokens of a prompt that does not fit.
func TestNativeFaults(t *testing.T) {
	r := newRig(t, DefaultConfig(), &fakeBackend{})
	defer r.close()
	for _, tc := range []struct{ path, body, want string }{
		{routeNative, `{"prompt":"` + strings.Repeat("ping ", 4000) + `"}`, `"type":"exceed_context_size_error","param":"prompt","n_prompt_tokens":`},
		{routeNative, `{"prompt":"` + strings.Repeat("ping ", 4000) + `"}`, `exceeds the available context size`},
		{routeNative, `{}`, `{"error":{"code":400,"message":`},
		{routeNative, `{"prompt":"x","model":"none"}`, `"type":"not_found_error"`},
		{"/slots/0?action=save", `{"filename":"a"}`, `{"error":{"code":501,"message":`},
		{routeLora, `[{"id":0,"scale":1}]`, `"type":"not_supported_error"`},
	} {
		if status, text := r.post(tc.path, tc.body); status < 400 || !strings.Contains(text, tc.want) {
			t.Errorf("%s %.40s: %d %s", tc.path, tc.body, status, text)
		}
	}
	if _, text := r.do("GET", routeLora, "", ""); strings.TrimSpace(text) != "[]" {
		t.Error(text)
	}
}

// TestNativeEnd: an answer that filled the context was cut, and all of its timings are told.
func TestNativeEnd(t *testing.T) {
	r := newRig(t, DefaultConfig(), &fakeBackend{})
	defer r.close()
	status, text := r.post(routeNative, `{"prompt":"ping","n_predict":-1,"ignore_eos":true}`)
	var got struct {
		Truncated bool
		StopType  string `json:"stop_type"`
		Timings   map[string]float64
	}
	if err := json.Unmarshal([]byte(text), &got); err != nil || status != 200 {
		t.Fatalf("%d %s: %v", status, text, err)
	}
	if len(got.Timings) != 9 {
		t.Errorf("%v", got.Timings)
	}
	if _, text = r.post(routeNative, `{"prompt":"ping","n_predict":1}`); !strings.Contains(text, `"truncated":false`) || !strings.Contains(text, `"predicted_per_second":0`) {
		t.Error(text)
	}
}

// TestChatTokens: how many tokens the prompt of a chat has, whatever else the request says.
func TestChatTokens(t *testing.T) {
	r := newRig(t, DefaultConfig(), &fakeBackend{})
	defer r.close()
	for _, path := range []string{routeChatTokens, "/chat/completions/input_tokens"} {
		status, text := r.post(path, `{"messages":[{"role":"user","content":"ping"}],"max_tokens":5,"temperature":0}`)
		if status != 200 || !strings.HasPrefix(text, `{"object":"chat.completion.input_tokens","input_tokens":`) {
			t.Errorf("%d %s", status, text)
		}
	}
}

// TestPropsAndSlots: what llama.cpp's clients ask first.
func TestPropsAndSlots(t *testing.T) {
	c := DefaultConfig()
	c.Slots = 3
	r := newRig(t, c, &fakeBackend{})
	defer r.close()
	var props struct {
		Slots    int    `json:"total_slots"`
		Template string `json:"chat_template"`
	}
	if _, text := r.do("GET", routeProps, "", ""); json.Unmarshal([]byte(text), &props) != nil || props.Slots != 3 || props.Template == "" {
		t.Error(text)
	}
	var slots []struct{ ID int }
	if _, text := r.do("GET", routeSlots, "", ""); json.Unmarshal([]byte(text), &slots) != nil || len(slots) != 3 || slots[2].ID != 2 {
		t.Error(text)
	}
}

// TestNativeTokens: /tokenize with content answers as llama.cpp's server, and /detokenize under both names.
func TestNativeTokens(t *testing.T) {
	r := newRig(t, DefaultConfig(), &fakeBackend{})
	defer r.close()
	var got struct {
		Tokens  []int
		Content string
	}
	if status, text := r.post(routeTokenize, `{"content":"Hello world"}`); status != 200 || json.Unmarshal([]byte(text), &got) != nil || len(got.Tokens) == 0 {
		t.Fatal(text)
	}
	ids, _ := json.Marshal(got.Tokens)
	if _, text := r.post(routeDetokenize, `{"tokens":`+string(ids)+`}`); json.Unmarshal([]byte(text), &got) != nil || got.Content != "Hello world" {
		t.Error(text)
	}
	if _, text := r.post(routeTokenize, `{"content":"é","with_pieces":true}`); !strings.Contains(text, `"piece":[195]`) {
		t.Error(text)
	}
}

// FuzzNativeRequests: whatever a request of llama.cpp's server says, it is read or refused.
func FuzzNativeRequests(f *testing.F) {
	for _, s := range []string{`{"prompt":"x"}`, `{"prompt":[1,2],"logit_bias":[[1,false]]}`, `{"input_prefix":"a","input_suffix":"b","input_extra":[{}]}`,
		`{"prompt":"x","response_fields":["a/b"],"n_probs":2,"seed":-5,"temperature":-1}`, `{"logit_bias":[ ]}`} {
		f.Add(s)
	}
	f.Add(`{"prompt":[1,"a",{"prompt_string":"b"}]}`)
	tok, err := testTokenizer()
	if err != nil {
		f.Fatal(err)
	}
	m := &models.Model{Tokenizer: tok, MaxModelLen: 64}
	f.Fuzz(func(t *testing.T, body string) {
		for _, read := range []func(llamaserver.ReadCompletion, *job.Body, *models.Model) (*job.Job, *api.Error){llamaserver.Read, llamaserver.ReadInfill} {
			o, fault := job.ReadBody([]byte(body), false)
			if fault != nil {
				return
			}
			_, fault = read(func(to *job.Body, _ *models.Model) (*job.Job, *api.Error) {
				if !json.Valid(to.AppendJSON(nil)) {
					t.Errorf("%q became %s", body, to.AppendJSON(nil))
				}
				return nil, api.Refuse("model_not_found", "read")
			}, o, m)
			if fault == nil {
				t.Errorf("%q is neither", body)
			}
		}
	})
}
