package openai

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"weir/api/conversation"
)

type storedBody struct {
	ID, Status string
	Store      bool
	Background bool
	Previous   string `json:"previous_response_id"`
	Output     []struct {
		ID      string
		Content []struct{ Text string }
	}
	Error *struct{ Code string }
}

func readStored(t *testing.T, body string) (r storedBody) {
	t.Helper()
	if err := json.Unmarshal([]byte(body), &r); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return r
}

func TestConversationsGoOn(t *testing.T) {
	r := newRig(t, DefaultConfig(), &fakeBackend{})
	defer r.close()
	_, body := r.post(routeResponses, `{"input":"hi","instructions":"Be kind."}`)
	first := readStored(t, body)
	if !first.Store || first.Status != "completed" {
		t.Fatalf("the first response is %s", body)
	}
	res, stream := r.do("POST", routeResponses, "", `{"input":[{"role":"user","content":"more"}],"previous_response_id":"`+first.ID+`","stream":true}`)
	if res.StatusCode != 200 {
		t.Fatal(stream)
	}
	_, data, _ := strings.Cut(stream[strings.LastIndex(stream, "event: "):], `"response":`)
	second := readStored(t, strings.TrimSuffix(data, "}\n\n"))
	want := "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\nHello world<|im_end|>\n<|im_start|>user\nmore<|im_end|>\n<|im_start|>assistant\n"
	if text := r.backend.tok.Decode(r.backend.run(t, 1).req.Prompt, true); text != want {
		t.Errorf("the prompt is %q, want %q", text, want)
	}
	if second.Previous != first.ID {
		t.Errorf("the second response goes on from %q", second.Previous)
	}
	res, body = r.do("GET", "/v1/responses/"+second.ID, "", "")
	if got := readStored(t, body); res.StatusCode != 200 || got.Output[0].ID != second.Output[0].ID || got.Status != "completed" {
		t.Errorf("the second response, read again: %d %s", res.StatusCode, body)
	}
	res, body = r.do("GET", "/v1/responses/"+first.ID+"/input_items", "", "")
	if res.StatusCode != 200 || !strings.Contains(body, `"content":[{"type":"input_text","text":"hi"}]`) || !strings.Contains(body, `"has_more":false`) {
		t.Errorf("the first one's items: %d %s", res.StatusCode, body)
	}
	if res, body = r.do("POST", "/v1/responses/"+first.ID+"/cancel", "", ""); res.StatusCode != 400 {
		t.Errorf("cancelled: %d %s", res.StatusCode, body)
	}
	if res, body = r.do("DELETE", "/v1/responses/"+first.ID, "", ""); res.StatusCode != 200 || !strings.Contains(body, `"deleted":true`) {
		t.Errorf("deleted: %d %s", res.StatusCode, body)
	}
	for _, tc := range []struct {
		method, path, body, code string
		status                   int
	}{
		{"GET", "/v1/responses/" + first.ID, "", "response_not_found", 404},
		{"DELETE", "/v1/responses/" + first.ID, "", "response_not_found", 404},
		{"GET", "/v1/responses/" + first.ID + "/input_items", "", "response_not_found", 404},
		{"PUT", "/v1/responses/" + second.ID, "", "method_not_allowed", 405},
		{"POST", routeResponses, `{"input":"x","previous_response_id":"` + first.ID + `"}`, "previous_response_not_found", 400},
		{"POST", routeResponses, `{"input":"x","previous_response_id":"` + second.ID + `"}`, "previous_response_not_found", 400},
		{"POST", routeResponses, `{"input":"x","previous_response_id":"resp_\u0000"}`, "previous_response_not_found", 400},
		{"POST", routeResponses, `{"input":"x","store":false,"background":true}`, "invalid_value", 400},
		{"GET", "/v1/responses/" + second.ID + "/input_items?limit=0", "", "invalid_value", 400},
	} {
		if res, body := r.do(tc.method, tc.path, "", tc.body); res.StatusCode != tc.status || !strings.Contains(body, tc.code) {
			t.Errorf("%s %s %s: %d %s", tc.method, tc.path, tc.body, res.StatusCode, body)
		}
	}
	_, body = r.post(routeResponses, `{"input":"hi","store":false}`)
	if got := readStored(t, body); got.Store {
		t.Errorf("a response that is not kept says %s", body)
	} else if res, _ := r.do("GET", "/v1/responses/"+got.ID, "", ""); res.StatusCode != 404 {
		t.Errorf("it is kept: %d", res.StatusCode)
	}
	if n := r.openai.Forget(""); n != 1 {
		t.Errorf("%d answers were forgotten, want the second response", n)
	}
}

