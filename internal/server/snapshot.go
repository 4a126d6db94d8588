package server

import (
	"context"
	"time"

	"weir/engine/llm"
	"weir/internal/inference"
	"weir/scheduler"
	"weir/telemetry"
)

// snapshot reads the engine's counters for one scrape. Preempted sequences
// wait, as in vLLM.
func snapshot(e *llm.Engine) telemetry.Snapshot {
	stats, load := e.Stats(), e.Load()
	sched, cache := stats.Scheduler, stats.Cache
	snap := telemetry.Snapshot{
		Running: load.Running, Waiting: load.Waiting + sched.Resuming, WaitingTokens: load.WaitingTokens,
		KVBlocks: cache.Blocks, KVReferenced: cache.Referenced, KVCached: cache.Cached, KVEvictions: cache.Evictions,
		PrefixQueries: cache.QueryTokens, PrefixHits: cache.HitTokens,
		States: cache.States, Checkpoints: cache.Checkpoints, Stateless: cache.Stateless,
		Paused: sched.Paused, Pauses: sched.Pauses, Late: sched.Late,
		Preemptions: sched.Preemptions, Recomputed: sched.RecomputedTokens,
		PromptTokens: sched.PromptTokens, PromptCached: sched.CachedTokens, OutputTokens: sched.OutputTokens,
		Drafts: sched.Drafts, DraftTokens: sched.DraftTokens, AcceptedTokens: sched.AcceptedTokens,
		AcceptedAt: sched.AcceptedAt[:], DraftSources: draftSources(e, &sched.Counters), DraftsStopped: stats.DraftsStopped != "",
		Steps: stats.Steps, StepPanics: stats.Panics, Faults: stats.Faults,
		Transfer: transferOf(&stats.Transfers), PrefillRate: e.PrefillRate(), FetchRate: load.FetchRate,
	}
	requests, known := liveRequests(e, sched.Live)
	snap.Classes = classes(requests, known)
	snap.Adapters = adaptersOf(e, requests)
	if sched.Live == 0 {
		snap.KVLeaked = cache.Referenced // no live sequence can hold a block
	}
	return snap
}

// draftSources are what may propose draft tokens to an engine's requests.
func draftSources(e *llm.Engine, c *scheduler.Counters) []telemetry.DraftSource {
	names := [scheduler.DraftSources]string{scheduler.LookedUp: "ngram", scheduler.Forced: "grammar"}
	switch i := e.Info(); {
	case i.MTPUsed:
		names[scheduler.Proposed] = "mtp"
	case i.DraftBytes > 0:
		names[scheduler.Proposed] = "draft_model"
	}
	var list []telemetry.DraftSource
	for s, name := range names {
		if name != "" {
			list = append(list, telemetry.DraftSource{Name: name, Proposed: c.DraftedBy[s], Accepted: c.AcceptedBy[s]})
		}
	}
	return list
}

// classesTimeout is how long a scrape waits for the step that is computed.
const classesTimeout = 500 * time.Millisecond

// liveRequests are those of an engine; false where no step ended in time.
func liveRequests(e *llm.Engine, live int) (list []llm.RequestState, known bool) {
	if live == 0 {
		return nil, true // an idle engine need not be woken
	}
	ctx, cancel := context.WithTimeout(context.Background(), classesTimeout)
	defer cancel()
	list, err := e.Requests(ctx)
	return list, err == nil
}

// adaptersOf are the adapters of requests, nil of an engine without any.
func adaptersOf(e *llm.Engine, requests []llm.RequestState) *telemetry.Adapters {
	if len(e.Adapters().List()) == 0 {
		return nil
	}
	a := &telemetry.Adapters{Most: e.Adapters().Most()}
	for i := range requests {
		switch r := &requests[i]; {
		case r.Adapter == "":
		case r.Phase == inference.PhaseWaiting:
			a.Waiting = append(a.Waiting, r.Adapter)
		default:
			a.Running = append(a.Running, r.Adapter)
		}
	}
	return a
}

// classes adds up the live requests by class; nil where they are not known.
func classes(requests []llm.RequestState, known bool) []telemetry.Class {
	if !known {
		return nil
	}
	list := make([]telemetry.Class, inference.NumClasses)
	for c := range list {
		list[c].Name = inference.Class(c).String() //nolint:gosec // one of three
	}
	for i := range requests {
		r := &requests[i]
		class := &list[r.Class]
		if r.Phase == inference.PhaseWaiting {
			class.Waiting++
		} else {
			class.Running++
		}
		class.KVBlocks += r.KVBlocks
		class.LagSeconds = max(class.LagSeconds, r.Debt.Seconds())
	}
	return list
}

// modelInfo describes a loaded model to the registry.
func modelInfo(name string, i llm.Info) telemetry.ModelInfo {
	return telemetry.ModelInfo{
		Name: name, MaxModelLen: i.MaxModelLen, BlockTokens: i.BlockTokens, KVBlocks: i.KVBlocks, KVTokens: i.KVTokens,
		KVType: i.KVType, Architecture: i.Architecture, Digest: i.Digest, WeightBytes: i.WeightBytes,
	}
}
