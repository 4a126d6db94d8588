package server

import (
	"context"
	"fmt"
	"sync/atomic"

	"weir/internal/console"
	"weir/internal/server/state"

	"go.uber.org/zap"

	"weir/api/batch"
	"weir/api/edge"
	"weir/api/openai"
	"weir/internal/inference"
	"weir/telemetry"
)

// newBatches makes the handler of files and batches, in front of the others. about is the edge's configuration.
func (s *Server) newBatches(about openai.Config) error {
	all := s.seen(hooks(s.metrics, s.log, s.refusals, s.traces))
	trouble := &quietly{every: troubleEvery}
	c := batch.Config{
		Callers: s.callers.authenticator, Hooks: edge.Hooks{OnResponse: all.OnResponse, OnRefused: all.OnRefused, OnPanic: all.OnPanic},
		Keys: s.edge.Keys(), Edge: batch.Edges{s.predict, s.edge}, Limits: s.config.Files.Limits, DrainRetries: about.DrainRetries, Busy: s.others.running,
		Audit: func(ctx context.Context, by, action, object string, more map[string]any) error {
			return s.audit(ctx, by, action, object, more)
		},
		Failed: func(err error) {
			trouble.do(func(held int) {
				s.log.Error("files or batches failed; they are tried again", zap.Error(err), zap.Int("times_before", held))
			})
		},
	}
	c.Limits.LineBytes = s.config.HTTP.MaxRequestBytes + lineOverhead
	var err error
	if s.batches, err = s.openBatches(c); err != nil {
		return err
	}
	return s.metrics.AddBatches(func() telemetry.Batches {
		st := s.batches.Stats()
		return telemetry.Batches{Running: st.Batches, Lines: st.Lines, Completed: st.Completed, Failed: st.Failed,
			Expired: st.Expired, Cancelled: st.Cancelled, Refused: st.Refused}
	})
}

// lineOverhead is what a line of a batch has beside the body of its request.
const lineOverhead = 4 << 10

// openBatches opens the folder of files. Where there is no store, or no folder at the default place, files and batches
// are refused with the reason, and all else is served.
func (s *Server) openBatches(c batch.Config) (*batch.Server, error) {
	if s.store == nil {
		c.Unavailable = "files and batches need a store, which this server has not; start it with --store sqlite:PATH"
		return batch.New(c, s.predict)
	}
	c.Store, c.Cipher = s.store, s.store
	var err error
	if c.Dir, err = state.FilesDir(s.config); err == nil {
		var made *batch.Server
		if made, err = batch.New(c, s.predict); err == nil {
			return made, nil
		}
	}
	if s.config.Files.Dir != "" {
		return nil, console.ConfigError(fmt.Errorf("%w; --file-dir names another folder", err))
	}
	s.log.Warn("files and batches are off; --file-dir names a folder for them", zap.Error(err))
	c.Store, c.Unavailable = nil, "this server has no folder for files and batches; start it with --file-dir"
	return batch.New(c, s.predict)
}

// unfinishedBatches are what the second listener shows.
func (s *Server) unfinishedBatches(ctx context.Context) (any, error) {
	return s.batches.Unfinished(ctx)
}

// others counts the requests that run or wait and are not of the lowest class, predictions among them: batches make room for them.
type others struct {
	n    atomic.Int64
	came atomic.Bool // since running was asked the last time: predictions are over before anybody looks
}

// running is how many there are, or were since the call before.
func (o *others) running() int {
	n := int(o.n.Load())
	if o.came.Swap(false) {
		return max(n, 1)
	}
	return n
}

// isOther tells requests that the machine computes for and that are not of the lowest class. What is passed on to other
// servers is theirs to refuse.
func isOther(r *edge.RequestStart) bool { return r.Class != inference.Batch && !r.Relayed }

// counted lets the hooks count, before they do anything else.
func (o *others) counted(h edge.Hooks) edge.Hooks {
	start, finish := h.OnRequestStart, h.OnRequestFinish
	h.OnRequestStart = func(r edge.RequestStart) {
		if isOther(&r) {
			o.n.Add(1)
			o.came.Store(true)
		}
		if start != nil {
			start(r)
		}
	}
	h.OnRequestFinish = func(f edge.RequestFinish) {
		if isOther(&f.RequestStart) {
			o.n.Add(-1)
		}
		if finish != nil {
			finish(f)
		}
	}
	return h
}
