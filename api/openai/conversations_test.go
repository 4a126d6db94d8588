package openai

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestConversations: items are kept, a response goes on from them and is added, and another call reads what is there.
func TestConversations(t *testing.T) {
	r := newRig(t, DefaultConfig(), &fakeBackend{})
	defer r.close()
	longModel(r)
	var conv struct{ ID, Object string }
	if status, text := r.post(routeConversations, `{"items":[{"role":"user","content":"My name is Ada."}],"metadata":{"a":"b"}}`); status != 200 || json.Unmarshal([]byte(text), &conv) != nil ||
		conv.Object != "conversation" || !strings.HasPrefix(conv.ID, "conv_") {
		t.Fatalf("%d %s", status, text)
	}
	path := routeConversations + "/" + conv.ID
	status, text := r.post(routeResponses, `{"model":"test-model","input":"Who am I?","store":false,"conversation":"`+conv.ID+`"}`)
	if status != 200 || !strings.Contains(text, `"conversation":{"id":"`+conv.ID+`"}`) {
		t.Fatalf("%d %s", status, text)
	}
	if prompt := r.backend.tok.Decode(r.backend.run(t, 0).req.Prompt, true); !strings.Contains(prompt, "My name is Ada.") || !strings.Contains(prompt, "Who am I?") {
		t.Errorf("the prompt is %q", prompt)
	}
	var page struct {
		Data []struct{ ID, Type, Role string }
		More bool `json:"has_more"`
	}
	if _, text := r.do("GET", path+"/items?order=asc", "", ""); json.Unmarshal([]byte(text), &page) != nil || len(page.Data) != 3 || page.Data[2].Role != "assistant" {
		t.Fatalf("%s", text)
	}
	var counted struct {
		Object string
		N      int `json:"input_tokens"`
	}
	if status, text := r.post(routeInputTokens, `{"model":"test-model","input":"And now?","temperature":0.5,"conversation":{"id":"`+conv.ID+`"}}`); status != 200 ||
		json.Unmarshal([]byte(text), &counted) != nil || counted.N <= len(r.backend.run(t, 0).req.Prompt) || counted.Object != "response.input_tokens" {
		t.Errorf("%d %s", status, text)
	}
	item := path + "/items/" + page.Data[0].ID
	if res, text := r.do("GET", item, "", ""); res.StatusCode != 200 || !strings.Contains(text, "Ada") {
		t.Errorf("%s", text)
	}
	if res, _ := r.do("DELETE", item, "", ""); res.StatusCode != 200 {
		t.Error(res.Status)
	}
	if status, text := r.post(path+"/items", `{"items":[{"type":"message","role":"user","content":"More."}]}`); status != 200 || !strings.Contains(text, `"first_id"`) {
		t.Errorf("%d %s", status, text)
	}
	if status, text := r.post(path, `{"metadata":{"c":"d"}}`); status != 200 || !strings.Contains(text, `"c":"d"`) {
		t.Errorf("%d %s", status, text)
	}
	for body, param := range map[string]string{
		`{"items":[{"type":"bingo"}]}`:                    "items[0].type",
		`{"items":7}`:                                     "items",
		`{"metadata":{"a":1}}`:                            "metadata",
		`{"items":[` + strings.Repeat(`{},`, 20) + `{}]}`: "items",
	} {
		if status, text := r.post(routeConversations, body); status != 400 || !strings.Contains(text, `"param":"`+param) {
			t.Errorf("%s: %d %s", body, status, text)
		}
	}
	if status, text := r.post(routeResponses, `{"model":"test-model","input":"x","conversation":"conv_none"}`); status != 404 || !strings.Contains(text, "conversation_not_found") {
		t.Errorf("%d %s", status, text)
	}
	if res, _ := r.do("DELETE", path, "", ""); res.StatusCode != 200 {
		t.Error(res.Status)
	}
	if res, _ := r.do("GET", path+"/items", "", ""); res.StatusCode != 404 {
		t.Error(res.Status)
	}
}
