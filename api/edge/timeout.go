package edge

import (
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"weir/api"
)

// timeoutHeaders are what clients and proxies send to say how long they wait: OpenAI's and Anthropic's
// libraries in seconds, gRPC's as a number and a unit, Envoy in milliseconds.
var timeoutHeaders = []struct {
	name api.Field
	read func(text string) (time.Duration, bool)
}{
	{api.NewField("X-Stainless-Timeout"), func(text string) (time.Duration, bool) { return inUnits(text, time.Second) }},
	{api.NewField("X-Envoy-Expected-Rq-Timeout-Ms"), func(text string) (time.Duration, bool) { return inUnits(text, time.Millisecond) }},
	{api.NewField("Grpc-Timeout"), grpcTimeout},
}

// ClientTimeout is how long the client of a request says that it waits, the soonest of what its headers say; 0 where
// none says so. Values that cannot be read are passed over: libraries write them, not people.
func ClientTimeout(h *fasthttp.RequestHeader) (soonest time.Duration) {
	for _, t := range timeoutHeaders {
		if d, ok := t.read(strings.TrimSpace(string(t.name.Of(h)))); ok {
			soonest = Sooner(soonest, d)
		}
	}
	return soonest
}

// inUnits reads a decimal number of units, above 0; what is beyond MaxDeadline is none.
func inUnits(text string, unit time.Duration) (time.Duration, bool) {
	if strings.Trim(text, "0123456789.") != "" {
		return 0, false
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || n <= 0 || n > float64(MaxDeadline)/float64(unit) {
		return 0, false
	}
	return max(time.Duration(n*float64(unit)), 1), true
}

// grpcUnits are the units of grpc-timeout.
var grpcUnits = map[byte]time.Duration{
	'H': time.Hour, 'M': time.Minute, 'S': time.Second, 'm': time.Millisecond, 'u': time.Microsecond, 'n': time.Nanosecond,
}

// grpcTimeout reads a value of grpc-timeout: up to eight digits and a unit.
func grpcTimeout(text string) (time.Duration, bool) {
	if len(text) < 2 || len(text) > 9 || strings.Contains(text, ".") {
		return 0, false
	}
	unit, known := grpcUnits[text[len(text)-1]]
	if !known {
		return 0, false
	}
	return inUnits(text[:len(text)-1], unit)
}
