package server

import (
	"context"
	"fmt"

	"go.uber.org/zap"

	"weir/api/batch"
	"weir/api/edge"
	"weir/api/openai"
	"weir/configs"
	"weir/internal/console"
	"weir/internal/server/state"
	"weir/telemetry"
)

// newMux makes the handler of the API listener, without its protocols. about is the edge's configuration.
func newMux(s *Server, about openai.Config) *edge.Mux {
	return edge.NewMux(edge.MuxConfig{Callers: s.callers.authenticator, DrainRetries: about.DrainRetries, CompressMinBytes: about.CompressMinBytes,
		MaxRequestBytes: s.config.HTTP.MaxRequestBytes, OnPanic: about.Hooks.OnPanic})
}

// newBatches makes the protocol of files and batches.
func newBatches(s *Server) (*batch.Server, error) {
	trouble := &telemetry.LogLimiter{Every: telemetry.TroubleEvery}
	c := batch.Config{
		Callers: s.callers.authenticator, Hooks: s.watchers.Batches(),
		Keys: s.edge.Keys(), Edge: s.mux, Limits: s.config.Files.Limits, Busy: s.watchers.Foreground.Running,
		Models: func() []string { return append(s.edge.Names(), s.predictors.names()...) },
		Audit: func(ctx context.Context, by, action, object string, more map[string]any) error {
			return s.audit.Add(ctx, by, action, object, more)
		},
		Failed: func(err error) {
			trouble.Do(func(held int) {
				s.log.Error("files or batches failed; they are tried again", zap.Error(err), zap.Int("times_before", held))
			})
		},
	}
	c.Limits.LineBytes = s.config.HTTP.MaxRequestBytes + lineOverhead
	made, err := openBatches(s, c)
	if err != nil {
		return nil, err
	}
	return made, telemetry.AddBatches(s.metrics, func() telemetry.Batches {
		st := made.Stats()
		return telemetry.Batches{Running: st.Batches, Lines: st.Lines, Completed: st.Completed, Failed: st.Failed,
			Expired: st.Expired, Cancelled: st.Cancelled, Refused: st.Refused}
	})
}

// lineOverhead is what a line of a batch has beside the body of its request.
const lineOverhead = 4 << 10

// openBatches opens the folder of files. Where there is no store, or no folder at the default place, files and batches
// are refused with the reason, and all else is served.
func openBatches(s *Server, c batch.Config) (*batch.Server, error) {
	if s.store == nil {
		c.Unavailable = "files and batches need a store, which this server has not; start it with --store sqlite:PATH"
		if s.config.Store.URL == configs.StoreOff {
			c.Unavailable = "files and batches need a store, which is switched off; start the server without --store off"
		}
		return batch.New(c)
	}
	c.Store, c.Cipher = s.store.Batches, s.store.Cipher
	var err error
	if c.Dir, err = state.FilesDir(s.config); err == nil {
		var made *batch.Server
		if made, err = batch.New(c); err == nil {
			return made, nil
		}
	}
	if s.config.Files.Dir != "" {
		return nil, console.ConfigError(fmt.Errorf("%w; --file-dir names another folder", err))
	}
	s.log.Warn("files and batches are off; --file-dir names a folder for them", zap.Error(err))
	c.Store, c.Unavailable = nil, "this server has no folder for files and batches; start it with --file-dir"
	return batch.New(c)
}
