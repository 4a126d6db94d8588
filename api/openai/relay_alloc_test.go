package openai

import (
	"io"
	"testing"

	"weir/router"
)

// endlessEvents is a stream of an upstream that sends one event at each read.
type endlessEvents struct{ event []byte }

func (e endlessEvents) Read(buf []byte) (int, error) { return copy(buf, e.event), nil }
func (e endlessEvents) Close() error                 { return nil }

var _ io.ReadCloser = endlessEvents{}

// An event that passes costs no memory, whether or not the model's name in it is replaced, in any form.
func TestRelayedEventsAllocateNothing(t *testing.T) {
	for form, event := range map[form]string{
		chatForm:     `data: {"id":"c","model":"theirs","choices":[{"index":0,"delta":{"content":"word"},"finish_reason":null}]}` + "\n\n",
		messageForm:  "event: content_block_delta\n" + `data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"word"}}` + "\n\n",
		responseForm: "event: response.output_text.delta\n" + `data: {"type":"response.output_text.delta","delta":"word","sequence_number":47}` + "\n\n",
	} {
		p := &passage{server: &Server{}, form: form, name: []byte(`"ours"`), answer: &router.Answer{Events: endlessEvents{[]byte(event)}}}
		s, buf := &relayStream{p: p}, make([]byte, 4096)
		if n := testing.AllocsPerRun(1000, func() {
			if _, err := s.Read(buf); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("form %d: %v allocations for an event", form, n)
		}
	}
}
