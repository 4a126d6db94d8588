package trace

import (
	"fmt"
	"net/url"
	"strings"
)

// Config is what an operator sets.
type Config struct {
	Endpoint    string  // URL of a collector's OTLP over HTTP: http://127.0.0.1:4318; empty: no traces
	SampleRatio float64 // of the requests whose caller has not decided
}

// Validate reports what makes no sense.
func (c Config) Validate() error {
	if c.SampleRatio < 0 || c.SampleRatio > 1 {
		return fmt.Errorf("trace_sample_ratio is %g; it must be from 0 to 1", c.SampleRatio)
	}
	if c.Endpoint == "" {
		return nil
	}
	_, err := c.URL()
	return err
}

// URL is the address that spans are posted to: a collector's standard path
// where the endpoint names none.
func (c Config) URL() (string, error) {
	u, err := url.Parse(c.Endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", fmt.Errorf("otlp_endpoint is %q; it must be a URL such as http://127.0.0.1:4318", c.Endpoint)
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path = "/v1/traces"
	}
	return u.String(), nil
}
