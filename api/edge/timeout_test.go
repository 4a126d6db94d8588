package edge

import (
	"testing"
	"time"

	"github.com/valyala/fasthttp"
)

func TestClientTimeouts(t *testing.T) {
	for _, tc := range []struct {
		name, value string
		want        time.Duration
	}{
		{"X-Stainless-Timeout", "600", 10 * time.Minute}, {"x-stainless-timeout", "2.5", 2500 * time.Millisecond},
		{"X-Stainless-Timeout", "NOT_GIVEN", 0}, {"X-Stainless-Timeout", "0", 0}, {"X-Stainless-Timeout", "-3", 0}, {"X-Stainless-Timeout", "1e3", 0},
		{"X-Stainless-Timeout", "999999999999", 0}, {"X-Stainless-Timeout", "", 0}, {"X-Stainless-Timeout", "NaN", 0},
		{"x-envoy-expected-rq-timeout-ms", "1500", 1500 * time.Millisecond}, {"x-envoy-expected-rq-timeout-ms", "x", 0},
		{"grpc-timeout", "5S", 5 * time.Second}, {"grpc-timeout", "100m", 100 * time.Millisecond}, {"grpc-timeout", "2H", 2 * time.Hour},
		{"grpc-timeout", "7u", 7 * time.Microsecond}, {"grpc-timeout", "9n", 9}, {"grpc-timeout", "123456789S", 0}, {"grpc-timeout", "S", 0},
		{"grpc-timeout", "1.5S", 0}, {"grpc-timeout", "5s", 0},
	} {
		var h fasthttp.RequestHeader
		h.Set(tc.name, tc.value)
		if got := ClientTimeout(&h); got != tc.want {
			t.Errorf("%s: %q is %v, want %v", tc.name, tc.value, got, tc.want)
		}
	}
	var h fasthttp.RequestHeader
	h.Set("X-Stainless-Timeout", "60")
	h.Set("grpc-timeout", "3S")
	if got := ClientTimeout(&h); got != 3*time.Second {
		t.Errorf("of two the soonest is %v", got)
	}
}
