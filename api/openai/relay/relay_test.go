package relay

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"weir/api/edge"
	"weir/router"
)

// Usage of Responses, Messages and embeddings that no request can have is not told, whatever else the answer says.
func TestUsageThatCannotBe(t *testing.T) {
	for _, tc := range []struct {
		form                   Form
		text                   string
		prompt, cached, output int
		told                   bool
	}{
		{ResponseForm, `{"status":"completed","usage":{"input_tokens":9,"input_tokens_details":{"cached_tokens":4},"output_tokens":5}}`, 9, 4, 5, true},
		{ResponseForm, `{"status":"completed","usage":{"input_tokens":9,"input_tokens_details":{"cached_tokens":44},"output_tokens":5}}`, 9, 0, 0, false},
		{ResponseForm, `{"status":"completed","usage":{"input_tokens":9,"output_tokens":-5}}`, 9, 0, 0, false},
		{ResponseForm, `{"status":"completed","usage":{"input_tokens":1e18,"output_tokens":1e18}}`, 0, 0, 0, false},
		{MessageForm, `{"type":"message","stop_reason":"end_turn","usage":{"input_tokens":9,"cache_read_input_tokens":4,"output_tokens":5}}`, 13, 4, 5, true},
		{MessageForm, `{"type":"message","stop_reason":"end_turn","usage":{"input_tokens":9,"cache_read_input_tokens":-4,"output_tokens":5}}`, 0, 0, 0, false},
		{MessageForm, `{"type":"message","stop_reason":"end_turn","usage":{"input_tokens":9,"output_tokens":1000000000000000000}}`, 0, 0, 0, false},
		{MessageForm, `{"type":"message","stop_reason":"end_turn","usage":{"input_tokens":9,"output_tokens":99999999999999999999}}`, 0, 0, 0, false},
		{ChatForm, `{"choices":[{"finish_reason":"stop"}],"usage":{"prompt_tokens":"9","completion_tokens":5}}`, 0, 0, 0, false},
		{ChatForm, `{"choices":[{"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":null,"total_tokens":12}}`, 9, 0, 3, true},
		{ChatForm, `{"object":"list","choices":[{"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"total_tokens":9}}`, 9, 0, 0, true}, // of embeddings
		{ChatForm, `{"choices":[{"finish_reason":"stop"}],"usage":{"total_tokens":9}}`, 9, 0, 0, true},                                   // of rerankers
		{ChatForm, `{"choices":[{"finish_reason":"stop"}],"usage":{"prompt_tokens":-9,"total_tokens":-9}}`, 0, 0, 0, false},
	} {
		p := &Exchange{Form: tc.form}
		p.Read([]byte(tc.text), p.Account.Chunk([]byte(tc.text)))
		if r := &p.Result; r.PromptTokens != tc.prompt || r.CachedTokens != tc.cached || r.OutputTokens != tc.output || p.Account.told != tc.told || len(r.Reasons) != 1 {
			t.Errorf("%s: %d tokens, %d cached, %d of output, told %v, reasons %v", tc.text, r.PromptTokens, r.CachedTokens, r.OutputTokens, p.Account.told, r.Reasons)
		}
	}
}

// What is read of a stream does not depend on how it is cut.
func FuzzRelayLines(f *testing.F) {
	f.Add([]byte("data: {\"usage\":{\"prompt_tokens\":3}}\r\n\ndata: [DONE]\n\n"), uint8(3))
	f.Add([]byte(": ping\n\ndata:{\"choices\":[{\"finish_reason\":\"length\"}]}\n"), uint8(1))
	f.Fuzz(func(t *testing.T, text []byte, size uint8) {
		read := func(size int) *Stream {
			r := &Stream{exchange: &Exchange{Relay: &Relay{Hooks: &edge.Hooks{}}}}
			for piece := range slices.Chunk(text, size) {
				r.look(piece)
			}
			return r
		}
		if len(text) == 0 {
			return
		}
		a, b := read(len(text)), read(int(size)+1)
		if a.done != b.done || a.exchange.Result.PromptTokens != b.exchange.Result.PromptTokens || !slices.Equal(a.exchange.Result.Reasons, b.exchange.Result.Reasons) {
			t.Errorf("whole: %v %+v\nin pieces of %d: %v %+v", a.done, a.exchange.Result, int(size)+1, b.done, b.exchange.Result)
		}
	})
}

