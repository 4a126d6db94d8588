package hooks

import (
	"net/http"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"weir/api/edge"
	"weir/configs"
)

// accessLog writes a line at level info for requests to models and for refused requests: the first of each second that
// succeeded, and as many that did not. What it leaves out is told in the next line (skipped).
type accessLog struct {
	log *zap.Logger

	mu              sync.Mutex
	perSecond       int // of each kind; 0 is no log
	second          int64
	written, failed int // in this second
	skipped         int // since the last line
}

func newAccessLog(log *zap.Logger, perSecond int) *accessLog {
	return &accessLog{log: log, perSecond: perSecond}
}

// setRate takes another number of lines per second.
func (a *accessLog) setRate(perSecond int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.perSecond = perSecond
}

// Rate is the live part of the access log.
func (a *accessLog) Rate(c configs.Config) (commit func(), err error) {
	return func() { a.setRate(c.Log.AccessPerSecond) }, nil
}

// admit reports whether a line may be written now, and how many were not since the last one.
func (a *accessLog) admit(now time.Time, failed bool) (skipped int, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.perSecond == 0 {
		return 0, false
	}
	if s := now.Unix(); s != a.second {
		a.second, a.written, a.failed = s, 0, 0
	}
	count := &a.written
	if failed {
		count = &a.failed
	}
	if *count >= a.perSecond {
		a.skipped++
		return 0, false
	}
	*count++
	skipped, a.skipped = a.skipped, 0
	return skipped, true
}

// access is what a line says.
type access struct {
	id, method, path, code         string
	status                         int
	tenant, model, version, arm    string
	prompt, output                 int
	firstToken, duration           time.Duration // firstToken 0: none came
	class, remote, traceID, reason string
	seed                           int64
	sampled                        bool // by seed
}

func (a *accessLog) write(skipped int, r *access) {
	fields := []zap.Field{
		zap.String("id", r.id), zap.String("method", r.method), zap.String("path", r.path), zap.Int("status", r.status),
		zap.String("tenant", r.tenant), zap.String("model", r.model),
	}
	for _, f := range []struct{ name, value string }{
		{"version", r.version}, {"arm", r.arm}, {"code", r.code}, {"reason", r.reason}, {"class", r.class}, {"remote", r.remote}, {"trace_id", r.traceID},
	} {
		if f.value != "" {
			fields = append(fields, zap.String(f.name, f.value))
		}
	}
	fields = append(fields, zap.Int("prompt_tokens", r.prompt), zap.Int("output_tokens", r.output))
	if r.firstToken > 0 {
		fields = append(fields, zap.Float64("ttft_ms", milliseconds(r.firstToken)))
	}
	fields = append(fields, zap.Float64("duration_ms", milliseconds(r.duration)))
	if r.sampled {
		fields = append(fields, zap.Int64("seed", r.seed))
	}
	if skipped > 0 {
		fields = append(fields, zap.Int("skipped", skipped))
	}
	a.log.Info("request", fields...)
}

// milliseconds is a time to a thousandth of one.
func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// finished writes the line of a request that a model was asked.
func (a *accessLog) finished(f *edge.RequestFinish) {
	skipped, ok := a.admit(f.Finished, f.Status >= http.StatusBadRequest)
	if !ok {
		return
	}
	r := &access{
		id: f.ID, method: http.MethodPost, path: f.Endpoint, status: f.Status, code: f.Code, tenant: f.Tenant, model: f.Model,
		version: f.Version, arm: f.Arm.Name, prompt: f.PromptTokens, output: f.OutputTokens, class: f.Class.String(),
		duration: f.Finished.Sub(f.Arrived), traceID: f.Trace.ID, seed: f.Seed, sampled: f.Sampled,
	}
	if strings.HasPrefix(f.Endpoint, "/inference.") {
		r.method = "gRPC"
	}
	if !f.FirstToken.IsZero() {
		r.firstToken = f.FirstToken.Sub(f.Arrived)
	}
	a.write(skipped, r)
}

// refused writes the line of a request that came to no model.
func (a *accessLog) refused(r *edge.Refusal, now time.Time) {
	skipped, ok := a.admit(now, r.Status >= http.StatusBadRequest)
	if !ok {
		return
	}
	a.write(skipped, &access{
		id: r.ID, method: r.Method, path: r.Route, status: r.Status, code: r.Code, tenant: r.Tenant, model: r.Model,
		version: r.Version, arm: r.Arm.Name, duration: now.Sub(r.Arrived), remote: r.Remote, reason: r.Reason, traceID: r.Trace.ID,
	})
}
