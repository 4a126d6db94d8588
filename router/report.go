package router

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Report is what a replica says of its load. Values that it does not tell are negative.
type Report struct {
	Running       float64 // sequences
	Waiting       float64 // requests
	WaitingTokens float64 // prompt tokens
	KVShare       float64 // of the KV blocks in use, 0 to 1
	PrefillRate   float64 // tokens a second
	DecodeRate    float64 // tokens a second, of all sequences together
	FetchRate     float64 // prompt tokens a second whose KV blocks come from other replicas
}

// UnknownReport says nothing.
func UnknownReport() Report { return Report{-1, -1, -1, -1, -1, -1, -1} }

// LoadHeader is the field in which a weir tells a peer its load.
const LoadHeader = "X-Weir-Load"

// fields of a report by their names in the header.
func (r *Report) fields() map[string]*float64 {
	return map[string]*float64{
		"running": &r.Running, "waiting": &r.Waiting, "waiting-tokens": &r.WaitingTokens,
		"kv": &r.KVShare, "prefill": &r.PrefillRate, "decode": &r.DecodeRate, "kv-fetch": &r.FetchRate,
	}
}

// ParseReport reads the header field: names with numbers, as "running=3, waiting=0, kv=0.25".
// Names that it does not know are left out.
func ParseReport(text string) (Report, error) {
	r := UnknownReport()
	fields := r.fields()
	for item := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(item), "=")
		n, err := strconv.ParseFloat(value, 64)
		if !ok || err != nil || !(n >= 0 && n <= math.MaxInt32) {
			return UnknownReport(), fmt.Errorf("%s is %.200q; %.40q is no name=number of at least 0", LoadHeader, text, item)
		}
		if p := fields[name]; p != nil {
			*p = n
		}
	}
	return r, nil
}

// String is the header field; what is not known is left out.
func (r Report) String() string {
	var b strings.Builder
	fields := r.fields()
	for _, name := range []string{"running", "waiting", "waiting-tokens", "kv", "prefill", "decode", "kv-fetch"} {
		if v := *fields[name]; v >= 0 {
			if b.Len() > 0 {
				b.WriteString(", ")
			}
			fmt.Fprintf(&b, "%s=%s", name, strconv.FormatFloat(v, 'f', -1, 64))
		}
	}
	return b.String()
}