func TestItemsOfAResponseArePaged(t *testing.T) {
	r := newRig(t, DefaultConfig(), &fakeBackend{})
	defer r.close()
	_, body := r.post(routeResponses, `{"input":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"id":"own","role":"user","content":"c"}]}`)
	path := "/v1/responses/" + readStored(t, body).ID + "/input_items"
	var page struct {
		Data  []struct{ ID string }
		First string `json:"first_id"`
		Last  string `json:"last_id"`
		More  bool   `json:"has_more"`
	}
	_, text := r.do("GET", path+"?limit=2", "", "")
	if err := json.Unmarshal([]byte(text), &page); err != nil || len(page.Data) != 2 || page.First != "own" || !page.More {
		t.Errorf("the first page is %s", text)
	}
	_, text = r.do("GET", path+"?limit=2&after="+page.Last, "", "")
	if err := json.Unmarshal([]byte(text), &page); err != nil || len(page.Data) != 1 || page.More || !strings.HasSuffix(page.Data[0].ID, "_i0") {
		t.Errorf("the second page is %s", text)
	}
	_, text = r.do("GET", path+"?order=asc&after=own", "", "")
	if !strings.Contains(text, `"data":[]`) {
		t.Errorf("the page behind the last item is %s", text)
	}
}

func TestResponsesAreTheirTenants(t *testing.T) {
	c := DefaultConfig()
	c.APIKeys = []string{"sk-0123456789", "sk-another-key"}
	r := newRig(t, c, &fakeBackend{})
	defer r.close()
	const mine, other = "Authorization: Bearer sk-0123456789\r\n", "Authorization: Bearer sk-another-key\r\n"
	_, body := r.do("POST", routeResponses, mine, `{"input":"hi"}`)
	id := readStored(t, body).ID
	for _, method := range []string{"GET", "DELETE"} {
		if res, _ := r.do(method, "/v1/responses/"+id, other, ""); res.StatusCode != 404 {
			t.Errorf("another tenant's %s: %d", method, res.StatusCode)
		}
	}
	if res, _ := r.do("POST", routeResponses, other, `{"input":"x","previous_response_id":"`+id+`"}`); res.StatusCode != 400 {
		t.Errorf("another tenant goes on from it: %d", res.StatusCode)
	}
	if res, _ := r.do("GET", "/v1/responses/"+id, mine, ""); res.StatusCode != 200 {
		t.Errorf("its own tenant: %d", res.StatusCode)
	}
}

func TestNothingIsKeptWithoutTime(t *testing.T) {
	c := DefaultConfig()
	c.Responses.TTL = 0
	r := newRig(t, c, &fakeBackend{})
	defer r.close()
	res, body := r.do("POST", routeResponses, "", `{"input":"hi","store":true}`)
	got := readStored(t, body)
	if got.Store || !strings.Contains(res.Header.Get("X-Weir-Warnings"), "store") {
		t.Errorf("%s, warnings %q", body, res.Header.Get("X-Weir-Warnings"))
	}
	if status, body := r.post(routeResponses, `{"input":"hi","previous_response_id":"`+got.ID+`"}`); status != 400 || !strings.Contains(body, "--responses-ttl") {
		t.Errorf("%d %s", status, body)
	}
	if res, _ := r.do("GET", "/v1/responses/"+got.ID, "", ""); res.StatusCode != 404 {
		t.Errorf("it is kept: %d", res.StatusCode)
	}
}

var errDiskFull = errors.New("the disk is full")

// brokenStore fails at everything.
type brokenStore struct{ conversation.Store }

func (brokenStore) KeepResponse(context.Context, *conversation.Response, time.Duration) error {
	return errDiskFull
}

func (brokenStore) FindResponse(context.Context, string, string) (*conversation.Response, error) {
	return nil, errDiskFull
}

func (brokenStore) Conversation(context.Context, string, string) ([]*conversation.Response, error) {
	return nil, errDiskFull
}