// Without a limit of tokens, what the text has bounds what is believed, thoughts left out.
func TestUsageFarAboveTheTextIsNotBelieved(t *testing.T) {
	for _, tc := range []struct {
		a    Account
		c    counted
		want bool
	}{
		{Account{writes: true, size: 20}, counted{prompt: 5, output: 100_000}, true}, // thoughts that are not shown
		{Account{writes: true, size: 20}, counted{prompt: 5, output: 200_000}, false},
		{Account{writes: true, size: 20}, counted{prompt: 5, output: 200_000, reasoning: 199_990}, true},
		{Account{writes: true, size: 20}, counted{prompt: 5, output: 200_000, reasoning: -1}, false},
		{Account{writes: true, size: 20, beside: true}, counted{prompt: 5, output: 200_000}, true}, // sounds
		{Account{writes: true, size: 20_000}, counted{prompt: 5, output: 200_000}, true},
		{Account{writes: true, size: 20, most: 50}, counted{prompt: 5, output: 51}, false},
		{Account{writes: true, size: 20, most: 50}, counted{prompt: 5, output: 51, reasoning: 20}, true},
		{Account{asks: true}, counted{}, false}, // of embeddings
		{Account{}, counted{}, true},
	} {
		if got := tc.a.believes(tc.c); got != tc.want {
			t.Errorf("%+v %+v: %v", tc.a, tc.c, got)
		}
	}
}

// What a prompt can have is bounded by the request's bytes, where nothing in it stands for what is elsewhere.
func TestPromptsOfMoreTokensThanTheirRequestHasBytesAreNotBelieved(t *testing.T) {
	const long = hiddenPromptTokens + 1000
	for _, tc := range []struct {
		writes bool
		body   string
		prompt int
		want   bool
	}{
		{true, `{"messages":[{"role":"user","content":"x"}]}`, hiddenPromptTokens, true}, // of templates, or that the server adds
		{true, `{"messages":[{"role":"user","content":"x"}]}`, long, false},
		{true, `{"messages":[{"role":"user","content":"` + strings.Repeat("x", 1000) + `"}]}`, long, true},
		{true, `{"n":2,"messages":[{"role":"user","content":"x"}]}`, long, true},
		{true, `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}]}]}`, 1 << 20, true},
		{true, `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}]}]}`, 200_000_000, false},
		{true, `{"input":"x","tools":[{"type":"web_search"}]}`, 1 << 20, true},
		{true, `{"input":"x","prompt":{"id":"p"}}`, 1 << 20, true},
		{true, `{"messages":[{"role":"user","content":"url"}],"tools":[{"type":"function","function":{"name":"f"}}]}`, long, false},
		{false, `{"input":"x"}`, 200_000_000, false},
		{false, `{"query":"` + strings.Repeat("x", 1000) + `","documents":["` + strings.Repeat(`a","`, 999) + `"]}`, 1_001_000, true}, // the query is read with each
	} {
		a := Account{asks: true, fits: promptBound([]byte(tc.body), tc.writes, strings.Count(tc.body, `"n":2`)+1)}
		for range 2 {
			if got := a.believes(counted{prompt: told(tc.prompt)}); got != tc.want {
				t.Errorf("%.100s %d: %v", tc.body, tc.prompt, got)
			}
		}
	}
}

