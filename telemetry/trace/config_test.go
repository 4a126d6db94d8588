package trace

import (
	"strings"
	"testing"
)

func TestConfigurationsThatMakeNoSense(t *testing.T) {
	for want, c := range map[string]Config{
		`otlp_endpoint is "localhost:4318"; it must be a URL such as`: {Endpoint: "localhost:4318"},
		`otlp_endpoint is "ftp://x"`:                                  {Endpoint: "ftp://x"},
		`otlp_endpoint is "http://"`:                                  {Endpoint: "http://"},
		"trace_sample_ratio is 1.5":                                   {SampleRatio: 1.5},
	} {
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", c, err, want)
		}
	}
	if err := (Config{Endpoint: "https://collector.example/otlp/v1/traces", SampleRatio: 1}).Validate(); err != nil {
		t.Error(err)
	}
}
