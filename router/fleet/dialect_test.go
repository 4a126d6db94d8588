package fleet

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"weir/router"
	"weir/router/balance"
)

// typedServer answers with events, and breaks the connection where they end with "cut".
func typedServer(t *testing.T, events string) string {
	t.Helper()
	text, cut := strings.CutSuffix(events, "cut")
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, text)
		w.(http.Flusher).Flush() //nolint:forcetypeassert // it always is one
		if cut {
			panic(http.ErrAbortHandler)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL + "/v1"
}

const (
	messageBegins = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{}}\n\nevent: ping\ndata: {\"type\":\"ping\"}\n\n" +
		"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0}\n\n"
	messageSays = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"text\":\"x\"}}\n\n"
	messageEnds = "event: message_delta\ndata: {\"type\":\"message_delta\",\"usage\":{}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"

	responseBegins = "event: response.created\ndata: {\"response\":{\"status\":\"in_progress\"},\"type\":\"response.created\"}\n\n" +
		"event: response.output_item.added\ndata: {\"type\":\"response.output_item.added\"}\n\n"
	responseSays = "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"x\"}\n\n"
)

// responseEnds is long, with its type behind the rest.
var responseEnds = "event: response.completed\ndata: {\"response\":{\"text\":\"" + strings.Repeat("long ", 8<<10) + "\"},\"type\":\"response.completed\"}\n\n"

// Streams of typed events are moved to another replica before their content, and are whole with their
// last event only.
func TestTypedStreams(t *testing.T) {
	good := map[string]string{"/messages": messageBegins + messageSays + messageEnds, "/responses": responseBegins + responseSays + responseEnds}
	for _, tc := range []struct {
		name, path, first string
		attempts          int
		broken            bool
	}{
		{"whole", "/messages", messageBegins + messageSays + messageEnds, 1, false},
		{"whole", "/responses", responseBegins + responseSays + responseEnds, 1, false},
		{"an answer without content", "/messages", messageBegins + messageEnds, 1, false},
		{"cut before content", "/messages", messageBegins + "cut", 2, false},
		{"cut before content", "/responses", responseBegins + "cut", 2, false},
		{"ended before content", "/responses", responseBegins, 2, false},
		{"cut after content", "/messages", messageBegins + messageSays + "cut", 1, true},
		{"ended after content", "/messages", messageBegins + messageSays, 1, true},
		{"ended after content", "/responses", responseBegins + responseSays, 1, true},
		{"ended in its last event", "/responses", responseBegins + responseSays + strings.TrimSuffix(responseEnds, "}\n\n"), 1, true},
		{"an error before content", "/messages", messageBegins + "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n", 2, false},
		{"a failure before content", "/responses", responseBegins + "data: {\"type\":\"response.failed\",\"response\":{\"error\":{\"code\":\"server_error\"}}}\n\n", 2, false},
		{"an error after content", "/messages", messageBegins + messageSays + "event: error\ndata: {\"type\":\"error\",\"error\":{}}\n\n", 1, false},
		{"no JSON", "/messages", "event: message_start\ndata: {\"type\n\n", 2, false},
	} {
		t.Run(tc.path+" "+tc.name, func(t *testing.T) {
			f := fleetOf(t, Config{
				Balance: balance.Config{Policy: balance.RoundRobin},
				Sources: []Source{{URL: typedServer(t, tc.first)}, {URL: typedServer(t, good[tc.path])}},
			})
			attempts, broken := 0, 0
			for range 2 { // at least one of them begins at the first server
				a, text, err := take(t, f, &router.Call{Path: tc.path, Body: []byte(`{"stream":true}`), Stream: true})
				switch {
				case errors.Is(err, io.ErrUnexpectedEOF):
					broken++
					attempts++
				case err != nil || a.Status != http.StatusOK:
					t.Errorf("%v %+v %s", err, a, text)
				default:
					attempts += a.Attempts
				}
			}
			if attempts != tc.attempts+1 && attempts != 2*tc.attempts || (broken == 1) != tc.broken {
				t.Errorf("%d attempts, where one needs %d; %d broken", attempts, tc.attempts, broken)
			}
		})
	}
}
