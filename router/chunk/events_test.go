package chunk

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
)

// vector is a stream and its events with data: type, data and last id, as httpx-sse 0.4.3 (Python) reads them, which is given no byte order mark.
// eventsource-parser 3.1.1 (JavaScript) reads the same, or what stands there: it waits for an LF behind a CR that ends the stream.
type vector struct {
	Stream string      `json:"stream"`
	Events [][3]string `json:"events"`
	Other  [][2]string `json:"eventsource_parser"`
}

// read is how a client reads a stream that is in the one form.
func read(stream string) (list [][3]string) {
	var event, data, id string
	for line := range strings.SplitSeq(strings.TrimSuffix(strings.TrimPrefix(stream, byteOrder), "\n"), "\n") {
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "":
			if data != "" {
				list = append(list, [3]string{event, data, id})
			}
			event, data = "", ""
		case name == "data":
			data += value
		case name == "event":
			event = value
		case name == "id" && !strings.Contains(value, "\x00"):
			id = value
		}
	}
	return list
}

// Clients read the same events, with the same types and ids, of a stream in the one form as other people's parsers do of the stream itself, wherever it is cut.
func TestOtherParsersReadTheSameEvents(t *testing.T) {
	raw, err := os.ReadFile("testdata/events.json")
	if err != nil {
		t.Fatal(err)
	}
	var list []vector
	if err := json.Unmarshal(raw, &list); err != nil || len(list) < 50 {
		t.Fatalf("%d vectors: %v", len(list), err)
	}
	for _, v := range list {
		var want [][3]string
		for _, e := range v.Events {
			if data := strings.ReplaceAll(e[1], "\n", "\t"); strings.Trim(data, "\t") != "" {
				want = append(want, [3]string{strings.TrimPrefix(e[0], "message"), data, e[2]})
			}
		}
		check := func(pieces ...string) {
			t.Helper()
			form := passed(pieces...)
			got := slices.DeleteFunc(read(form), func(e [3]string) bool { return strings.Trim(e[1], "\t") == "" })
			for i := range got {
				got[i][0] = strings.TrimPrefix(got[i][0], "message")
			}
			if !slices.Equal(got, want) {
				t.Fatalf("%q became %q: events %q, want %q", pieces, form, got, want)
			}
		}
		check(strings.Split(v.Stream, "")...)
		for i := range len(v.Stream) + 1 {
			for k := i; k < len(v.Stream)+1; k++ {
				check(v.Stream[:i], v.Stream[i:k], v.Stream[k:])
			}
		}
	}
}
