package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"

	"go.uber.org/zap"

	"weir/api/batch"
	"weir/api/edge"
	"weir/api/openai"
	"weir/configs"
	"weir/internal/inference"
	"weir/telemetry"
)

// filesDir is where the bytes of files are: the setting, or beside the SQLite file, or in the state directory.
func filesDir(c configs.Config) (string, error) {
	if c.Files.Dir != "" {
		return c.Files.Dir, nil
	}
	url, err := storeURL(c.Store)
	if err != nil {
		return "", err
	}
	if path, found := strings.CutPrefix(url, sqliteScheme); found {
		path, _, _ = strings.Cut(path, "?")
		return path + ".files", nil
	}
	dir, err := stateDir()
	return filepath.Join(dir, "files"), err
}

// removeFiles deletes the bytes of files that the store has forgotten.
func removeFiles(c configs.Config, files []batch.File) error {
	if len(files) == 0 {
		return nil
	}
	dir, err := filesDir(c)
	if err != nil {
		return err
	}
	return batch.RemoveFiles(dir, files)
}

// newBatches makes the handler of files and batches, in front of the others. about is the edge's configuration.
func (s *server) newBatches(about openai.Config) error {
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
func (s *server) openBatches(c batch.Config) (*batch.Server, error) {
	if s.store == nil {
		c.Unavailable = "files and batches need a store, which this server has not; start it with --store sqlite:PATH"
		return batch.New(c, s.predict)
	}
	c.Store, c.Cipher = s.store, s.store
	var err error
	if c.Dir, err = filesDir(s.config); err == nil {
		var made *batch.Server
		if made, err = batch.New(c, s.predict); err == nil {
			return made, nil
		}
	}
	if s.config.Files.Dir != "" {
		return nil, configError(fmt.Errorf("%w; --file-dir names another folder", err))
	}
	s.log.Warn("files and batches are off; --file-dir names a folder for them", zap.Error(err))
	c.Store, c.Unavailable = nil, "this server has no folder for files and batches; start it with --file-dir"
	return batch.New(c, s.predict)
}

// unfinishedBatches are what the second listener shows.
func (s *server) unfinishedBatches(ctx context.Context) (any, error) {
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
