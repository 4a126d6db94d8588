package server

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"weir/api/admin"
	"weir/engine/llm"
	"weir/internal/server/state"
	"weir/telemetry"
)

// engines are the engines of the language models in memory, as operators and the metrics see them.
type engines struct {
	languages *languages
	transfers *transfers
	audit     *auditor
	log       *zap.Logger
	metrics   *telemetry.Metrics
}

// observe feeds the model's metrics, which exist once the model has loaded, from
// hooks of the step loop.
func (e *engines) observe(name string, steps *timeline, o *llm.Options) {
	o.OnStep = func(t llm.StepStats) {
		steps.add(t)
		e.metrics.Model(name).ObserveStep(telemetry.Step{
			Rows:    t.PrefillTokens + t.DecodeTokens + t.DraftTokens,
			Seconds: t.StepTime.Seconds(), PlanSeconds: t.PlanTime.Seconds(), EstimateSeconds: t.Estimate.Seconds(),
		})
	}
	o.OnFault = func(text string) {
		e.log.Error("a bug was caught in the engine", zap.String("model", name), zap.String("fault", text))
	}
	o.OnFinish = func(p llm.Phases) {
		e.metrics.Model(name).ObservePhases(telemetry.Phases{
			QueueSeconds: p.Queue.Seconds(), PrefillSeconds: p.Prefill.Seconds(), InferenceSeconds: p.Inference.Seconds(),
			Preemptions: p.Preemptions,
		})
	}
	e.transfers.configure(name, o)
	o.OnCancel = func(took time.Duration) { e.metrics.Model(name).ObserveCancel(took.Seconds()) }
}

// debug describes the model, or all where there are several.
func (e *engines) debug() any {
	var list []any
	for _, r := range e.languages.residents() {
		about := map[string]any{"model": r.Name, "info": r.Info()}
		switch {
		case r.Encoder != nil:
			about["stats"] = r.Encoder.Stats()
		case r.Llama != nil:
			about["stats"] = r.Llama.Load()
		default:
			about["stats"] = r.Engine.Stats()
		}
		list = append(list, about)
	}
	if len(list) == 1 {
		return list[0]
	}
	return list
}

// reset returns how many blocks it freed. by says who asked.
func (e *engines) reset(ctx context.Context, by string) (freedBlocks int, err error) {
	engines := e.languages.engines()
	switch {
	case len(engines) > 0:
	case len(e.languages.residents()) > 0:
		return 0, errors.New("a text encoder has no prefix cache; there is nothing to reset")
	default:
		return 0, errors.New("no language model is in memory; while one is loading, wait until GET /ready answers 200")
	}
	if err := e.audit.Add(ctx, by, state.ActionCacheReset, "", nil); err != nil {
		return 0, err
	}
	freedBlocks, err = e.empty(ctx)
	if err == nil {
		e.log.Info("the prefix cache was reset", zap.String("by", by), zap.Int("freed_blocks", freedBlocks))
	}
	return freedBlocks, err
}

// empty evicts what no request uses from the prefix caches of all models.
func (e *engines) empty(ctx context.Context) (freedBlocks int, err error) {
	var errs []error
	for _, engine := range e.languages.engines() {
		freed, err := engine.ResetPrefixCache(ctx)
		freedBlocks += freed
		errs = append(errs, err)
	}
	return freedBlocks, errors.Join(errs...)
}

// states asks the engines what their requests do. An encoder's calls are over in one pass or two.
func (e *engines) states(ctx context.Context) ([]admin.State, error) {
	var states []admin.State
	var errs []error
	for _, m := range e.languages.residents() {
		if m.Engine == nil {
			continue
		}
		requests, err := m.Engine.Requests(ctx)
		errs = append(errs, err)
		for i := range requests {
			r := &requests[i]
			states = append(states, admin.State{
				ID: r.ID, State: r.State, Queue: r.Queue, Prefill: r.Prefill, Decode: r.Decode, Model: m.Name, Version: m.entry.Version, Life: r.Life, Wait: r.Wait, Known: r.Known,
			})
		}
	}
	return states, errors.Join(errs...)
}

// engaged is how many sequences the engines of this process have.
func (e *engines) engaged() (n int) {
	for _, engine := range e.languages.engines() {
		l := engine.Load()
		n += l.Running + l.Waiting
	}
	return n
}
