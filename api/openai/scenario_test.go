package openai

import (
	"encoding/json"
	"strings"
	"testing"

	"weir/api/edge"
)

// Scenarios of docs/scenarios.md that have no better place.

func TestJ26AnUnknownNameLeavesTheOtherCallsIntact(t *testing.T) {
	const unknown = "<tool_call>\n{\"name\": \"get_wether\", \"arguments\": {}}\n</tool_call>"
	a := both(t, parisCall+"\n"+unknown+"\n"+timeCall, bothTool)
	if got := strings.Join(a.names(), "\n"); got != `get_weather {"city": "Paris"}`+"\nget_wether {}\nget_time {}" || a.Reason != "tool_calls" {
		t.Errorf("got %q, %s", got, a.Reason)
	}
}

func TestJ33BrokenArgumentsAreValidJSON(t *testing.T) {
	for _, c := range []struct{ says, want, text string }{
		{"<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\", \"days\": oops}}\n</tool_call>", `get_weather {"city": "Paris", "days":null}`, "oops}}"},
		{"<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris", `get_weather {"city": "Paris"}`, ""},
	} {
		a := both(t, c.says, bothTool)
		if len(a.Calls) != 1 || a.names()[0] != c.want || !json.Valid([]byte(a.Calls[0].Arguments)) || a.text() != c.text {
			t.Errorf("%q: %q %q", c.says, a.names(), a.text())
		}
	}
}

// What could not be read of a call is told as text, and counted for the operator.
func TestUnreadableCallsAreCounted(t *testing.T) {
	for says, want := range map[string]int{parisCall: 0, "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": oops}}</tool_call>": 1} {
		c := DefaultConfig()
		ended := make(chan edge.RequestFinish, 1)
		c.Hooks.OnRequestFinish = func(f edge.RequestFinish) { ended <- f }
		r := newRig(t, c, &fakeBackend{script: say(says, 0)})
		longModel(r)
		r.ask(chatWith(bothTool))
		if f := <-ended; f.Unreadable != want {
			t.Errorf("%q: %d calls could not be read, want %d", says, f.Unreadable, want)
		}
		r.close()
	}
}

func TestJ39MessagesKeepThoughtsApartAndCountTools(t *testing.T) {
	b := &fakeBackend{script: sayBytes("Hm.\n</think>\n\nSo.\n" + parisCall)}
	r := newRig(t, DefaultConfig(), b)
	defer r.close()
	if err := r.openai.SetModels(toolModel(t, b, strings.Replace(toolTemplate, `{{ '<|im_start|>assistant\n' }}`, `{{ '<|im_start|>assistant\n<think>\n' }}`, 1))); err != nil {
		t.Fatal(err)
	}
	const prompt = `"messages":[{"role":"user","content":"hi"}]`
	const tools = `,"tools":[{"name":"get_weather","description":"d","input_schema":{"type":"object","properties":{"city":{"type":"string"}}}}]`
	_, stream := r.post(routeMessages, `{"max_tokens":200,"stream":true,`+prompt+tools+`}`)
	if strings.Count(stream, "event: message_start\n") != 1 || strings.Count(stream, "event: message_stop\n") != 1 {
		t.Errorf("starts and ends in %s", stream)
	}
	var kinds []string
	for line := range strings.Lines(stream) {
		var e struct {
			Type  string
			Index int
			Block struct{ Type string } `json:"content_block"`
			Delta struct{ Type, Text string }
		}
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			t.Fatal(err)
		}
		if e.Type == "content_block_start" {
			kinds = append(kinds, e.Block.Type)
		}
		if strings.Contains(e.Delta.Text, "Hm") || strings.Contains(e.Delta.Text, "think>") {
			t.Errorf("a thought in a text: %s", data)
		}
	}
	if strings.Join(kinds, " ") != "text tool_use" { // thoughts are told to those who ask for them
		t.Errorf("the blocks are %v in %s", kinds, stream)
	}
	ran := len(b.run(t, 0).req.Prompt)
	for fields, want := range map[string]bool{tools: true, "": false} {
		_, counted := r.post(routeCount, `{`+prompt+fields+`}`)
		var count struct {
			N int `json:"input_tokens"`
		}
		if err := json.Unmarshal([]byte(counted), &count); err != nil || (count.N == ran) != want || count.N > ran {
			t.Errorf("tools %q: %s, the prompt had %d", fields, counted, ran)
		}
	}
}

func TestJ40ResponsesKeepTheirCalls(t *testing.T) {
	b := &fakeBackend{script: sayBytes(parisCall)}
	r := newRig(t, DefaultConfig(), b)
	defer r.close()
	if err := r.openai.SetModels(toolModel(t, b, toolTemplate)); err != nil {
		t.Fatal(err)
	}
	const tools = `"tools":[{"type":"function","name":"get_weather","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}]`
	_, stream := r.post(routeResponses, `{"input":[{"role":"system","content":"Be kind."},{"role":"developer","content":"In English."},{"role":"user","content":"hi"}],"stream":true,`+tools+`}`)
	events := parseEvents(t, stream)
	last := events[len(events)-1]
	var call struct {
		ID     string
		CallID string `json:"call_id"`
	}
	for _, e := range events {
		if e.Type == "response.output_item.done" {
			if string(e.Item) != string(last.Response.Output[0]) {
				t.Errorf("the item was %s and is %s", e.Item, last.Response.Output[0])
			}
			if err := json.Unmarshal(e.Item, &call); err != nil {
				t.Fatal(err)
			}
		}
		if e.ItemID != "" && call.ID != "" && e.ItemID != call.ID {
			t.Errorf("an event is of the item %q, which is %q", e.ItemID, call.ID)
		}
	}
	status, body := r.post(routeResponses, `{"input":[{"role":"user","content":"hi"},`+string(last.Response.Output[0])+
		`,{"type":"function_call_output","call_id":"`+call.CallID+`","output":"sun"}],`+tools+`}`)
	prompt := b.tok.Decode(b.run(t, 1).req.Prompt, true)
	if status != 200 || !strings.Contains(prompt, `{"name": "get_weather", "arguments": {"city": "Paris"}}`) || !strings.Contains(prompt, "sun") {
		t.Errorf("%d %s: the prompt is %q", status, body, prompt)
	}
}
