package console

import (
	"io"
	"time"

	"github.com/schollz/progressbar/v3"
)

// steps shows how far a measurement is, on a terminal.
type steps struct {
	w   io.Writer
	bar *progressbar.ProgressBar
}

func NewSteps(w io.Writer) *steps {
	if !IsTerminal(w) {
		w = nil
	}
	return &steps{w: w}
}

func (p *steps) Update(what string, done, total int) {
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

func (p *steps) End() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}
