package chunk

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

func TestChunks(t *testing.T) {
	for _, tc := range []struct {
		data, model, usage, err string
		choices                 int
		seen, finished          Set
		said                    bool
		texts, wrong            string
	}{
		{data: `{"id":"c","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`, model: `"m"`, choices: 1, seen: 1, texts: "0:"},
		{data: `{"choices":[{"delta":{"content":"a\"\u00e9"},"index":2}],"model" : "m\"" ,"usage":null}`, model: `"m\""`, usage: "null", choices: 1, seen: 4, said: true, texts: `2:a\"\u00e9`},
		{data: "{ \"usage\" : {\n\"prompt_tokens\" : 3 } , \"choices\" : [ ] }", usage: "{\n\"prompt_tokens\" : 3 }", choices: 0},
		{data: `{"us\u0061ge":{"a":1}}`, usage: `{"a":1}`, choices: -1},
		{data: `{"choices":[{"index":0,"text":"x","finish_reason" : "stop"},{"index":1,"text":"","finish_reason":""}]}`, choices: 2, seen: 3, finished: 1, said: true, texts: "0:x 1:"},
		{data: `{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call","function":{"name":"f","arguments":"{}"}}]}}]}`, choices: 1, seen: 1, said: true, texts: "0:f 0:{}"},
		{data: `{"choices":[{"delta":{"reasoning_content":"t","content":null}}]}`, choices: 1, seen: 1, said: true, texts: "0:t"},
		{data: `{"choices":[{"delta":{"content":[{"type":"text","text":"part"}]}}]}`, choices: 1, seen: 1, said: true, texts: "0:part"},
		{data: `{"choices":[{"delta":{"new":{"a":"b"}}}]}`, choices: 1, seen: 1, said: true},
		{data: `{"choices":[{"delta":{"content":7}}]}`, choices: 1, seen: 1, wrong: "content"},
		{data: `{"choices":null}`, choices: -1},
		{data: `{"choices":{}}`, choices: -1, wrong: "choices"},
		{data: `{"choices":[0]}`, choices: 1, wrong: "choices"},
		{data: `{"choices":[{"message":"text"}]}`, choices: 1, seen: 1, wrong: "delta"},
		{data: `{"choices":[{"index":"0","text":"a"}]}`, choices: 1, seen: 1, said: true, texts: "0:a", wrong: "index"},
		{data: `{"choices":[{"index":-1,"text":"a"}]}`, choices: 1, seen: 1, said: true, texts: "/:a", wrong: "index"},
		{data: `{"error":{"message":"no"}}`, err: `{"message":"no"}`, choices: -1},
		{data: `{"error":null,"choices":[]}`, choices: 0},
		{data: `{"choices":[{"index":100,"finish_reason":"length"}]}`, choices: 1, seen: 1 << 63, finished: 1 << 63},
		{data: `[1,2]`, choices: -1},
		{data: `{"type":"content_block_delta","index":3,"delta":{"type":"text_delta","text":"hel\n"}}`, choices: -1, said: true, texts: `0:hel\n`},
		{data: `{"delta":{"thinking":"hm","type":"thinking_delta"},"type":"content_block_delta"}`, choices: -1, said: true, texts: "0:hm"},
		{data: `{"type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":"{\"a\""}}`, choices: -1, said: true, texts: `0:{\"a\"`},
		{data: `{"type":"content_block_delta","delta":{"type":"signature_delta","signature":"abc"}}`, choices: -1},
		{data: `{"type":"content_block_delta","delta":{"type":"citations_delta","citation":{"cited_text":"a","text":"b"}}}`, choices: -1},
		{data: `{"type":"content_block_start","content_block":{"type":"tool_use","id":"t","name":"f","input":{"text":"x"}}}`, choices: -1, said: true, texts: "0:f"},
		{data: `{"type":"content_block_start","content_block":{"type":"mcp_tool_result","content":[{"type":"text","text":"x"}]}}`, choices: -1},
		{data: `{"type":"message_delta","delta":{"stop_reason":"end_turn","text":"x"},"usage":{"a":1}}`, choices: -1, usage: `{"a":1}`},
		{data: `{"type":"response.output_text.delta","item_id":"m","delta":"lo ","logprobs":[{"text":"x"}],"sequence_number":4}`, choices: -1, said: true, texts: "0:lo "},
		{data: `{"delta":"{}","type":"response.function_call_arguments.delta"}`, choices: -1, said: true, texts: "0:{}"},
		{data: `{"type":"response.audio.delta","delta":"UklGRg=="}`, choices: -1},
		{data: `{"type":"response.output_text.done","text":"all","delta":"all"}`, choices: -1},
		{data: `{"type":"response.output_item.added","item":{"type":"function_call","name":"f","arguments":""}}`, choices: -1, said: true, texts: "0:f"},
		{data: `{"type":"response.completed","response":{"object":"response","output":[{"content":[{"text":"all"}]}]}}`, choices: -1},
		{data: `{"object":"response","output":[{"type":"reasoning","summary":[{"text":"a"}]},{"content":[{"type":"output_text","text":"b"}]},{"name":"f","arguments":"{}"}]}`,
			choices: -1, said: true, texts: "0:a 0:b 0:f 0:{}"},
		{data: `{"content":[{"type":"text","text":"a"},{"type":"tool_use","name":"f","input":{"city":"Rome"}}],"type":"message"}`, choices: -1, said: true, texts: "0:a 0:f 0:Rome"},
	} {
		c := (&Reader{}).Read([]byte(tc.data))
		if c == nil {
			t.Errorf("%s: not read", tc.data)
			continue
		}
		var texts []string
		for _, x := range c.Texts {
			texts = append(texts, string(rune('0'+x.Choice))+":"+string(x.Of([]byte(tc.data))))
		}
		of := func(s Span) string { return string(s.Of([]byte(tc.data))) }
		if of(c.Model) != tc.model || of(c.Usage) != tc.usage || of(c.Error) != tc.err || c.Choices != tc.choices || c.Seen != tc.seen ||
			c.Finished != tc.finished || c.Said() != tc.said || strings.Join(texts, " ") != tc.texts || c.Wrong != tc.wrong {
			t.Errorf("%s:\n%+v, texts %q", tc.data, c, texts)
		}
	}
}

