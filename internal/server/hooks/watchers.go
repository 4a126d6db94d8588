package hooks

import (
	"context"

	"go.uber.org/zap"

	"weir/api/admin"
	"weir/api/edge"
	"weir/api/usage"
	"weir/configs"
	"weir/internal/server/state"
	"weir/scheduler/admission"
	"weir/telemetry"
	"weir/telemetry/audit"
	"weir/telemetry/transcript"
)

// Watchers are told of requests: they count them, log them, trace them, keep what tenants have used and what was found in texts.
type Watchers struct {
	metrics *telemetry.Metrics
	log     *zap.Logger

	Foreground  foreground   // requests that batches make room for
	ledger      usage.Ledger // nil: usage is not kept
	Journal     *admin.Journal
	refusals    *refusals
	Traces      *traces
	Tenants     *tenantHooks
	Transcripts *transcript.Recorder // nil: no store
	moderated   *moderated
	Rollouts    edge.Hooks
}

// Generations are the hooks of requests for generations and vectors.
func (w *Watchers) Generations() edge.Hooks {
	return joined(w.observers(generationHooks(w.metrics, w.log, w.refusals, w.Traces)))
}

// Predictions are the hooks of requests for predictions.
func (w *Watchers) Predictions() edge.Hooks {
	return joined(w.observers(predictionHooks(w.metrics, w.log, w.refusals, w.Traces)))
}

// Batches are the hooks of files and batches, whose lines are told of as what they ask for.
func (w *Watchers) Batches() edge.Hooks {
	all := joined(w.ofRefusals(generationHooks(w.metrics, w.log, w.refusals, w.Traces)))
	return edge.Hooks{OnResponse: all.OnResponse, OnRefused: all.OnRefused, OnPanic: all.OnPanic}
}

// Pages are the hooks of pages and their files, which ask for nothing themselves.
func (w *Watchers) Pages() edge.Hooks { return w.Batches() }

// observers are all that are told of requests of the edge, in the order in which they are told. engine are the hooks of what
// computes the requests: generationHooks or predictionHooks.
func (w *Watchers) observers(engine edge.Hooks) []observer {
	list := []observer{{
		"foreground", "first: lines of batches make room from the moment that a request is there, and until it is over for them",
		w.Foreground.hooks(),
	}}
	if w.ledger != nil {
		list = append(list, observer{
			"ledger", "before all that could fail: what was used is owed, whatever befalls those that watch", ledgerHooks(w.ledger),
		})
	}
	list = append(list, observer{
		"journal", "before the metrics: what they count is to be found at GET /admin/requests already", journalHooks(w.Journal),
	})
	list = append(list, w.ofRefusals(engine)...)
	if w.Transcripts != nil {
		list = append(list, observer{
			"transcripts", "behind the log: a transcript names a request that the log has", transcriptHooks(w.Transcripts),
		})
	}
	return append(list, observer{
		"moderation", "behind the metrics: an entry of the audit log names a request that they have counted", w.moderated.hooks(),
	}, observer{
		"rollouts", "last: a request that takes a candidate back is in the metrics, the log and the ledger by then", w.Rollouts,
	})
}

// ofRefusals are the observers of requests that only begin, change or end other ones, too: of files and batches.
func (w *Watchers) ofRefusals(engine edge.Hooks) []observer {
	return []observer{
		{"engine", "before the tenants: the access log's line comes behind that of a bug or an upstream's fault, which explains it", engine},
		{"tenants", "behind the engine's series: who finds a tenant's count finds the server's, too", w.Tenants.hooks()},
	}
}

// Options are what watchers are made of.
type Options struct {
	Settings configs.Config
	Build    telemetry.Build
	Place    string // this server, in traces: the address of its API
	Metrics  *telemetry.Metrics
	Log      *zap.Logger
	Kept     *Kept        // of the store; nil: none
	Ledger   usage.Ledger // nil: usage is not kept
	Service  *admission.Service

	Denied  func(state.Details)                                      // notes callers who were denied in the audit log
	Stopped func()                                                   // notes the end of the process there: what callers did is noted before it
	Push    func(name string, close func(ctx context.Context) error) // what is to be closed, the last first
}

// Kept is what watchers write into a store.
type Kept struct {
	Audit       audit.Log
	Transcripts transcript.Log
	Dropped     func() uint64 // counts requests whose use the ledger has dropped
}

// New makes all but the rollouts, which are set before the first request.
func New(o Options) (w *Watchers, err error) {
	w = &Watchers{
		metrics: o.Metrics, log: o.Log, ledger: o.Ledger, refusals: newRefusals(o.Log), Journal: admin.NewJournal(),
		Tenants: &tenantHooks{metrics: o.Metrics, Access: newAccessLog(o.Log, o.Settings.Log.AccessPerSecond), service: o.Service},
	}
	pushed := func(name string, close func()) {
		o.Push(name, func(context.Context) error { close(); return nil })
	}
	pushed("sums of refusals", w.refusals.flush)
	kept := o.Kept
	if kept == nil {
		kept = new(Kept)
	}
	if w.moderated, err = newModerated(kept.Audit, o.Metrics, o.Log); err != nil {
		return w, err
	}
	o.Push("findings of policies", func(context.Context) error { return w.moderated.close() })
	if w.Transcripts, err = openTranscripts(o.Settings, kept.Transcripts, o.Metrics, o.Log); err != nil {
		return w, err
	}
	o.Push("transcripts", func(context.Context) error { return closeTranscripts(w.Transcripts) })
	pushed("entry of the end", o.Stopped)
	if o.Kept != nil {
		w.Tenants.signIns = newSignIns(o.Denied)
		pushed("sign-ins that were denied", w.Tenants.signIns.flush)
		if err := telemetry.AddUsage(o.Metrics, kept.Dropped); err != nil {
			return w, err
		}
	}
	if w.Traces, err = newTraces(o.Settings, o.Build, o.Place, o.Log); err != nil {
		return w, err
	}
	return w, telemetry.AddTraces(o.Metrics, w.Traces.stats)
}
