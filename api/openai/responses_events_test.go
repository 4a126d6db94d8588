package openai

import (
	"bufio"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir/api/edge"
	"weir/internal/inference"
)

// streamOf sends a request for a stream and reads it up to the line that has a text.
func streamOf(t *testing.T, r *rig, body, upTo string) (read string, leave func()) {
	t.Helper()
	c, err := r.ln.Dial()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, rawRequest("POST", routeResponses, "", body)); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil || res.StatusCode != 200 {
		t.Fatalf("%+v %v", res, err)
	}
	var b strings.Builder
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		b.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), upTo) {
			break
		}
	}
	if !strings.Contains(b.String(), upTo) {
		t.Fatalf("the stream ends before %s: %s", upTo, b.String())
	}
	return b.String(), func() { _ = c.Close() }
}

// idIn is the id of the response that a stream's first event tells.
func idIn(t *testing.T, stream string) string {
	t.Helper()
	_, rest, ok := strings.Cut(stream, `"response":{"id":"`)
	id, _, end := strings.Cut(rest, `"`)
	if !ok || !end {
		t.Fatalf("no id in %s", stream)
	}
	return id
}

// A stream in the background goes on without its client, and a client that asks later reads on behind
// the event that came last.
func TestBackgroundStreamsResume(t *testing.T) {
	goOn := make(chan struct{})
	b := &fakeBackend{script: func(run *fakeRun) {
		tok := run.backend.tok
		run.token(0, byteToken(tok, 'H'))
		<-goOn
		for _, letter := range []byte("ello") {
			run.token(0, byteToken(tok, letter))
		}
		run.finish(0, inference.FinishStop)
		run.stream.Close(nil)
	}}
	r := newRig(t, DefaultConfig(), b)
	defer r.close()
	begun, leave := streamOf(t, r, `{"input":"hi","background":true,"stream":true}`, `"delta":"H"`)
	id := idIn(t, begun)
	if !strings.HasPrefix(begun, "event: response.created\n") || !strings.Contains(begun, "event: response.queued\n") {
		t.Errorf("the stream begins with %s", begun)
	}
	leave()
	if res, body := r.do("GET", "/v1/responses/"+id, "", ""); res.StatusCode != 200 || readStored(t, body).Status != "in_progress" {
		t.Errorf("while it runs: %s", body)
	}
	close(goOn)
	res, whole := r.do("GET", "/v1/responses/"+id+"?stream=true", "", "")
	events := parseEvents(t, whole)
	if last := events[len(events)-1]; res.StatusCode != 200 || last.Type != "response.completed" || !strings.Contains(whole, `"text":"Hello"`) {
		t.Fatalf("the whole stream: %d %s", res.StatusCode, whole)
	}
	if !strings.HasPrefix(whole, strings.TrimSpace(begun)) {
		t.Errorf("the stream was %s and is %s", begun, whole)
	}
	blocks := strings.SplitAfter(whole, "\n\n")
	for after := range len(events) {
		_, rest := r.do("GET", "/v1/responses/"+id+"?stream=true&starting_after="+strconv.Itoa(after), "", "")
		if want := strings.Join(blocks[after+1:], ""); rest != want {
			t.Errorf("behind event %d: %s, want %s", after, rest, want)
		}
	}
	if end := finished(t, r, id); end.Status != "completed" || end.Output[0].Content[0].Text != "Hello" {
		t.Errorf("the end is %+v", end)
	}
	if res, body := r.do("GET", "/v1/responses/"+id+"?stream=true&starting_after=x", "", ""); res.StatusCode != 400 {
		t.Errorf("a number that is none: %d %s", res.StatusCode, body)
	}
	r.openai.responses.Runs.Forget("", id) // as another process that shares the store has it
	if _, body := r.do("GET", "/v1/responses/"+id+"?stream=true&starting_after=4", "", ""); !strings.HasPrefix(body, "event: response.completed\ndata: {\"type\":\"response.completed\",\"sequence_number\":5,\"response\":{\"id\":\""+id) {
		t.Errorf("elsewhere: %s", body)
	}
}

// A cancelled response ends its stream, and no client has hung up.
func TestBackgroundStreamsAreCancelled(t *testing.T) {
	var hungUp atomic.Int32
	ended := make(chan edge.RequestFinish, 2)
	c := DefaultConfig()
	c.Hooks.OnDisconnect = func(string) { hungUp.Add(1) }
	c.Hooks.OnRequestFinish = func(f edge.RequestFinish) { ended <- f }
	b := &fakeBackend{script: func(run *fakeRun) {
		run.token(0, byteToken(run.backend.tok, 'H'))
		<-run.cancelled
		run.stream.Close(nil)
	}}
	r := newRig(t, c, b)
	defer r.close()
	for _, fields := range []string{`"stream":true,`, ``} {
		var id string
		if fields == "" {
			_, body := r.post(routeResponses, `{"input":"hi","background":true}`)
			id = readStored(t, body).ID
		} else {
			begun, leave := streamOf(t, r, `{"input":"hi","background":true,`+fields+`"store":true}`, `"delta":"H"`)
			defer leave()
			id = idIn(t, begun)
		}
		res, body := r.do("POST", "/v1/responses/"+id+"/cancel", "", "")
		if res.StatusCode != 200 || readStored(t, body).Status != "cancelled" {
			t.Errorf("cancelled: %d %s", res.StatusCode, body)
		}
		_, stream := r.do("GET", "/v1/responses/"+id+"?stream=true", "", "")
		if !strings.Contains(stream, "event: response.cancelled\n") || !strings.Contains(stream, `"status":"cancelled"`) {
			t.Errorf("its stream ends with %s", stream)
		}
		select {
		case f := <-ended:
			if f.Code != edge.CodeCancelled || f.Status != edge.StatusHungUp {
				t.Errorf("it ended with %d %s", f.Status, f.Code)
			}
		case <-time.After(patience):
			t.Fatal("its end was not told")
		}
	}
	if n := hungUp.Load(); n != 0 {
		t.Errorf("%d clients hung up", n)
	}
}

// A response that is deleted while it is computed ends, and does not come back with its end.
func TestDeletedWhileComputed(t *testing.T) {
	b := &fakeBackend{script: func(run *fakeRun) {
		run.token(0, byteToken(run.backend.tok, 'H'))
		<-run.cancelled
		run.stream.Close(nil)
	}}
	r := newRig(t, DefaultConfig(), b)
	defer r.close()
	begun, leave := streamOf(t, r, `{"input":"hi","background":true,"stream":true,"store":true}`, `"delta":"H"`)
	defer leave()
	path := "/v1/responses/" + idIn(t, begun)
	if res, body := r.do("DELETE", path, "", ""); res.StatusCode != 200 {
		t.Fatalf("deleted: %d %s", res.StatusCode, body)
	}
	select {
	case <-b.run(t, 0).cancelled:
	default:
		t.Error("it is still computed")
	}
	if res, body := r.do("GET", path, "", ""); res.StatusCode != 404 {
		t.Errorf("after it was deleted: %d %s", res.StatusCode, body)
	}
}
