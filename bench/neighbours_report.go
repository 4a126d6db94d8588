package bench

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
)

// WriteNeighboursHead writes the head of a table of Neighbour's rows. Memory is in MB, in use on Go's heap in brackets.
func WriteNeighboursHead(w io.Writer) error {
	_, err := io.WriteString(w, "| another tenant sends | first token p50, ms | worst, ms | step p50, ms | longest, ms | worst in longest steps | between tokens p50, ms | worst, ms | failed "+
		"| answered (refused) | hung up | each second | cores: server, attack | server's memory (heap), MB | a second after |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	return err
}

// WriteRow writes the line of the table.
func (n *Neighbour) WriteRow(w io.Writer) error {
	_, err := fmt.Fprintf(w, "| %s | %.0f | %.0f | %.0f | %.0f | %.1f | %.0f | %.0f | %s | %d (%d) | %d | %.0f | %.1f, %.1f | %s | %s |\n", n.name(), n.P50(), n.Worst(),
		n.Steps.P50, n.Steps.Worst, n.OfStep(), median(n.Gaps), greatest(n.Gaps), failures(n.Failed),
		n.Sent.Answered, n.Sent.Refused, n.Sent.HungUp, n.Sent.rate(), n.Cores.Server, n.Cores.Attack, n.Peak, n.Rest)
	return err
}

// name is what the other tenant sends.
func (n *Neighbour) name() string {
	if n.Attack == "" {
		return "nothing"
	}
	return n.About
}

// rate is how many requests an attack's clients had done with in a second.
func (c *AttackCounts) rate() float64 {
	if c.Seconds == 0 {
		return 0
	}
	return float64(c.Answered+c.HungUp+c.Failed) / c.Seconds
}

// String gives MB.
func (m Memory) String() string { return fmt.Sprintf("%d (%d)", m.Resident>>20, m.Heap>>20) }

// median is the middle of sorted values, and greatest the last; 0 without any.
func median(sorted []float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return Percentile(sorted, 50)
}

func greatest(sorted []float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[len(sorted)-1]
}

func failures(kinds map[string]int) string {
	if len(kinds) == 0 {
		return "0"
	}
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		parts = append(parts, fmt.Sprintf("%d %s", kinds[kind], kind))
	}
	return strings.Join(parts, ", ")
}

// PlotNeighbours draws a line for each attack, from the median to the worst, on a logarithmic scale.
func PlotNeighbours(w io.Writer, rows []*Neighbour) error {
	const left, right, top, row = 330.0, 40.0, 50.0, 34.0
	width, height := 900.0, top+row*float64(len(rows))+50
	low, high := 1e9, 0.0
	for _, n := range rows {
		if len(n.First) > 0 {
			low, high = min(low, n.P50()), max(high, n.Worst())
		}
	}
	if high == 0 {
		return errors.New("nothing was answered")
	}
	x := newLogScale(low/1.5, high*1.5, left, width-right)
	d := newDrawing(width, height, "First tokens of one tenant beside another's requests")
	d.text(left, 28, start, "title", "Time to the first token of one tenant while another sends …, ms: median and worst")
	for _, tick := range x.ticks() {
		d.line(x.at(tick), top, x.at(tick), height-40, "grid")
		d.text(x.at(tick), height-20, middle, "label", short(tick))
	}
	for i, n := range rows {
		y := top + row*(float64(i)+0.5)
		d.text(left-14, y+4, end, "label", n.name())
		if len(n.First) == 0 {
			d.text(left+8, y+4, start, "label", "no answer")
			continue
		}
		d.curve([]float64{x.at(n.P50()), y, x.at(n.Worst()), y}, "s0")
		d.dot(x.at(n.P50()), y, "s0")
		d.dot(x.at(n.Worst()), y, "s1")
	}
	return d.writeTo(w)
}

// residentBytes is a process's resident memory; 0 where the system does not tell.
func residentBytes(pid int) int64 {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if err != nil {
		return 0
	}
	var total, resident int64
	if _, err := fmt.Sscan(string(text), &total, &resident); err != nil {
		return 0
	}
	return resident * int64(os.Getpagesize())
}
