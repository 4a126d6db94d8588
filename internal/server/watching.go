package server

import (
	"weir/internal/server/hooks"
)

// watch makes what is told of requests.
func (s *Server) watch() error {
	var kept *hooks.Kept
	if s.store != nil {
		kept = &hooks.Kept{Audit: s.store.Audit, Transcripts: s.store.Transcripts, Dropped: func() uint64 { return s.store.Usage.Stats().Dropped }}
	}
	w, err := hooks.New(hooks.Options{
		Settings: s.config, Build: s.build, Place: s.audit.place, Metrics: s.metrics, Log: s.log, Kept: kept, Ledger: s.quotas.ledger,
		Service: &s.service, Denied: s.audit.denied, Stopped: s.audit.stop, Push: s.closing.push,
	})
	s.watchers = w
	return err
}