// A response that could not be kept says so, and a conversation does not go on without its past.
func TestAStoreThatFails(t *testing.T) {
	c := DefaultConfig()
	failed := make(chan error, 10)
	c.Responses.Store, c.Responses.Failed = brokenStore{}, func(err error) { failed <- err }
	r := newRig(t, c, &fakeBackend{})
	defer r.close()
	res, body := r.do("POST", routeResponses, "", `{"input":"hi"}`)
	if res.StatusCode != 200 || readStored(t, body).Store || !errors.Is(<-failed, errDiskFull) {
		t.Errorf("%d %s", res.StatusCode, body)
	}
	if warning := res.Header.Get("X-Weir-Warnings"); !strings.Contains(warning, "the response is not kept") {
		t.Errorf("the warnings are %q", warning)
	}
	if res, body := r.do("GET", "/ready", "", ""); res.StatusCode != 200 || !strings.Contains(body, "the store does not take responses") {
		t.Errorf("/ready: %d %s", res.StatusCode, body)
	}
	if n := r.openai.Unkept(); n != 1 {
		t.Errorf("%d responses count as not kept", n)
	}
	for _, body := range []string{`{"input":"hi","previous_response_id":"resp_1"}`, `{"input":"hi","background":true}`} {
		if status, answer := r.post(routeResponses, body); status != 503 || !strings.Contains(answer, "responses_unavailable") {
			t.Errorf("%s: %d %s", body, status, answer)
		}
	}
}

// lockedStore takes nothing until it is unlocked.
type lockedStore struct {
	conversation.Store
	unlocked chan struct{}
}

