package hooks

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"weir/api/admin"
	"weir/api/edge"
	"weir/api/moderation"
	"weir/internal/server/state"
	"weir/telemetry"
	"weir/telemetry/audit"
)

// moderated counts what policies find, and has it noted in the audit log, without any text:
// by a goroutine of its own, so that no request waits for the store.
type moderated struct {
	entries audit.Log // nil: there is no store
	log     *zap.Logger
	count   func(telemetry.Moderated)
	queue   chan audit.Change // nil: there is no store
	stop    chan struct{}     // closed at the end: what is queued is written, and no more
	ended   sync.WaitGroup
	kept    atomic.Uint64
	dropped atomic.Uint64
}

// moderatedQueue entries may wait for the store.
const moderatedQueue = 1024

func newModerated(entries audit.Log, metrics *telemetry.Metrics, logger *zap.Logger) (*moderated, error) {
	m := &moderated{entries: entries, log: logger}
	var log func() telemetry.ModerationLog
	if entries != nil {
		m.queue, m.stop = make(chan audit.Change, moderatedQueue), make(chan struct{})
		log = func() telemetry.ModerationLog {
			return telemetry.ModerationLog{Kept: m.kept.Load(), Dropped: m.dropped.Load()}
		}
		m.ended.Go(m.write)
	}
	var err error
	m.count, err = telemetry.AddModeration(metrics, log)
	return m, err
}

// hooks let m see what policies found in requests and answers.
func (m *moderated) hooks() edge.Hooks {
	return edge.Hooks{
		OnRequestFinish: func(f edge.RequestFinish) {
			if f.Moderated != nil && len(f.Moderated.Findings) > 0 {
				m.note(f.ID, f.Model, f.Tenant, f.Moderated)
			}
		},
		OnRefused: func(r edge.Refusal) {
			if r.Moderation != nil {
				m.note(r.ID, r.Moderation.Model, r.Moderation.Tenant, r.Moderation.Report)
			}
		},
	}
}

// note counts a request's findings and queues their entry.
func (m *moderated) note(id, model, tenant string, r *moderation.Report) {
	for i := range r.Findings {
		f := &r.Findings[i]
		m.count(telemetry.Moderated{Model: model, Policy: f.Policy, Category: f.Category, Side: string(f.Side), Action: string(f.Action), Count: f.Count})
	}
	if m.queue == nil {
		return
	}
	change, err := state.ChangeOf("policy:"+r.Findings[0].Policy, state.ActionModeration, id, state.Details{"tenant": tenant, "model": model, "findings": findingViews(r)})
	if err != nil {
		m.dropped.Add(1)
		return
	}
	select {
	case m.queue <- change:
	default:
		m.dropped.Add(1)
	}
}

func (m *moderated) write() {
	trouble := &telemetry.LogLimiter{Every: telemetry.TroubleEvery}
	for {
		select {
		case change := <-m.queue:
			m.append(change, trouble)
			continue
		case <-m.stop:
		}
		select {
		case change := <-m.queue:
			m.append(change, trouble)
		default:
			return
		}
	}
}

func (m *moderated) append(change audit.Change, trouble *telemetry.LogLimiter) {
	ctx, cancel := context.WithTimeout(context.Background(), state.Timeout)
	defer cancel()
	if _, err := m.entries.Append(ctx, change); err != nil {
		m.dropped.Add(1)
		trouble.Do(func(held int) {
			m.log.Error("what policies found is not in the audit log", zap.Error(err), zap.Int("times_before", held))
		})
		return
	}
	m.kept.Add(1)
}

// close writes what is queued.
func (m *moderated) close() error {
	if m == nil || m.queue == nil {
		return nil
	}
	close(m.stop)
	done := make(chan struct{})
	go func() { m.ended.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-time.After(state.Timeout):
		return errors.New("the last findings of policies are not in the audit log: the store took too long")
	}
}

// findingViews are what operators see of a report.
func findingViews(r *moderation.Report) (views []admin.Finding) {
	if r == nil {
		return nil
	}
	for i := range r.Findings {
		f := &r.Findings[i]
		views = append(views, admin.Finding{
			Policy: f.Policy, Rule: f.Rule, Category: f.Category, Side: string(f.Side), Action: string(f.Action),
			Count: f.Count, Bytes: f.Bytes, Score: f.Score, Digest: f.Digest,
		})
	}
	return views
}
