package openai

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"weir/api/conversation"
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

// meddledStore is a store in whose calls of KeepResponse others come first.
type meddledStore struct {
	conversation.Store
	meddle func(r *conversation.Response) error // nil: nothing
}

func (s *meddledStore) KeepResponse(ctx context.Context, r *conversation.Response, ttl time.Duration) error {
	if m := s.meddle; m != nil {
		s.meddle = nil
		if err := m(r); err != nil {
			return err
		}
	}
	return s.Store.KeepResponse(ctx, r, ttl)
}

// TestChangesOfConversations: a conversation whose change the store does not take stays what it was, and a change that another server makes
// meanwhile is not lost.
func TestChangesOfConversations(t *testing.T) {
	c := DefaultConfig()
	store := &meddledStore{Store: conversation.NewMemory(1 << 20)}
	c.Responses.Store = store
	r := newRig(t, c, &fakeBackend{})
	defer r.close()
	var conv struct{ ID string }
	if status, text := r.post(routeConversations, `{"items":[{"role":"user","content":"first"}]}`); status != 200 || json.Unmarshal([]byte(text), &conv) != nil {
		t.Fatalf("%d %s", status, text)
	}
	path := routeConversations + "/" + conv.ID
	add := func(text string) (int, string) {
		return r.post(path+"/items", `{"items":[{"role":"user","content":"`+text+`"}]}`)
	}
	store.meddle = func(*conversation.Response) error { return errDiskFull }
	if status, text := add("second"); status != 503 || !strings.Contains(text, "responses_unavailable") {
		t.Errorf("%d %s", status, text)
	}
	if res, text := r.do("GET", path+"/items", "", ""); res.StatusCode != 200 || !strings.Contains(text, "first") || strings.Contains(text, "second") {
		t.Errorf("the conversation is gone, or another one: %s", text)
	}
	store.meddle = func(mine *conversation.Response) error {
		theirs := *mine
		theirs.Status, theirs.Input = "another server's", []byte(`[{"type":"message","role":"user","content":"theirs","id":"msg_theirs"}]`)
		return store.Store.KeepResponse(t.Context(), &theirs, time.Hour)
	}
	if status, text := add("third"); status != 200 {
		t.Errorf("%d %s", status, text)
	}
	if _, text := r.do("GET", path+"/items?order=asc", "", ""); !strings.Contains(text, "theirs") || !strings.Contains(text, "third") {
		t.Errorf("a change is lost: %s", text)
	}
	if status, text := r.post(path, `{}`); status != 400 || !strings.Contains(text, "missing_required_parameter") {
		t.Errorf("metadata are wiped by who names none: %d %s", status, text)
	}
}