func (s lockedStore) KeepResponse(ctx context.Context, r *conversation.Response, ttl time.Duration) error {
	select {
	case <-s.unlocked:
		return s.Store.KeepResponse(ctx, r, ttl)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Answers end though the store takes nothing, say that they are not kept, and are found once it does.
func TestAStoreThatIsLocked(t *testing.T) {
	c := DefaultConfig()
	store := lockedStore{conversation.NewMemory(1 << 20), make(chan struct{})}
	failed := make(chan error, 10)
	c.Responses.Store, c.Responses.Failed = store, func(err error) { failed <- err }
	r := newRig(t, c, &fakeBackend{})
	defer r.close()
	r.openai.responses.KeepWait = time.Millisecond
	res, body := r.do("POST", routeResponses, "", `{"input":"hi"}`)
	first := readStored(t, body)
	if warning := res.Header.Get("X-Weir-Warnings"); res.StatusCode != 200 || first.Store || !strings.Contains(warning, "not kept so far") {
		t.Errorf("%d %s, warnings %q", res.StatusCode, body, warning)
	}
	if err := <-failed; !strings.Contains(err.Error(), "the write goes on") {
		t.Errorf("the log says %v", err)
	}
	_, stream := r.do("POST", routeResponses, "", `{"input":"hi","stream":true}`)
	if !strings.Contains(stream, "response.completed") || !strings.Contains(stream, `"store":false`) {
		t.Errorf("the stream is %s", stream)
	}
	_, chat := r.post(routeChat, `{"messages":[{"role":"user","content":"hi"}],"store":true}`)
	if n, unkept := r.openai.Late(), r.openai.Unkept(); n != 3 || unkept != 0 {
		t.Errorf("%d answers did not wait, %d were given up", n, unkept)
	}
	close(store.unlocked)
	if status, answer := r.post(routeResponses, `{"input":"more","previous_response_id":"`+first.ID+`"}`); status != 200 || readStored(t, answer).Previous != first.ID {
		t.Errorf("going on: %d %s", status, answer)
	}
	if res, body := r.do("DELETE", "/v1/responses/"+first.ID, "", ""); res.StatusCode != 200 {
		t.Errorf("deleted: %d %s", res.StatusCode, body)
	}
	if res, body := r.do("GET", "/v1/chat/completions/"+readStored(t, chat).ID, "", ""); res.StatusCode != 200 {
		t.Errorf("the chat: %d %s", res.StatusCode, body)
	}
}

// finished reads a response until it has ended.
func finished(t *testing.T, r *rig, id string) storedBody {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if _, body := r.do(http.MethodGet, "/v1/responses/"+id, "", ""); !strings.Contains(body, `"status":"in_progress"`) {
			return readStored(t, body)
		}
	}
	t.Fatal("the response does not end")
	return storedBody{}
}

func TestResponsesInTheBackground(t *testing.T) {
	const hangs, fails = 7, 9 // tokens of the requests that do
	b := &fakeBackend{script: func(run *fakeRun) {
		switch run.req.MaxTokens {
		case hangs:
			<-run.cancelled
			run.stream.Close(nil)
		case fails:
			run.stream.Close(errDiskFull)
		default:
			run.say("Hello world", 0)
		}
	}}
	r := newRig(t, DefaultConfig(), b)
	defer r.close()
	_, body := r.post(routeResponses, `{"input":"hi","background":true}`)
	first := readStored(t, body)
	if first.Status != "queued" || !first.Background || !first.Store {
		t.Fatalf("the answer is %s", body)
	}
	if end := finished(t, r, first.ID); end.Status != "completed" || end.Output[0].Content[0].Text != "Hello world" {
		t.Errorf("the end is %+v", end)
	}
	if res, body := r.do("POST", "/v1/responses/"+first.ID+"/cancel", "", ""); res.StatusCode != 200 || readStored(t, body).Status != "completed" {
		t.Errorf("a response that has ended is cancelled: %d %s", res.StatusCode, body)
	}
	_, body = r.post(routeResponses, `{"input":"hi","background":true,"max_output_tokens":7}`)
	second := readStored(t, body)
	if _, body := r.do("GET", "/v1/responses/"+second.ID, "", ""); readStored(t, body).Status != "in_progress" {
		t.Errorf("while it runs: %s", body)
	}
	if status, body := r.post(routeResponses, `{"input":"x","previous_response_id":"`+second.ID+`"}`); status != 400 {
		t.Errorf("going on from it while it runs: %d %s", status, body)
	}
	res, body := r.do("POST", "/v1/responses/"+second.ID+"/cancel", "", "")
	if res.StatusCode != 200 || readStored(t, body).Status != "cancelled" {
		t.Errorf("cancelled: %d %s", res.StatusCode, body)
	}
	_, body = r.post(routeResponses, `{"input":"hi","background":true,"max_output_tokens":9}`)
	if end := finished(t, r, readStored(t, body).ID); end.Status != "failed" || end.Error == nil {
		t.Errorf("the end is %+v", end)
	}
}

// Another process that shares the store cancels a response.
func TestResponsesAreCancelledFromElsewhere(t *testing.T) {
	b := &fakeBackend{script: func(run *fakeRun) {
		<-run.cancelled
		run.stream.Close(nil)
	}}
	c := DefaultConfig()
	c.Responses.Store = conversation.NewMemory(1 << 20)
	r, other := newRig(t, c, b), newRig(t, c, &fakeBackend{})
	defer r.close()
	defer other.close()
	r.openai.responses.Runs.LookEvery = 5 * time.Millisecond
	_, body := r.post(routeResponses, `{"input":"hi","background":true}`)
	id := readStored(t, body).ID
	if res, body := other.do("POST", "/v1/responses/"+id+"/cancel", "", ""); res.StatusCode != 200 || readStored(t, body).Status != "cancelled" {
		t.Errorf("cancelled: %d %s", res.StatusCode, body)
	}
	select {
	case <-b.run(t, 0).cancelled:
	case <-time.After(20 * time.Second):
		t.Error("the run goes on")
	}
	if got := finished(t, r, id); got.Status != "cancelled" {
		t.Errorf("the end is %+v", got)
	}
}

// Another process that shares the store deletes a response, which ends and does not come back; one whose process is gone is told so to what goes on
// from it.
func TestResponsesAreDeletedFromElsewhere(t *testing.T) {
	b := &fakeBackend{script: func(run *fakeRun) {
		<-run.cancelled
		run.stream.Close(nil)
	}}
	c := DefaultConfig()
	c.Responses.Store = conversation.NewMemory(1 << 20)
	r, other := newRig(t, c, b), newRig(t, c, &fakeBackend{})
	defer r.close()
	defer other.close()
	r.openai.responses.Runs.LookEvery = 5 * time.Millisecond
	_, body := r.post(routeResponses, `{"input":"hi","background":true}`)
	id := readStored(t, body).ID
	if res, body := other.do("DELETE", "/v1/responses/"+id, "", ""); res.StatusCode != 200 {
		t.Errorf("deleted: %d %s", res.StatusCode, body)
	}
	<-b.run(t, 0).cancelled
	if err := r.openai.Drain(t.Context()); err != nil {
		t.Error(err)
	}
	if res, body := other.do("GET", "/v1/responses/"+id, "", ""); res.StatusCode != 404 {
		t.Errorf("after its end: %d %s", res.StatusCode, body)
	}
}

// lostStore has one response, whose process is gone.
type lostStore struct{ conversation.Store }

func (lostStore) Conversation(context.Context, string, string) ([]*conversation.Response, error) {
	return []*conversation.Response{{ID: "resp_gone", Status: conversation.InProgress, Lost: true}}, nil
}

func TestLostResponsesAreNotWaitedFor(t *testing.T) {
	c := DefaultConfig()
	c.Responses.Store = lostStore{conversation.NewMemory(1 << 20)}
	r := newRig(t, c, &fakeBackend{})
	defer r.close()
	if status, body := r.post(routeResponses, `{"input":"hi","previous_response_id":"resp_gone"}`); status != 400 && status != 404 || !strings.Contains(body, "has failed: the process that computed it is gone") {
		t.Errorf("%d %s", status, body)
	}
}

// A conversation that was summed up goes on with its summary: what the user said stays word for word.
func TestConversationsAreCompacted(t *testing.T) {
	r := newRig(t, DefaultConfig(), &fakeBackend{})
	defer r.close()
	m := testModel(t, r.backend)
	m.MaxModelLen = 4096
	if err := r.openai.SetModels(m); err != nil {
		t.Fatal(err)
	}
	type compacted struct {
		ID, Object string
		Output     []struct {
			ID, Type, Role, Encrypted string
			Content                   []struct{ Text string }
		}
		Usage struct {
			Input int `json:"input_tokens"`
		}
	}
	const items = `[{"role":"user","content":"hi"},{"role":"assistant","content":"yes?"},{"role":"user","content":"more"}]`
	res, body := r.do("POST", "/v1/responses/compact", "", `{"input":`+items+`,"instructions":"Be kind."}`)
	var c compacted
	if err := json.Unmarshal([]byte(body), &c); err != nil || res.StatusCode != 200 || c.Object != "response.compaction" || len(c.Output) != 3 || c.Usage.Input == 0 {
		t.Fatal(res.StatusCode, body, err)
	}
	if o := c.Output; o[0].Content[0].Text != "hi" || o[1].Content[0].Text != "more" || o[0].ID == o[1].ID || o[2].Type != "compaction" {
		t.Errorf("%+v", o)
	}
	asked := r.backend.tok.Decode(r.backend.run(t, 0).req.Prompt, true)
	if !strings.Contains(asked, "yes?") || !strings.Contains(asked, "more<|im_end|>\n<|im_start|>assistant\n<|im_end|>\n<|im_start|>user\nSum up") {
		t.Errorf("the model is asked %q", asked)
	}
	var whole struct{ Output json.RawMessage }
	if err := json.Unmarshal([]byte(body), &whole); err != nil {
		t.Fatal(err)
	}
	next := strings.TrimSuffix(string(whole.Output), "]") + `,{"role":"user","content":"and now?"}]`
	if res, body = r.do("POST", routeResponses, "", `{"input":`+next+`}`); res.StatusCode != 200 {
		t.Fatal(res.StatusCode, body)
	}
	prompt := r.backend.tok.Decode(r.backend.run(t, 1).req.Prompt, true)
	if !strings.Contains(prompt, "Summary of the conversation so far:\n\nHello world<|im_end|>") || strings.Contains(prompt, "yes?") || strings.Count(prompt, "more") != 1 {
		t.Errorf("the conversation goes on with %q", prompt)
	}
	first := readStored(t, body)
	if res, body = r.do("POST", "/v1/responses/compact", "", `{"previous_response_id":"`+first.ID+`"}`); res.StatusCode != 200 || !strings.Contains(body, "and now?") {
		t.Errorf("of a kept response: %d %s", res.StatusCode, body)
	}
	for fields, word := range map[string]string{
		`"input":"hi","stream":true`: "stream", `"instructions":"x"`: "input", `"input":[{"type":"compaction","encrypted_content":"gAAAAB"}]`: "encrypted_content",
		`"input":[{"type":"compaction"}]`: "encrypted_content", `"input":"hi","previous_response_id":"resp_none"`: "resp_none",
	} {
		if res, body := r.do("POST", "/v1/responses/compact", "", `{`+fields+`}`); res.StatusCode != 400 && res.StatusCode != 404 || !strings.Contains(body, word) {
			t.Errorf("%s: %d %s", fields, res.StatusCode, body)
		}
	}
}
