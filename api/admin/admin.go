// Package admin is the second listener: metrics, profiles and state for
// operators. It uses net/http, whose pprof and promhttp handlers work as they
// are, and must not be reachable by clients of the API.
package admin

import "net/http"

// Config is what the handlers of the second listener are made of.
type Config struct {
	Metrics http.Handler                    // GET /metrics; nil: 404
	Ready   func() (ready bool, why string) // GET /health and /ready; nil: always ready
	Debug   map[string]func() any           // GET /debug/NAME: a snapshot as JSON
	Version string
}

// New returns the handler of the second listener.
func New(c Config) http.Handler { return http.NewServeMux() }
