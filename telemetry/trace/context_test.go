package trace

import (
	"strings"
	"testing"
)

const (
	traceID = "0af7651916cd43dd8448eb211c80319c"
	spanID  = "b7ad6b7169203331"
	valid   = "00-" + traceID + "-" + spanID + "-01"
)

func TestCallersTraceGoesOn(t *testing.T) {
	for _, c := range []struct {
		header, state string
		goesOn        bool
		sampled       bool
		kept          string
	}{
		{valid, "a=1,b=2", true, true, "a=1,b=2"},
		{"00-" + traceID + "-" + spanID + "-00", "", true, false, ""},
		{"00-" + traceID + "-" + spanID + "-03", "", true, true, ""},
		{"01-" + traceID + "-" + spanID + "-01-what-comes", "", true, true, ""},
		{valid, strings.Repeat("a", 513), true, true, ""},
		{valid, "a=1\nb", true, true, ""},
		{"", "a=1", false, false, ""},
		{valid + "-", "", false, false, ""},
		{"01-" + traceID + "-" + spanID + "-01x", "", false, false, ""},
		{"ff-" + traceID + "-" + spanID + "-01", "", false, false, ""},
		{"00-" + strings.ToUpper(traceID) + "-" + spanID + "-01", "", false, false, ""},
		{"00-" + strings.Repeat("0", 32) + "-" + spanID + "-01", "", false, false, ""},
		{"00-" + traceID + "-0000000000000000-01", "", false, false, ""},
		{"00-" + traceID + "-" + spanID + "-0g", "", false, false, ""},
		{"00_" + traceID + "-" + spanID + "-01", "", false, false, ""},
		{"01-" + traceID + "-" + spanID + "-01-" + strings.Repeat("x", 300), "", false, false, ""},
	} {
		got := Begin(c.header, c.state, 0)
		if (got.ID() == traceID) != c.goesOn || got.Sampled != c.sampled || got.State != c.kept {
			t.Errorf("%q: %+v", c.header, got)
		}
		if got.Span == [8]byte{} || got.Span == got.Parent || (got.Parent != [8]byte{}) != c.goesOn {
			t.Errorf("%q: span %x below %x", c.header, got.Span, got.Parent)
		}
	}
}

// The header that an upstream gets names our span in the caller's trace.
func TestHeaderNamesTheRequest(t *testing.T) {
	c := Begin(valid, "", 0)
	next := Begin(c.Header(), "", 0)
	if next.Trace != c.Trace || next.Parent != c.Span || !next.Sampled {
		t.Errorf("%s: %+v below %+v", c.Header(), next, c)
	}
}

func TestRatioOfTracesIsSampled(t *testing.T) {
	for _, ratio := range []float64{0, 0.1, 0.5, 1} {
		sampled, again := 0, 0
		const n = 4000
		for range n {
			c := Begin("", "", ratio)
			if c.Sampled {
				sampled++
			}
			if chosen(c.Trace, ratio) == c.Sampled {
				again++
			}
		}
		if share := float64(sampled) / n; share < ratio-0.05 || share > ratio+0.05 || again != n {
			t.Errorf("ratio %g: %g sampled, %d of %d alike the second time", ratio, share, again, n)
		}
	}
}

// Whatever a client sends, the header that comes back is valid.
func FuzzBegin(f *testing.F) {
	f.Add(valid, "a=1")
	f.Add("", "")
	f.Add("01-"+traceID+"-"+spanID+"-01-x", "\x00")
	f.Fuzz(func(t *testing.T, traceparent, tracestate string) {
		c := Begin(traceparent, tracestate, 0.5)
		again, ok := parse(c.Header())
		if !ok || again.Trace != c.Trace || again.Parent != c.Span || again.Sampled != c.Sampled {
			t.Fatalf("%q gives %q", traceparent, c.Header())
		}
		if strings.ContainsAny(c.State, "\r\n") || len(c.State) > maxStateBytes {
			t.Fatalf("tracestate %q is sent on", c.State)
		}
	})
}
