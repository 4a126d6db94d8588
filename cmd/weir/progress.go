package main

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/schollz/progressbar/v3"
)

// loadProgress shows how many bytes of a model are read, copied or transferred: as a bar with rate and time left on a
// terminal, as a few lines elsewhere. What is done at once shows nothing.
type loadProgress struct {
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

func newLoadProgress(w io.Writer, terminal bool, name string) *loadProgress {
	return newProgress(w, terminal, "loading", name)
}

func newProgress(w io.Writer, terminal bool, verb, name string) *loadProgress {
	return &loadProgress{w: w, terminal: terminal, verb: verb, name: name, began: time.Now()}
}

// update is called with the bytes read so far, often.
func (p *loadProgress) update(done, total int64) {
	if total <= 0 || time.Since(p.began) < quietTime {
		return
	}
	if p.terminal {
		p.draw(done, total)
		return
	}
	if quarter := done * 4 / total; quarter > p.quarter {
		p.quarter = quarter
		fmt.Fprintf(p.w, "%s %s: %d %% of %s\n", p.verb, p.name, quarter*25, showSize(total))
	}
}

func (p *loadProgress) draw(done, total int64) {
	if p.bar == nil {
		p.bar = progressbar.NewOptions64(total,
			progressbar.OptionSetWriter(p.w), progressbar.OptionSetDescription(p.verb+" "+p.name),
			progressbar.OptionShowBytes(true), progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionClearOnFinish())
	}
	_ = p.bar.Set64(done) // a terminal that is gone is no reason to stop loading
}

// end removes the bar.
func (p *loadProgress) end() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}

// measuring tells that a model is measured at its first load, which takes seconds: as a line, and on a terminal as a bar.
type measuring struct {
	w     io.Writer
	name  string
	began bool
	bar   *steps
}

func newMeasuring(w io.Writer, name string) *measuring {
	return &measuring{w: w, name: name, bar: newSteps(w)}
}

func (m *measuring) update(done, total int) {
	if !m.began {
		m.began = true
		fmt.Fprintf(m.w, "measuring what a q8_0 KV cache costs %s: at its first load only\n", m.name)
	}
	m.bar.update("measuring", done, total)
}

func (m *measuring) end() { m.bar.end() }

// showSize prints bytes with a binary unit: 1.4 GiB.
func showSize(bytes int64) string {
	const units = "KMGTPE"
	if bytes < 1024 {
		return fmt.Sprintf("%d B", bytes)
	}
	value, unit := float64(bytes)/1024, 0
	for value >= 1024 && unit < len(units)-1 {
		value /= 1024
		unit++
	}
	return fmt.Sprintf("%.1f %ciB", value, units[unit])
}

// showCount prints a large number with a decimal unit: 1.2 B parameters.
func showCount(n uint64) string {
	switch {
	case n < 1e3:
		return strconv.FormatUint(n, 10)
	case n < 1e6:
		return fmt.Sprintf("%.1f K", float64(n)/1e3)
	case n < 1e9:
		return fmt.Sprintf("%.1f M", float64(n)/1e6)
	}
	return fmt.Sprintf("%.1f B", float64(n)/1e9)
}
