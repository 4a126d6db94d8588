package rollouts

import (
	"context"
	"fmt"
	"time"
)

// patience ends a context where an answer takes too long, or all of them together.
type patience struct {
	ctx    context.Context //nolint:containedctx // it is what patience ends
	cancel context.CancelCauseFunc
	timer  *time.Timer
	last   time.Time
}

func newPatience(parent context.Context) *patience {
	ctx, cancel := context.WithCancelCause(parent)
	p := &patience{ctx: ctx, cancel: cancel, last: time.Now().Add(candidateCheckTime)}
	p.timer = time.AfterFunc(checkedAnswerTime, func() {
		why := fmt.Errorf("nothing was answered for %v", checkedAnswerTime)
		if !time.Now().Before(p.last) {
			why = fmt.Errorf("it was not through after %v", candidateCheckTime)
		}
		cancel(fmt.Errorf("%w; start it while the server has less to do, or with unchecked", why))
	})
	return p
}

// answered gives the next answer its time.
func (p *patience) answered() { p.timer.Reset(min(checkedAnswerTime, time.Until(p.last))) }

func (p *patience) end() {
	p.timer.Stop()
	p.cancel(nil)
}
