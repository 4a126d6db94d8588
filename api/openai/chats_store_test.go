package openai

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// keptChats is a list of chat completions, or of their messages.
type keptChats struct {
	Object string
	Data   []struct {
		ID, Object, Role, Model string
		Content                 string
		Parts                   []struct{ Text string } `json:"content_parts"`
		Metadata                map[string]string
		Choices                 []struct {
			Message struct{ Content string }
			Reason  string `json:"finish_reason"`
		}
		Usage struct {
			Total int `json:"total_tokens"`
		}
	}
	First string `json:"first_id"`
	Last  string `json:"last_id"`
	More  bool   `json:"has_more"`
}

// A chat whose request says store: true is read again by its tenant, whole whether it came whole or as a stream, listed, changed and deleted.
func TestChatsAreKept(t *testing.T) {
	r := newRig(t, DefaultConfig(), &fakeBackend{})
	defer r.close()
	ask := func(fields string) (id string) {
		t.Helper()
		res, body := r.do(http.MethodPost, routeChat, "X-Request-Id: mine\r\n", `{"messages":[{"role":"system","content":"Be kind."},{"role":"user","content":[{"type":"text","text":"hi"}]}],`+fields+`}`)
		if res.StatusCode != 200 {
			t.Fatal(res.StatusCode, body)
		}
		_, id, _ = strings.Cut(body, `"id":"`)
		id, _, _ = strings.Cut(id, `"`)
		return id
	}
	list := func(path string) (l keptChats) {
		t.Helper()
		res, body := r.do(http.MethodGet, path, "", "")
		if err := json.Unmarshal([]byte(body), &l); err != nil || res.StatusCode != 200 || l.Object != "list" {
			t.Fatalf("%s: %d %s %v", path, res.StatusCode, body, err)
		}
		return l
	}
	if l := list(routeChat); len(l.Data) != 0 {
		t.Errorf("nothing is kept, and %+v listed", l)
	}
	whole, stream := ask(`"store":true,"metadata":{"app":"a"}`), ask(`"store":true,"stream":true,"metadata":{"app":"b"}`)
	ask(`"store":false`)
	ask(`"temperature":0`)
	l := list(routeChat)
	if len(l.Data) != 2 || l.Data[0].ID != whole || l.Data[1].ID != stream || l.First != whole || l.Last != stream || l.More {
		t.Fatalf("%s and %s are kept: %+v", whole, stream, l)
	}
	for _, c := range l.Data {
		if c.Object != "chat.completion" || c.Choices[0].Message.Content != "Hello world" || c.Choices[0].Reason != "stop" || c.Usage.Total == 0 || c.Metadata["app"] == "" {
			t.Errorf("%+v", c)
		}
	}
	for query, want := range map[string][]string{
		"?order=desc": {stream, whole}, "?limit=1": {whole}, "?after=" + whole: {stream}, "?order=desc&after=" + stream: {whole}, "?after=" + stream: nil,
		"?metadata[app]=b": {stream}, "?model=none": nil, "?model=test-model&metadata%5Bapp%5D=a": {whole}, "?after=chatcmpl-none": nil,
	} {
		var got []string
		for _, c := range list(routeChat + query).Data {
			got = append(got, c.ID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
	messages := list(routeChat + "/" + whole + "/messages")
	if len(messages.Data) != 2 || messages.Data[0].Role != "system" || messages.Data[1].Content != "hi" || messages.Data[1].Parts[0].Text != "hi" || messages.Data[1].ID != whole+"-1" {
		t.Errorf("%+v", messages)
	}
	if res, body := r.do(http.MethodPost, routeChat+"/"+whole, "", `{"metadata":{"app":"c"}}`); res.StatusCode != 200 || !strings.Contains(body, `"metadata":{"app":"c"}`) {
		t.Errorf("%d %s", res.StatusCode, body)
	}
	if res, body := r.do(http.MethodGet, "/v1/responses/"+whole, "", ""); res.StatusCode != 404 {
		t.Errorf("a chat is read as a response: %d %s", res.StatusCode, body)
	}
	if res, body := r.do(http.MethodDelete, routeChat+"/"+whole, "", ""); res.StatusCode != 200 || !strings.Contains(body, `"chat.completion.deleted"`) {
		t.Errorf("%d %s", res.StatusCode, body)
	}
	for _, path := range []string{"/" + whole, "/" + whole + "/messages", "/resp_1", "/chatcmpl-none"} {
		if res, body := r.do(http.MethodGet, routeChat+path, "", ""); res.StatusCode != 404 || !strings.Contains(body, "completion_id") {
			t.Errorf("%s: %d %s", path, res.StatusCode, body)
		}
	}
	for _, query := range []string{"?limit=0", "?limit=x", "?order=best"} {
		if res, body := r.do(http.MethodGet, routeChat+query, "", ""); res.StatusCode != 400 {
			t.Errorf("%s: %d %s", query, res.StatusCode, body)
		}
	}
}
