package server

import (
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"weir/configs"
	"weir/engine/llm"
	"weir/internal/server/state"
	"weir/scheduler/brownout"
	"weir/telemetry"
)

// lookEvery is the time between two looks at the load.
const lookEvery = 250 * time.Millisecond

// brownoutControl puts steps of the brown-out into force, and out of it.
type brownoutControl struct {
	places int // of the waiting queue
	log    *zap.Logger
	metric func(level int)
	audit  func(action, step string, more state.Details) // waits for the store
	over   chan struct{}                                 // closed by stop
	ended  sync.WaitGroup
	effect atomic.Pointer[brownout.Step] // what is lowered now
	on     atomic.Bool                   // there are steps

	mu      sync.Mutex
	steps   []brownout.Step
	control *brownout.Controller
	wait    brownout.Wait
	level   int
}

func newBrownout(c configs.Config, m *telemetry.Metrics, log *zap.Logger, audit func(action, step string, more state.Details)) (*brownoutControl, error) {
	d := &brownoutControl{places: c.Scheduler.MaxWaiting, log: log, audit: audit, over: make(chan struct{})}
	var err error
	if d.control, err = brownout.New(nil); err != nil {
		return nil, err
	}
	if d.metric, err = telemetry.AddBrownout(m); err != nil {
		return nil, err
	}
	return d, d.replace(c.Brownout)
}

// live is the live part of the brown-out.
func (d *brownoutControl) live(c configs.Config) (commit func(), err error) {
	return func() { _ = d.replace(c.Brownout) }, brownout.Validate(c.Brownout) // which is all that replace looks at
}

// replace takes other steps. As many stay in force as are, so far as there are so many.
func (d *brownoutControl) replace(steps []brownout.Step) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	select {
	case <-d.over:
		return nil // the server stops
	default:
	}
	level, err := d.control.Replace(steps)
	if err != nil {
		return err
	}
	d.steps = steps
	d.on.Store(len(steps) > 0)
	if level == d.level {
		d.effect.Store(brownout.Effect(steps, level))
		return nil
	}
	d.enter(level, state.Details{"level": level, "reload": true}, zap.Bool("reload", true))
	return nil
}

// start looks at the engines' load until stop.
func (d *brownoutControl) start(engines func() []*llm.Engine) {
	d.ended.Go(func() {
		ticker := time.NewTicker(lookEvery)
		defer ticker.Stop()
		for {
			select {
			case now := <-ticker.C:
				if d.on.Load() {
					d.look(now, loadOf(engines()))
				}
			case <-d.over:
				return
			}
		}
	})
}

// stop ends what start began, and returns when it has ended.
func (d *brownoutControl) stop() {
	d.mu.Lock()
	close(d.over)
	d.mu.Unlock()
	d.ended.Wait()
}

// loadOf is the load of all engines as if they were one: what waits and runs is added
// up, and the KV cache is the fullest one.
func loadOf(engines []*llm.Engine) (sum llm.Stats) {
	for _, e := range engines {
		s := e.Stats()
		sum.Scheduler.Waiting += s.Scheduler.Waiting
		sum.Scheduler.WaitingChoices += s.Scheduler.WaitingChoices
		sum.Scheduler.Admitted += s.Scheduler.Admitted
		if percentOf(s.Cache.Referenced, s.Cache.Blocks) >= percentOf(sum.Cache.Referenced, sum.Cache.Blocks) {
			sum.Cache = s.Cache
		}
	}
	return sum
}

// look takes in the load at one moment.
func (d *brownoutControl) look(now time.Time, l llm.Stats) {
	d.mu.Lock()
	defer d.mu.Unlock()
	load := brownout.Load{
		QueueWait: d.wait.Observe(now, l.Scheduler.Waiting, l.Scheduler.Admitted),
		KVPercent: percentOf(l.Cache.Referenced, l.Cache.Blocks), QueuePercent: percentOf(l.Scheduler.WaitingChoices, d.places),
	}
	level := d.control.Observe(now, load)
	if level == d.level {
		return
	}
	more := state.Details{"level": level, "queue_wait": load.QueueWait.String(), "kv_percent": load.KVPercent, "queue_percent": load.QueuePercent}
	d.enter(level, more, zap.Duration("queue_wait", load.QueueWait), zap.Int("kv_percent", load.KVPercent),
		zap.Int("queue_percent", load.QueuePercent))
}

// enter puts another level into force, and tells why. The caller holds mu.
func (d *brownoutControl) enter(level int, more state.Details, why ...zap.Field) {
	effect := brownout.Effect(d.steps, level)
	d.effect.Store(effect)
	d.metric(level)
	name := ""
	if effect != nil {
		name = effect.Name
	}
	write, text, action := d.log.Warn, "brown-out: quality is lowered", state.ActionBrownoutLower
	if level < d.level {
		write, text, action = d.log.Info, "brown-out: quality is raised", state.ActionBrownoutRaise
	}
	d.ended.Go(func() { d.audit(action, name, more) }) // a store that hangs must not delay the next look
	write(text, append(why, zap.Int("level", level), zap.String("step", name))...)
	d.level = level
}

func percentOf(part, whole int) int {
	if whole <= 0 {
		return 0
	}
	return 100 * part / whole
}