// An event that passes costs no memory, whether or not the model's name in it is replaced, in any form.
func TestRelayedEventsAllocateNothing(t *testing.T) {
	for form, event := range map[Form]string{
		ChatForm:     `data: {"id":"c","model":"theirs","choices":[{"index":0,"delta":{"content":"word"},"finish_reason":null}]}` + "\n\n",
		MessageForm:  "event: content_block_delta\n" + `data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"word"}}` + "\n\n",
		ResponseForm: "event: response.output_text.delta\n" + `data: {"type":"response.output_text.delta","delta":"word","sequence_number":47}` + "\n\n",
	} {
		p := &Exchange{Relay: &Relay{Hooks: &edge.Hooks{}}, Form: form, Name: []byte(`"ours"`), Answer: &router.Answer{Events: endlessEvents{[]byte(event)}}}
		s, buf := &Stream{exchange: p}, make([]byte, 4096)
		if n := testing.AllocsPerRun(1000, func() {
			if _, err := s.Read(buf); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("form %d: %v allocations for an event", form, n)
		}
	}
}

func TestNamesOfRelayedModels(t *testing.T) {
	for text, want := range map[string]string{
		`{"id":"a","model":"x","choices":[{"text":"\"model\":\"y\""}]}`:  `{"id":"a","model":"front","choices":[{"text":"\"model\":\"y\""}]}`,
		`{"metadata":{"model":"mine"},"model" : "x\"y","tools":[]}`:      `{"metadata":{"model":"mine"},"model" : "front","tools":[]}`,
		`{"type":"r","response":{"metadata":{"model":"m"},"model":"x"}}`: `{"type":"r","response":{"metadata":{"model":"m"},"model":"front"}}`,
		`{"choices":[]}`:             `{"choices":[]}`,
		`{"model":null,"a":"model"}`: `{"model":null,"a":"model"}`,
		`{"model":`:                  `{"model":`,
		`{"model":"x`:                `{"model":"x`,
	} {
		if got := string(underName([]byte(text), []byte(`"front"`))); got != want {
			t.Errorf("%s became %s, want %s", text, got, want)
		}
	}
}

func FuzzRelayedNames(f *testing.F) {
	f.Add([]byte(`{"model":"x","choices":[{"model":"y"}]}`))
	f.Add([]byte(`data: {"response":{"model":"x","metadata":{"model":"m"}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		got := underName(text, []byte(`"front"`))
		if json.Valid(text) && !json.Valid(got) {
			t.Errorf("%q became %q", text, got)
		}
	})
}

// What servers write of calls in several ways is read as calls in a row.
func TestChatReader(t *testing.T) {
	chunk := func(calls string) string { return `{"choices":[{"index":0,"delta":{"tool_calls":[` + calls + `]}}]}` }
	for _, tc := range []struct {
		name   string
		chunks []string
		want   string // name(arguments) of each, or an error
	}{
		{"in pieces", []string{
			chunk(`{"index":0,"id":"a","function":{"name":"f","arguments":""}}`), chunk(`{"index":0,"function":{"arguments":"{\"x\""}}`),
			chunk(`{"index":0,"function":{"arguments":":1}"}}`), chunk(`{"index":1,"id":"b","function":{"name":"g","arguments":"{}"}}`),
		}, `f({"x":1})g({})`},
		{"without an index", []string{chunk(`{"id":"a","function":{"name":"f","arguments":"{}"}},{"id":"b","function":{"name":"g","arguments":"{}"}}`)}, `f({})g({})`},
		{"the name again", []string{chunk(`{"index":0,"id":"a","function":{"name":"f"}}`), chunk(`{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}`)}, `f({})`},
		{"one that goes on later", []string{
			chunk(`{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}`), chunk(`{"index":1,"id":"b","function":{"name":"g","arguments":"{}"}}`),
			chunk(`{"index":0,"function":{"arguments":"}"}}`),
		}, "error"},
		{"nameless", []string{chunk(`{"index":0,"function":{"arguments":"{}"}}`)}, "error"},
		{"two choices", []string{`{"choices":[{"index":0},{"index":1}]}`}, "error"},
		{"no JSON", []string{`{"choices"`}, "error"},
	} {
		var r ChatReader
		got := ""
		for _, text := range tc.chunks {
			d, err := r.Read([]byte(text))
			if err != nil {
				got = "error"
				break
			}
			for _, c := range d.Calls {
				if c.Begins() {
					got += fmt.Sprintf(")%s(", c.Name)
				}
				got += string(c.Arguments)
			}
		}
		if got != "error" {
			got = strings.TrimPrefix(got+")", ")")
		}
		if got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
}

// An upstream that never stops, or numbers its choices as it likes, fills no memory.
func TestKeptTextsAreBounded(t *testing.T) {
	r := &Texts{}
	chunk := `{"choices":[{"index":0,"delta":{"content":"` + strings.Repeat("x", 10_000) + `"}},{"index":-1,"text":"a"},{"index":1000000,"text":"b"}]}`
	for range 1000 {
		r.Read(ChatForm, []byte(chunk))
	}
	if texts := r.texts(); len(texts.Answers) != 1 || len(texts.Answers[0]) != maxKeptBytes {
		t.Errorf("%d answers, the first with %d bytes", len(texts.Answers), len(texts.Answers[0]))
	}
}

func FuzzRelayedTexts(f *testing.F) {
	f.Add([]byte(`{"messages":[{"role":"user","content":[{"type":"text","text":"a"}]}],"prompt":[["a"],1]}`),
		[]byte(`{"choices":[{"index":3,"delta":{"content":[{"text":"a"}],"tool_calls":[{"function":{"name":1}}]}},null]}`))
	f.Add([]byte(`null`), []byte(`{"choices":[{"message":null,"text":"x"}]}`))
	f.Fuzz(func(t *testing.T, sent, data []byte) {
		r := &Texts{Sent: sent}
		total := 0
		for _, p := range r.prompts() {
			total += len(p)
		}
		if total > 4*len(sent)+64 { // names of roles, and invalid bytes that become U+FFFD
			t.Errorf("%d bytes of prompts from %d", total, len(sent))
		}
		r.Read(ChatForm, data)
		r.Read(ChatForm, data)
		if texts := r.texts(); len(texts.Answers) > maxKeptAnswers || texts.Bytes() > len(sent)+8*len(data) {
			t.Errorf("%d answers of %d bytes from %d", len(texts.Answers), texts.Bytes(), len(data))
		}
	})
}
