package hooks

import (
	"context"

	"go.uber.org/zap"

	"weir/api/edge"
	"weir/configs"
	"weir/internal/server/state"
	"weir/telemetry"
	"weir/telemetry/transcript"
)

// openTranscripts starts what keeps prompts and answers of tenants that agreed to it; nil without a store.
func openTranscripts(c configs.Config, kept transcript.Log, m *telemetry.Metrics, log *zap.Logger) (*transcript.Recorder, error) {
	if kept == nil {
		for i := range c.Tenants {
			if t := &c.Tenants[i]; t.LogPrompts {
				log.Warn("a tenant has log_prompts, and there is no store to keep prompts in; set --store", zap.String("tenant", t.Name))
			}
		}
		return nil, nil
	}
	trouble := &telemetry.LogLimiter{Every: telemetry.TroubleEvery}
	r := transcript.NewRecorder(transcript.Config{
		Log: kept, Retention: c.Store.PromptRetention,
		Failed: func(err error) {
			trouble.Do(func(held int) {
				log.Error("prompts and answers of tenants with log_prompts are not kept", zap.Error(err), zap.Int("times_before", held))
			})
		},
	})
	return r, telemetry.AddTranscripts(m, func() telemetry.Transcripts {
		st := r.Stats()
		return telemetry.Transcripts{Kept: st.Kept, Dropped: st.Dropped}
	})
}

func closeTranscripts(r *transcript.Recorder) error {
	if r == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), state.Timeout)
	defer cancel()
	return r.Close(ctx)
}

// transcriptHooks let a recorder keep the texts of the requests that have some.
func transcriptHooks(r *transcript.Recorder) edge.Hooks {
	return edge.Hooks{OnRequestFinish: func(f edge.RequestFinish) {
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
	}}
}
