package bench

import (
	"fmt"
	"io"

	"weir/internal/roofline"
	"weir/internal/unit"
)

// WriteMicroMarkdown writes the cases as a table: time of a call, bytes and
// operations per second, and how much of the machine's limit that is.
func WriteMicroMarkdown(w io.Writer, rows []MicroRow, l roofline.Limits) error {
	columns := []column{
		{"kernel", 9, left}, {"type", 6, left}, {"shape", 22, left}, {"time", 9, right},
		{"GB/s", 7, right}, {"Gop/s", 7, right}, {"limited by", 10, left}, {"of limit", 8, right},
	}
	var cells [][]string
	for _, r := range rows {
		share, bound, ok := r.Share(l.All)
		limit, by := "–", "–"
		if ok {
			limit, by = fmt.Sprintf("%.0f %%", 100*share), bound.String()
		}
		cells = append(cells, []string{
			r.Kernel, r.Type, r.Shape, unit.Seconds(r.Median()),
			billions(r.Work.Bytes / r.Median()), billions(r.Ops() / r.Median()), by, limit,
		})
	}
	if l.Threads > 0 {
		if _, err := fmt.Fprintf(w, "limits of %d threads at %s: %s GB/s read, %s Gop/s int8, %s Gop/s float32\n\n",
			l.Threads, l.Level, billions(l.All.ReadBytes), billions(l.All.Int8Ops), billions(l.All.FloatOps)); err != nil {
			return err
		}
	}
	return markdown(w, columns, cells)
}

// billions prints a rate in giga; nothing is a dash.
func billions(rate float64) string {
	if rate == 0 {
		return "–"
	}
	return unit.ThreeDigits(rate / 1e9)
}
