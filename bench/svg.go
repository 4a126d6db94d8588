package bench

import (
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// drawing collects an SVG picture. Lengths are in pixels from the top left.
// Colours come from classes of its style sheet, which has a light and a dark
// form.
type drawing struct {
	b             strings.Builder
	width, height float64
}

// colours of a style sheet: for light grounds, for dark ones.
var colours = []struct{ selector, property, light, dark string }{
	{".ground", "fill", "#ffffff", "#0d1117"},
	{"text", "fill", "#1f2328", "#e6edf3"},
	{".faint", "fill", "#59636e", "#9da7b3"},
	{".grid", "stroke", "#e1e5ea", "#262c33"},
	{".axis", "stroke", "#59636e", "#9da7b3"},
	{"s0", "", "#0b66d0", "#58a6ff"},
	{"s1", "", "#c2410c", "#ff9b50"},
	{"s2", "", "#15803d", "#56d364"},
	{"s3", "", "#9333ea", "#d2a8ff"},
	{"s4", "", "#a16207", "#e3b341"},
	{"s5", "", "#be185d", "#ff7bac"},
	{"good", "", "#15803d", "#56d364"},
	{"bad", "", "#c2410c", "#ff9b50"},
	{"even", "", "#8b949e", "#8b949e"},
}

// palette is the number of classes "s0", "s1" … of series.
const palette = 6

// styleSheet is written out in both forms: variables are not understood by
// every program that shows SVG.
func styleSheet() string {
	var light, dark strings.Builder
	for _, c := range colours {
		if c.property != "" {
			fmt.Fprintf(&light, "%s { %s: %s; }\n", c.selector, c.property, c.light)
			fmt.Fprintf(&dark, "%s { %s: %s; }\n", c.selector, c.property, c.dark)
			continue
		}
		const form = ".curve.%[1]s { stroke: %[2]s; } .fill.%[1]s, text.%[1]s { fill: %[2]s; }\n"
		fmt.Fprintf(&light, form, c.selector, c.light)
		fmt.Fprintf(&dark, form, c.selector, c.dark)
	}
	return `
text { font-family: system-ui, "DejaVu Sans", sans-serif; font-size: 12px; }
.title { font-size: 15px; font-weight: 600; }
.head { font-weight: 600; }
.faint { font-size: 11px; }
.grid, .axis { stroke-width: 1; }
.curve { fill: none; stroke-width: 2; stroke-linejoin: round; }
` + light.String() + "@media (prefers-color-scheme: dark) {\n" + dark.String() + "}\n"
}

func newDrawing(width, height float64, title string) *drawing {
	d := &drawing{width: width, height: height}
	fmt.Fprintf(&d.b, `<svg xmlns="http://www.w3.org/2000/svg" width="%s" height="%s" viewBox="0 0 %[1]s %[2]s" role="img">`,
		px(width), px(height))
	fmt.Fprintf(&d.b, "\n<title>%s</title>\n<style>%s</style>\n", escape(title), styleSheet())
	d.rect(0, 0, width, height, "ground")
	return d
}

// px has as many decimals as a screen can show.
func px(v float64) string { return strconv.FormatFloat(math.Round(v*100)/100, 'f', -1, 64) }

func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a builder does not fail
	return b.String()
}

func (d *drawing) rect(x, y, width, height float64, class string) {
	fmt.Fprintf(&d.b, `<rect x="%s" y="%s" width="%s" height="%s" class="%s"/>`+"\n", px(x), px(y), px(width), px(height), class)
}

func (d *drawing) line(x1, y1, x2, y2 float64, class string) {
	fmt.Fprintf(&d.b, `<line x1="%s" y1="%s" x2="%s" y2="%s" class="%s"/>`+"\n", px(x1), px(y1), px(x2), px(y2), class)
}

func (d *drawing) dot(x, y float64, class string) {
	fmt.Fprintf(&d.b, `<circle cx="%s" cy="%s" r="3.5" class="fill %s"/>`+"\n", px(x), px(y), class)
}

// curve joins points, given as x, y, x, y …
func (d *drawing) curve(points []float64, class string) {
	d.b.WriteString(`<polyline points="`)
	for i := 0; i+1 < len(points); i += 2 {
		fmt.Fprintf(&d.b, "%s,%s ", px(points[i]), px(points[i+1]))
	}
	fmt.Fprintf(&d.b, `" class="curve %s"/>`+"\n", class)
}

// The places of a text relative to its point.
const (
	start  = "start"
	middle = "middle"
	end    = "end"
)

func (d *drawing) text(x, y float64, anchor, class, s string) {
	fmt.Fprintf(&d.b, `<text x="%s" y="%s" text-anchor="%s" class="%s">%s</text>`+"\n", px(x), px(y), anchor, class, escape(s))
}

// upright is a text that reads from below.
func (d *drawing) upright(x, y float64, class, s string) {
	fmt.Fprintf(&d.b, `<text transform="translate(%s %s) rotate(-90)" text-anchor="middle" class="%s">%s</text>`+"\n",
		px(x), px(y), class, escape(s))
}

func (d *drawing) writeTo(w io.Writer) error {
	_, err := io.WriteString(w, d.b.String()+"</svg>\n")
	return err
}

// logScale maps values above 0 to pixels.
type logScale struct{ low, high, from, to float64 }

// newLogScale covers the values with a little room; it is never empty.
func newLogScale(low, high, from, to float64) logScale {
	if !(low > 0) {
		low = 1e-3
	}
	if !(high > low) {
		high = low
	}
	room := max(1.15, math.Pow(high/low, 0.04))
	return logScale{low / room, high * room, from, to}
}

func (s logScale) at(v float64) float64 {
	share := math.Log(max(v, s.low)/s.low) / math.Log(s.high/s.low)
	return s.from + (s.to-s.from)*min(share, 1)
}

// ticks are round numbers in the scale, about three to eight.
func (s logScale) ticks() []float64 {
	for _, steps := range [][]float64{{1}, {1, 3}, {1, 2, 5}, {1, 1.5, 2, 3, 4, 5, 7},
		{1, 1.1, 1.2, 1.3, 1.4, 1.6, 1.8, 2, 2.2, 2.5, 3, 3.5, 4, 4.5, 5, 6, 7, 8, 9}} {
		if ticks := s.multiples(steps); len(ticks) >= 3 {
			return thin(ticks, 8)
		}
	}
	return []float64{s.low, s.high}
}

// multiples are the steps times powers of ten that lie in the scale.
func (s logScale) multiples(steps []float64) []float64 {
	var out []float64
	for e := math.Floor(math.Log10(s.low)); e <= math.Log10(s.high); e++ {
		for _, m := range steps {
			if v := m * math.Pow(10, e); v >= s.low && v <= s.high {
				out = append(out, v)
			}
		}
	}
	return out
}

// thin leaves every second value out until at most n are left.
func thin(values []float64, n int) []float64 {
	for len(values) > n {
		kept := values[:0]
		for i := 0; i < len(values); i += 2 {
			kept = append(kept, values[i])
		}
		values = kept
	}
	return values
}

// short prints a number with three significant digits.
func short(v float64) string {
	switch {
	case v == 0:
		return "0"
	case math.Abs(v) >= 1e6 || math.Abs(v) < 1e-3:
		return strconv.FormatFloat(v, 'g', 3, 64)
	case math.Abs(v) >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}
