package console

import (
	"fmt"
	"io"
	"time"

	"weir/internal/unit"

	"github.com/schollz/progressbar/v3"
)

// Progress shows how many bytes of a model are read, copied or transferred: as a bar with rate and time left on a
// terminal, as a few lines elsewhere. What is done at once shows nothing.
type Progress struct {
	w        io.Writer
	terminal bool
	verb     string // "loading"
	name     string

	began   time.Time
	bar     *progressbar.ProgressBar
	quarter int64 // quarters of the bytes reported as lines
}

// quietTime is how long loading may take before anything is shown.
const quietTime = 300 * time.Millisecond

// NewProgress shows how a model called name is read into memory.
func NewProgress(w io.Writer, terminal bool, name string) *Progress {
	return NewProgressOf(w, terminal, "loading", name)
}

// NewProgressOf shows how what a verb does to name goes on: "pulling".
func NewProgressOf(w io.Writer, terminal bool, verb, name string) *Progress {
	return &Progress{w: w, terminal: terminal, verb: verb, name: name, began: time.Now()}
}

// Update is called with the bytes read so far, often.
func (p *Progress) Update(done, total int64) {
	if total <= 0 || time.Since(p.began) < quietTime {
		return
	}
	if p.terminal {
		p.draw(done, total)
		return
	}
	if quarter := done * 4 / total; quarter > p.quarter {
		p.quarter = quarter
		fmt.Fprintf(p.w, "%s %s: %d %% of %s\n", p.verb, p.name, quarter*25, unit.Bytes(total))
	}
}

func (p *Progress) draw(done, total int64) {
	if p.bar == nil {
		p.bar = progressbar.NewOptions64(total,
			progressbar.OptionSetWriter(p.w), progressbar.OptionSetDescription(p.verb+" "+p.name),
			progressbar.OptionShowBytes(true), progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionClearOnFinish())
	}
	_ = p.bar.Set64(done) // a terminal that is gone is no reason to stop loading
}

// End removes the bar.
func (p *Progress) End() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}

// Measuring tells that a model is measured at its first load, which takes seconds: as a line, and on a terminal as a bar.
type Measuring struct {
	w     io.Writer
	name  string
	began bool
	bar   *Steps
}

// NewMeasuring shows nothing before the first update.
func NewMeasuring(w io.Writer, name string) *Measuring {
	return &Measuring{w: w, name: name, bar: NewSteps(w)}
}

// Update is called with the steps done so far.
func (m *Measuring) Update(done, total int) {
	if !m.began {
		m.began = true
		fmt.Fprintf(m.w, "measuring what a q8_0 KV cache costs %s: at its first load only\n", m.name)
	}
	m.bar.Update("measuring", done, total)
}

// End removes the bar.
func (m *Measuring) End() { m.bar.End() }
