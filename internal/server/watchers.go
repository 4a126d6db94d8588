package server

import (
	"context"

	"go.uber.org/zap"

	"weir/api/admin"
	"weir/api/edge"
	"weir/api/usage"
	"weir/telemetry"
	"weir/telemetry/transcript"
)

// watchers are told of requests: they count them, log them, trace them, keep what tenants have used and what was found in texts.
type watchers struct {
	metrics *telemetry.Metrics
	log     *zap.Logger

	foreground  foreground   // requests that batches make room for
	ledger      usage.Ledger // nil: usage is not kept
	journal     *admin.Journal
	refusals    *refusals
	traces      *traces
	tenants     *tenantHooks
	transcripts *transcript.Recorder // nil: no store
	moderated   *moderated
	rollouts    *rollouts
}

// generations are the hooks of requests for generations and vectors.
func (w *watchers) generations() edge.Hooks {
	return joined(w.observers(generationHooks(w.metrics, w.log, w.refusals, w.traces)))
}

// predictions are the hooks of requests for predictions.
func (w *watchers) predictions() edge.Hooks {
	return joined(w.observers(predictionHooks(w.metrics, w.log, w.refusals, w.traces)))
}

// batches are the hooks of files and batches, whose lines are told of as what they ask for.
func (w *watchers) batches() edge.Hooks {
	all := joined(w.ofRefusals(generationHooks(w.metrics, w.log, w.refusals, w.traces)))
	return edge.Hooks{OnResponse: all.OnResponse, OnRefused: all.OnRefused, OnPanic: all.OnPanic}
}

// observers are all that are told of requests of the edge, in the order in which they are told. engine are the hooks of what
// computes the requests: generationHooks or predictionHooks.
func (w *watchers) observers(engine edge.Hooks) []observer {
	list := []observer{{
		"foreground", "first: lines of batches make room from the moment that a request is there, and until it is over for them",
		w.foreground.hooks(),
	}}
	if w.ledger != nil {
		list = append(list, observer{
			"ledger", "before all that could fail: what was used is owed, whatever befalls those that watch", ledgerHooks(w.ledger),
		})
	}
	list = append(list, observer{
		"journal", "before the metrics: what they count is to be found at GET /admin/requests already", journalHooks(w.journal),
	})
	list = append(list, w.ofRefusals(engine)...)
	if w.transcripts != nil {
		list = append(list, observer{
			"transcripts", "behind the log: a transcript names a request that the log has", transcriptHooks(w.transcripts),
		})
	}
	return append(list, observer{
		"moderation", "behind the metrics: an entry of the audit log names a request that they have counted", w.moderated.hooks(),
	}, observer{
		"rollouts", "last: a request that takes a candidate back is in the metrics, the log and the ledger by then", w.rollouts.hooks(),
	})
}

// ofRefusals are the observers of requests that only begin, change or end other ones, too: of files and batches.
func (w *watchers) ofRefusals(engine edge.Hooks) []observer {
	return []observer{
		{"engine", "before the tenants: the access log's line comes behind that of a bug or an upstream's fault, which explains it", engine},
		{"tenants", "behind the engine's series: who finds a tenant's count finds the server's, too", w.tenants.hooks()},
	}
}

// watch makes what watches requests.
func (s *Server) watch() (err error) {
	w := &s.watchers
	w.metrics, w.log, w.ledger = s.metrics, s.log, s.quotas.ledger
	w.refusals, w.journal = newRefusals(s.log), admin.NewJournal()
	s.closing.pushed("sums of refusals", w.refusals.flush)
	if w.moderated, err = newModerated(s.store, s.metrics, s.log); err != nil {
		return err
	}
	s.closing.push("findings of policies", func(context.Context) error { return w.moderated.close() })
	if w.transcripts, err = openTranscripts(s.config, s.store, s.metrics, s.log); err != nil {
		return err
	}
	s.closing.push("transcripts", func(context.Context) error { return closeTranscripts(w.transcripts) })
	s.closing.pushed("entry of the end", s.audit.stop)
	w.tenants = &tenantHooks{metrics: s.metrics, access: newAccessLog(s.log, s.config.Log.AccessPerSecond), service: &s.service}
	if s.store != nil {
		w.tenants.signIns = newSignIns(s.audit.denied)
		s.closing.pushed("sign-ins that were denied", w.tenants.signIns.flush)
		if err := s.metrics.AddUsage(func() uint64 { return s.store.UsageStats().Dropped }); err != nil {
			return err
		}
	}
	if w.traces, err = newTraces(s.config, s.build, s.audit.place, s.log); err != nil {
		return err
	}
	return s.metrics.AddTraces(w.traces.stats)
}
