package main

import (
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"weir/engine/llm"
	"weir/scheduler/brownout"
)

// lookEvery is the time between two looks at the load.
const lookEvery = 250 * time.Millisecond

// brownoutControl puts steps of the brown-out into force, and out of it.
type brownoutControl struct {
	steps   []brownout.Step
	places  int // of the waiting queue
	control *brownout.Controller
	wait    brownout.Wait
	log     *zap.Logger
	metric  func(level int)
	audit   func(action, step string, more details) // waits for the store
	level   int
	over    chan struct{} // closed by stop
	ended   sync.WaitGroup
	effect  atomic.Pointer[brownout.Step] // what is lowered now
}

// newBrownout returns nil where the configuration has no steps.
func (s *server) newBrownout() (*brownoutControl, error) {
	if len(s.config.Brownout) == 0 {
		return nil, nil
	}
	d := &brownoutControl{steps: s.config.Brownout, places: s.config.Scheduler.MaxWaiting, log: s.log, audit: s.auditRule, over: make(chan struct{})}
	var err error
	if d.control, err = brownout.New(d.steps); err != nil {
		return nil, err
	}
	d.metric, err = s.metrics.AddBrownout()
	return d, err
}

// start looks at an engine's load until stop.
func (d *brownoutControl) start(e *llm.Engine) {
	d.ended.Go(func() {
		ticker := time.NewTicker(lookEvery)
		defer ticker.Stop()
		for {
			select {
			case now := <-ticker.C:
				d.look(now, e.Stats())
			case <-d.over:
				return
			}
		}
	})
}

// stop ends what start began, and returns when it has ended.
func (d *brownoutControl) stop() {
	close(d.over)
	d.ended.Wait()
}

// look takes in the load at one moment.
func (d *brownoutControl) look(now time.Time, l llm.Stats) {
	load := brownout.Load{
		QueueWait: d.wait.Observe(now, l.Scheduler.Waiting, l.Scheduler.Admitted),
		KVPercent: percentOf(l.Cache.Referenced, l.Cache.Blocks), QueuePercent: percentOf(l.Scheduler.WaitingChoices, d.places),
	}
	level := d.control.Observe(now, load)
	if level == d.level {
		return
	}
	effect := brownout.Effect(d.steps, level)
	d.effect.Store(effect)
	d.metric(level)
	name := ""
	if effect != nil {
		name = effect.Name
	}
	write, text, action := d.log.Warn, "brown-out: quality is lowered", actionBrownoutLower
	if level < d.level {
		write, text, action = d.log.Info, "brown-out: quality is raised", actionBrownoutRaise
	}
	more := details{"level": level, "queue_wait": load.QueueWait.String(), "kv_percent": load.KVPercent, "queue_percent": load.QueuePercent}
	d.ended.Go(func() { d.audit(action, name, more) }) // a store that hangs must not delay the next look
	write(text, zap.Int("level", level), zap.String("step", name), zap.Duration("queue_wait", load.QueueWait),
		zap.Int("kv_percent", load.KVPercent), zap.Int("queue_percent", load.QueuePercent))
	d.level = level
}

func percentOf(part, whole int) int {
	if whole <= 0 {
		return 0
	}
	return 100 * part / whole
}
