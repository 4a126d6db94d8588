package hooks

import (
	"sync"
	"time"

	"go.uber.org/zap"

	"weir/api"
	"weir/api/edge"
	"weir/telemetry"
)

// refusalsEvery is how often refused requests are summed up in the log.
const refusalsEvery = time.Minute

// refusals writes every refused request at level debug, and at level info one
// line a minute with how many there were of each code. A minute begins with
// its first refusal, so a quiet server writes nothing.
type refusals struct {
	log *zap.Logger

	mu    sync.Mutex
	codes map[string]int
	timer *time.Timer // nil: nothing to sum up
}

func newRefusals(log *zap.Logger) *refusals { return &refusals{log: log, codes: make(map[string]int)} }

func (r *refusals) add(f edge.Refusal) {
	r.log.Debug("request refused", zap.String("id", f.ID), zap.String("route", f.Route), zap.String("method", f.Method),
		zap.Int("status", f.Status), zap.String("code", f.Code), zap.String("tenant", f.Tenant), zap.String("model", f.Model),
		zap.String("version", f.Version), zap.String("reason", f.Reason), zap.String("remote", f.Remote), zap.String("trace_id", f.Trace.ID))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.codes[f.Code]++
	if r.timer == nil {
		r.timer = time.AfterFunc(refusalsEvery, r.flush)
	}
}

// flush writes what has been counted.
func (r *refusals) flush() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.timer == nil {
		return
	}
	r.timer.Stop()
	r.log.Info("requests refused", zap.Any("by_code", r.codes))
	r.timer, r.codes = nil, make(map[string]int)
}

// OfConnections counts failed accepts and handshakes, refused and evicted connections, and logs them.
func OfConnections(m *telemetry.Metrics, log *zap.Logger) api.Hooks {
	failed, turned, evicted := &telemetry.LogLimiter{Every: telemetry.TroubleEvery}, &telemetry.LogLimiter{Every: telemetry.TroubleEvery}, &telemetry.LogLimiter{Every: telemetry.TroubleEvery}
	return api.Hooks{
		OnAcceptError: func(err error, pause time.Duration) {
			m.CountAcceptError()
			failed.Do(func(held int) {
				log.Error("no connection can be accepted; trying again",
					zap.Error(err), zap.Duration("pause", pause), zap.Int("times_before", held))
			})
		},
		OnEvicted: func() {
			m.CountEvicted()
			evicted.Do(func(held int) {
				log.Warn("--http-max-connections is reached: a connection without a request was closed to make room for a new one",
					zap.Int("times_before", held))
			})
		},
		OnHandshakeError: func(why string, err error) {
			m.CountHandshakeError(why)
			log.Debug("a TLS handshake failed", zap.String("reason", why), zap.Error(err))
		},
		OnTurnedAway: func() {
			m.CountTurnedAway()
			turned.Do(func(held int) {
				log.Warn("a connection was refused: there are as many as there may be", zap.Int("times_before", held))
			})
		},
	}
}
