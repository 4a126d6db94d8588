package server

import (
	"sync"
	"time"

	"weir/api/admin"
	"weir/engine/llm"
)

// timeline is an engine's last steps, for those who look at them.
type timeline struct {
	mu    sync.Mutex
	steps [timelineSteps]admin.StepNow
	added int // in all
	shown int // of these, by the last take
}

// timelineSteps is a second of small models; larger ones step less often.
const timelineSteps = 512

func (t *timeline) add(s llm.StepStats) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.steps[t.added%timelineSteps] = admin.StepNow{
		At: time.Now().UnixMilli(), Prefill: s.PrefillTokens, Decode: s.DecodeTokens, Draft: s.DraftTokens,
		Seconds: s.StepTime.Seconds(), Estimate: s.Estimate.Seconds(),
	}
	t.added++
}

// take gives the steps since the last call, and how many more there were that are forgotten.
func (t *timeline) take() (steps []admin.StepNow, left int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	from := max(t.shown, t.added-timelineSteps)
	left = from - t.shown
	steps = make([]admin.StepNow, 0, t.added-from)
	for i := from; i < t.added; i++ {
		steps = append(steps, t.steps[i%timelineSteps])
	}
	t.shown = t.added
	return steps, left
}

// now is how the engines of this process are.
func (e *engines) now() []admin.EngineNow {
	list := []admin.EngineNow{}
	for _, r := range e.languages.residents() {
		n := admin.EngineNow{Model: r.Name, Version: r.entry.Version, MaxSeqs: r.maxSeqs, Target: r.itlTarget.Seconds()}
		n.Steps, n.StepsLeft = r.steps.take()
		switch {
		case r.Encoder != nil:
			n.Kind = "encoder"
		case r.Llama != nil:
			n.Kind = "llamacpp"
			load := r.Llama.Load()
			n.Running, n.Waiting, n.WaitingTokens = load.Running, load.Waiting, load.WaitingTokens
		default:
			n.Kind = "llm"
			s := r.Engine.Stats()
			n.Running, n.Paused, n.Preempted = s.Scheduler.Running, s.Scheduler.Paused, s.Scheduler.Resuming
			n.Waiting, n.WaitingTokens = s.Scheduler.Waiting, s.Scheduler.WaitingTokens
			n.BlockTokens = r.Info().BlockTokens
			n.KVBlocks, n.KVReferenced, n.KVCached, n.KVFree = s.Cache.Blocks, s.Cache.Referenced, s.Cache.Cached, s.Cache.Free
		}
		list = append(list, n)
	}
	return list
}