func TestEventsThatAreNoJSON(t *testing.T) {
	for _, data := range []string{
		"", " ", "{", `{"a"}`, `{"a":1,}`, `{"choices":[{"delta":{"content":"tor`, `{"a":01}`, `{"a":1.}`, `{"a":-}`, `{"a":tru}`, `{"a":"\x"}`, `{"a":"\u12g4"}`,
		"{\"a\":\"\n\"}", `{}{}`, `<html>`, `[1,]`, `{"a":"\`, `{"a":1e}`, strings.Repeat("[", 2000),
	} {
		if (&Reader{}).Read([]byte(data)) != nil || IsJSON([]byte(data)) {
			t.Errorf("%.80q was read", data)
		}
	}
}

// What is read of an event does not depend on the one before it.
func TestEventsThatAreAlike(t *testing.T) {
	const before, after = `{"id":"c","choices":[{"index":1,"delta":{"content":"`, `"},"finish_reason":null}],"model":"m","usage":null}`
	var r Reader
	for _, text := range []string{"a", "", "longer than before", `with \" escape`, "é👋", "a", `"`, `\`, "a", `"},"finish_reason":"stop"}],"x":[{"y":{"z":"`} {
		data := []byte(before + text + after)
		got, want := r.Read(data), (&Reader{}).Read(data)
		if (got == nil) != (want == nil) {
			t.Fatalf("%q: %v, alone %v", text, got, want)
		}
		if got != nil {
			same(t, data, got, want)
		}
	}
}

func same(t *testing.T, data []byte, got, want *Chunk) {
	t.Helper()
	a, b := *got, *want
	if len(a.Texts) != len(b.Texts) {
		t.Fatalf("%s: texts %v, alone %v", data, a.Texts, b.Texts)
	}
	for i := range a.Texts {
		if a.Texts[i] != b.Texts[i] {
			t.Fatalf("%s: texts %v, alone %v", data, a.Texts, b.Texts)
		}
	}
	if a.Model != b.Model || a.Error != b.Error || a.Usage != b.Usage || a.UsageField != b.UsageField || a.Type != b.Type || a.Whole != b.Whole || a.Response != b.Response || a.Message != b.Message || !slices.Equal(a.Ends, b.Ends) || a.Choices != b.Choices || a.Seen != b.Seen ||
		a.Finished != b.Finished || a.Said() != b.Said() || a.Wrong != b.Wrong || a.null != b.null {
		t.Fatalf("%s:\n%+v, alone\n%+v", data, a, b)
	}
}

func TestAlikeEventsAllocateNothing(t *testing.T) {
	var r Reader
	one, two := []byte(`{"id":"c","choices":[{"index":0,"delta":{"content":"a"}}]}`), []byte(`{"id":"c","choices":[{"index":0,"delta":{"content":"\n"},"logprobs":{"content":[{"token":"a","logprob":-0.5}]}}]}`)
	if n := testing.AllocsPerRun(100, func() { r.Read(one); r.Read(two) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzRead compares with encoding/json, and events in turn with events alone.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"id":"c","model":"m","choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}],"usage":null}`), []byte("b"))
	f.Add([]byte(`{ "usage" : {"prompt_tokens":1} , "choices":[{"text":"\u0061","finish_reason":"stop"}]}`), []byte(`"`))
	f.Add([]byte(`{"usage":null,"error":{"code":1e3}}`), []byte(`\`))
	f.Add([]byte(`{"delta":{"text":"a"},"type":"content_block_delta"}`), []byte("b"))
	f.Add([]byte(`{"type":"response.output_text.delta","delta":"a","sequence_number":4}`), []byte(`\u0061`))
	f.Fuzz(func(t *testing.T, data, text []byte) {
		var r Reader
		c := r.Read(data)
		deep := strings.Count(string(data), "[")+strings.Count(string(data), "{") > maxDepth
		if valid := json.Valid(data); (c != nil) != valid && !deep || IsJSON(data) != (c != nil) {
			t.Fatalf("%q: valid %v", data, valid)
		}
		if c == nil {
			return
		}
		if !c.UsageField.IsEmpty() {
			if cut := string(data[:c.UsageField.From]) + string(data[c.UsageField.To:]); !json.Valid([]byte(cut)) {
				t.Fatalf("%q without usage: %q", data, cut)
			}
		}
		var said struct {
			Usage json.RawMessage `json:"usage"`
		}
		if err := json.Unmarshal(data, &said); err == nil && len(said.Usage) > 0 && c.Usage.IsEmpty() && !strings.Contains(strings.ToLower(string(data)), "usage") {
			t.Fatalf("%q: usage %q was not seen", data, said.Usage)
		}
		if len(c.Texts) == 1 { // another text in the same event
			at := c.Texts[0]
			next := []byte(string(data[:at.From]) + string(text) + string(data[at.To:]))
			got, want := r.Read(next), (&Reader{}).Read(next)
			if (got == nil) != (want == nil) {
				t.Fatalf("%q: %v, alone %v", next, got, want)
			}
			if got != nil {
				same(t, next, got, want)
			}
		}
	})
}

func BenchmarkRead(b *testing.B) {
	alike := []byte(`{"id":"chatcmpl-0123456789abcdef","object":"chat.completion.chunk","created":1763000000,"model":"m","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}]}`)
	b.Run("alike", func(b *testing.B) {
		var r Reader
		for b.Loop() {
			r.Read(alike)
		}
	})
	b.Run("parsed", func(b *testing.B) {
		var r Reader
		for b.Loop() {
			r.before = r.before[:0]
			r.Read(alike)
		}
	})
	b.Run("encoding/json.Valid", func(b *testing.B) {
		for b.Loop() {
			json.Valid(alike)
		}
	})
}
