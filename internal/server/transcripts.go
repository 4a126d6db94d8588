package server

import (
	"context"
	"fmt"

	"weir/internal/server/state"

	"go.uber.org/zap"

	"weir/api/admin"
	"weir/api/edge"
	"weir/telemetry"
	"weir/telemetry/transcript"
)

// openTranscripts starts what keeps prompts and answers of tenants that agreed to it.
func (s *Server) openTranscripts() error {
	if s.store == nil {
		for i := range s.config.Tenants {
			if t := &s.config.Tenants[i]; t.LogPrompts {
				s.log.Warn("a tenant has log_prompts, and there is no store to keep prompts in; set --store", zap.String("tenant", t.Name))
			}
		}
		return nil
	}
	trouble := &quietly{every: troubleEvery}
	s.transcripts = transcript.NewRecorder(transcript.Config{
		Log: s.store, Retention: s.config.Store.PromptRetention,
		Failed: func(err error) {
			trouble.do(func(held int) {
				s.log.Error("prompts and answers of tenants with log_prompts are not kept", zap.Error(err), zap.Int("times_before", held))
			})
		},
	})
	return s.metrics.AddTranscripts(func() telemetry.Transcripts {
		st := s.transcripts.Stats()
		return telemetry.Transcripts{Kept: st.Kept, Dropped: st.Dropped}
	})
}

func (s *Server) closeTranscripts() error {
	if s.transcripts == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), state.Timeout)
	defer cancel()
	return s.transcripts.Close(ctx)
}

// transcribed lets a recorder keep the texts of the requests that have some.
func transcribed(r *transcript.Recorder, h edge.Hooks) edge.Hooks {
	finish := h.OnRequestFinish
	h.OnRequestFinish = func(f edge.RequestFinish) {
		finish(f)
		texts := f.Texts
		if texts == nil {
			return
		}
		record := transcript.Record{
			Time: f.Finished, Tenant: f.Tenant, Request: f.ID, Endpoint: f.Endpoint, Model: f.Model, Status: f.Status, Answers: texts.Answers,
		}
		r.Add(transcript.Source{Tenant: f.Tenant, Bytes: texts.Bytes(), Record: func() transcript.Record {
			record.Prompts = texts.Prompts()
			return record
		}})
	}
	return h
}

// forget deletes what clients of a tenant asked and were answered, here and in the
// store. What they used is kept. by says who asked. A name that no tenant has is looked for all the same, since
// what was kept of a tenant outlives its entry in the configuration; where nothing was, it is an error.
func (s *Server) forget(ctx context.Context, name, by string) (f admin.Forgotten, err error) {
	known, err := s.knowsTenant(ctx, name)
	if err != nil {
		return f, err
	}
	if err := s.audit(ctx, by, state.ActionTenantForget, name, state.Details{"known": known}); err != nil {
		return f, err
	}
	f, err = s.forgetAll(ctx, name)
	switch {
	case err != nil:
		return f, err
	case !known && f.Prompts+f.Answers+f.Files == 0:
		return f, fmt.Errorf("%w: %q is not configured, has no keys, and nothing was kept of it", admin.ErrNoTenant, name)
	}
	s.log.Info("what a tenant asked and was answered is deleted", zap.String("tenant", name), zap.String("by", by))
	return f, nil
}

// knowsTenant reports whether the configuration lists a tenant, or the store has a key of it.
func (s *Server) knowsTenant(ctx context.Context, name string) (bool, error) {
	if s.callers.authenticator.Directory().Lists(name) || s.store == nil {
		return s.callers.authenticator.Directory().Lists(name), nil
	}
	keys, err := s.store.List(ctx, name)
	return len(keys) > 0, err
}

func (s *Server) forgetAll(ctx context.Context, name string) (f admin.Forgotten, err error) {
	if s.store != nil {
		if err := s.store.ForgetKeys(ctx, name); err != nil { // first: from here on nothing can be read
			return f, err
		}
		if f.Prompts, err = s.transcripts.Forget(ctx, name); err != nil {
			return f, err
		}
		if f.Answers, err = s.store.ForgetAnswers(ctx, name); err != nil {
			return f, err
		}
		responses, err := s.store.ForgetResponses(ctx, name)
		if err != nil {
			return f, err
		}
		f.Answers += responses
	}
	if f.Files, err = s.batches.Forget(ctx, name); err != nil {
		return f, err
	}
	f.Answers += int64(s.edge.Forget(name))
	f.Blocks, err = s.emptyCaches(ctx) // cached blocks are computed from prompts
	return f, err
}
