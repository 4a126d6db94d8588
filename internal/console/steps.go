package console

import (
	"io"
	"time"

	"github.com/schollz/progressbar/v3"
)

// Steps shows how far a measurement is, on a terminal.
type Steps struct {
	w   io.Writer
	bar *progressbar.ProgressBar
}

// NewSteps shows something where w is a terminal, and nothing elsewhere.
func NewSteps(w io.Writer) *Steps {
	if !IsTerminal(w) {
		w = nil
	}
	return &Steps{w: w}
}

// Update says what is done, and how much of it.
func (p *Steps) Update(what string, done, total int) {
	if p.w == nil {
		return
	}
	if p.bar == nil {
		p.bar = progressbar.NewOptions(total, progressbar.OptionSetWriter(p.w), progressbar.OptionClearOnFinish(),
			progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionShowCount(), progressbar.OptionSetPredictTime(false))
	}
	p.bar.Describe(what)
	_ = p.bar.Set(done) // a terminal that is gone is no reason to stop
}

// End removes the bar.
func (p *Steps) End() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}
