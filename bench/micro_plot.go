package bench

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"weir/internal/roofline"
)

// Sizes of a roofline plot: a panel for each type.
const (
	roofColumns           = 3
	roofWidth, roofHeight = 300.0, 240.0
	roofLeft, roofRight   = 52.0, 14.0
	roofTop, roofBottom   = 30.0, 42.0
	roofHeading           = 58.0
)

// PlotRoofline draws the products and attention of a run under the limits of
// the machine, as SVG: operations per second over operations per byte, both
// logarithmic. The slope is memory, the level part the multipliers.
func PlotRoofline(w io.Writer, rows []MicroRow, l roofline.Limits) error {
	groups, names := roofGroups(rows)
	if len(names) == 0 || l.All.ReadBytes == 0 {
		return errors.New("plot: it takes products or attention, and the machine's limits; measure both")
	}
	lines := (len(names) + roofColumns - 1) / roofColumns
	d := newDrawing(roofColumns*roofWidth, roofHeading+float64(lines)*roofHeight, "Roofline of the kernels")
	d.text(roofLeft, 26, start, "title", fmt.Sprintf(
		"Kernels under the roof: %s GB/s, %s Gop/s int8, %s Gop/s float32 (%d threads, %s)",
		billions(l.All.ReadBytes), billions(l.All.Int8Ops), billions(l.All.FloatOps), l.Threads, l.Level))
	d.text(roofLeft, 44, start, "faint", "numbers at points are rows of a product; "+
		"a percentage is the best share of the limit that a point meets first")
	low, high, slowest := extent(rows)
	for i, name := range names {
		p := roofPanel{
			left: roofWidth * float64(i%roofColumns), top: roofHeading + roofHeight*float64(i/roofColumns),
			series: series(i), limit: l.All,
		}
		p.x = newLogScale(low, high, p.left+roofLeft, p.left+roofWidth-roofRight)
		p.y = newLogScale(slowest/1e9, l.All.Int8Ops/1e9, p.top+roofHeight-roofBottom, p.top+roofTop)
		p.draw(d, name, groups[name])
	}
	return d.writeTo(w)
}

// roofGroups sorts rows into panels, in order of appearance; operations that
// memory does not limit have no place under the roof.
func roofGroups(rows []MicroRow) (groups map[string][]MicroRow, names []string) {
	groups = make(map[string][]MicroRow)
	for _, r := range rows {
		if r.InCache || r.Ops() == 0 || r.Work.Bytes == 0 {
			continue
		}
		name := r.Kernel + " " + r.Type
		if groups[name] == nil {
			names = append(names, name)
		}
		groups[name] = append(groups[name], r)
	}
	return groups, names
}

func intensity(r MicroRow) float64 { return r.Ops() / r.Work.Bytes }

// extent is the range of intensities and the least speed.
func extent(rows []MicroRow) (low, high, slowest float64) {
	low, slowest = math.Inf(1), math.Inf(1)
	for _, r := range rows {
		if r.InCache || r.Ops() == 0 || r.Work.Bytes == 0 {
			continue
		}
		low, high = min(low, intensity(r)), max(high, intensity(r))
		slowest = min(slowest, r.Ops()/r.Median())
	}
	return low, high, slowest
}

type roofPanel struct {
	left, top float64
	x, y      logScale
	series    string
	limit     roofline.Rates
}

func (p roofPanel) draw(d *drawing, name string, rows []MicroRow) {
	d.text(p.x.from, p.top+18, start, "head", name)
	for _, t := range p.x.ticks() {
		d.line(p.x.at(t), p.y.from, p.x.at(t), p.y.to, "grid")
		d.text(p.x.at(t), p.y.from+15, middle, "faint", short(t))
	}
	for _, t := range p.y.ticks() {
		d.line(p.x.from, p.y.at(t), p.x.to, p.y.at(t), "grid")
		d.text(p.x.from-6, p.y.at(t)+4, end, "faint", short(t))
	}
	d.text((p.x.from+p.x.to)/2, p.y.from+31, middle, "faint", "operations per byte")
	d.upright(p.left+12, (p.y.from+p.y.to)/2, "faint", "Gop/s")
	p.roof(d, rows[0])
	slices.SortStableFunc(rows, func(a, b MicroRow) int { return cmp.Compare(intensity(a), intensity(b)) })
	best := 0.0
	var points []float64
	for _, r := range rows {
		points = append(points, p.x.at(intensity(r)), p.y.at(r.Ops()/r.Median()/1e9))
		if share, _, ok := r.Share(p.limit); ok {
			best = max(best, share)
		}
	}
	if rows[0].Rows > 0 {
		d.curve(points, p.series)
	}
	for i, r := range rows {
		x, y := points[2*i], points[2*i+1]
		d.dot(x, y, p.series)
		if r.Rows > 0 {
			d.text(x, y+16, middle, "faint", strconv.Itoa(r.Rows))
		}
	}
	d.text(p.x.to, p.top+18, end, p.series, fmt.Sprintf("up to %.0f %%", 100*best))
}

// roof draws the limits that apply to a panel's operations.
func (p roofPanel) roof(d *drawing, like MicroRow) {
	peak := p.limit.Int8Ops
	if like.Work.FloatOps > 0 {
		peak = p.limit.FloatOps
	}
	from, ridge := p.x.low, peak/p.limit.ReadBytes
	points := []float64{}
	for _, x := range []float64{from, min(ridge, p.x.high), p.x.high} {
		points = append(points, p.x.at(x), p.y.at(min(peak, x*p.limit.ReadBytes)/1e9))
	}
	d.curve(points, "even")
}
