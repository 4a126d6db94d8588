package bench

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// The streams of the stand-in come whole, and are counted; a way that cuts them is an error.
func TestRelayMeasuresStreams(t *testing.T) {
	ways, err := RunRelay(t.Context(), RelayOptions{Streams: 4, Tokens: 5, Gap: time.Millisecond, Rounds: 2, Singles: 3})
	if err != nil {
		t.Fatal(err)
	}
	d := ways[0]
	if len(ways) != 1 || d.Tokens != 40 || len(d.First) != 8 || len(d.Single) != 6 || d.CPU != 0 || d.Late[0] < 0 {
		t.Errorf("%+v", d)
	}
	proxy := &RelayWay{Name: "nginx", plain: true, pid: 1, Tokens: 10, CPU: 40 * time.Microsecond, Single: []float64{0.002}, First: []float64{0.003}}
	weir := &RelayWay{Name: "weir route", pid: 1, Tokens: 10, CPU: 50 * time.Microsecond, Single: []float64{0.002}, First: []float64{0.003}}
	var out bytes.Buffer
	if err := WriteRelay(&out, []*RelayWay{{Name: "direct", Single: []float64{0.001}}, weir, proxy}); err != nil ||
		!strings.Contains(out.String(), "5.00 µs") || !strings.Contains(out.String(), "1.25×") || !strings.Contains(out.String(), "1000 µs") {
		t.Errorf("%v\n%s", err, out.String())
	}
	cut := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, standInEvent) }))
	defer cut.Close()
	r := &relayRun{o: &RelayOptions{}, client: cut.Client()}
	if _, _, err := r.stream(t.Context(), &RelayWay{url: cut.URL}, 5); err == nil || !strings.Contains(err.Error(), "1 events instead of 5") {
		t.Errorf("a stream that is cut: %v", err)
	}
}
