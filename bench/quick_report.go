package bench

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"weir/internal/unit"
)

func usersText(n int) string {
	if n == 1 {
		return "1 user"
	}
	return fmt.Sprintf("%d users", n)
}

// Sentence says it all.
func (r *QuickReport) Sentence() string {
	goals := fmt.Sprintf("first token below %s and %s tokens per second each", unit.Seconds(r.TTFT.Seconds()), short(r.PerUser))
	switch {
	case r.Users == 0:
		one := &r.Steps[0]
		return fmt.Sprintf("Not one user: first token after %s and %s, the goals are %s and %s.",
			unit.Seconds(one.TTFT), one.rate(), unit.Seconds(r.TTFT.Seconds()), short(r.PerUser))
	case r.Open:
		return fmt.Sprintf("%s at once or more: %s.", usersText(r.Users), goals)
	}
	return fmt.Sprintf("%s at once: %s.", usersText(r.Users), goals)
}

// String is a line about the step.
func (s QuickStep) String() string {
	verdict := "within the goals"
	if !s.Holds {
		verdict = "not within the goals"
	}
	return fmt.Sprintf("%s: first token %s, %s, %s", usersText(s.Users), unit.Seconds(s.TTFT), strings.Replace(s.rate(), "per second", "per second each", 1), verdict)
}

// rate is PerUser in words.
func (s *QuickStep) rate() string {
	if s.PerUser == 0 {
		return "too few tokens to tell a rate"
	}
	return short(s.PerUser) + " tokens per second"
}

// quickBar is the width of a bar in the terminal's picture.
const quickBar = 16

// Print writes the sentence, what bounds it, and a picture.
func (r *QuickReport) Print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", r.Sentence())
	fmt.Fprintf(&b, "Bound: %s. %s.\n", r.Bound.Kind, upperFirst(r.Bound.Text))
	fmt.Fprintf(&b, "%s.\n\n", upperFirst(r.Bound.Help))
	fmt.Fprintf(&b, "%5s  %-*s  %-*s  %8s  %s\n", "users", quickBar+9, "first token, 9 of 10", quickBar+9, "tokens/s each, 9 of 10", "together", "within goals")
	slowest, fastest := 2*r.TTFT.Seconds(), 0.0
	for i := range r.Steps {
		fastest = max(fastest, r.Steps[i].PerUser)
	}
	for i := range r.Steps {
		s := &r.Steps[i]
		mark, rate := " ", short(s.PerUser)
		if s.PerUser == 0 {
			rate = "–"
		}
		if !s.Holds {
			mark = "✗"
		}
		fmt.Fprintf(&b, "%5d  %8s %s  %8s %s  %8s  %s %d of %d\n", s.Users,
			unit.Seconds(s.TTFT), bar(s.TTFT/slowest), rate, bar(s.PerUser/max(fastest, r.PerUser)), short(s.Output), mark, s.Judged-s.Missed, s.Judged)
	}
	fmt.Fprintf(&b, "\n%s, %s: prompts of %d tokens that share nothing, answers of about %d.\n", r.Model, r.Endpoint, r.Input, r.Output)
	_, err := io.WriteString(w, b.String())
	return err
}

func upperFirst(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// bar is a bar of a share of its width, in eighths of a cell.
func bar(share float64) string {
	eighths := int(math.Round(min(max(share, 0), 1) * quickBar * 8))
	text := strings.Repeat("█", eighths/8)
	if rest := eighths % 8; rest > 0 {
		text += string([]rune("▏▎▍▌▋▊▉")[rest-1])
	}
	return text + strings.Repeat(" ", quickBar-len([]rune(text)))
}

// Fill adds the figures to a result.
func (r *QuickReport) Fill(result *Result) {
	result.Model.Name = r.Model
	result.AddValue("users", "", float64(r.Users))
	for i := range r.Steps {
		s := &r.Steps[i]
		name := fmt.Sprintf("%d_users_", s.Users)
		result.AddValue(name+"p90_ttft", "ms", 1000*s.TTFT)
		result.AddValue(name+"p10_tokens_each", "tok/s", s.PerUser)
		result.AddValue(name+"output_throughput", "tok/s", s.Output)
	}
	result.Notes = append(result.Notes, r.Sentence(), "bound: "+r.Bound.Kind+": "+r.Bound.Text)
}

// Plot draws both goals and what so many users saw as SVG.
func (r *QuickReport) Plot(w io.Writer) error {
	d := newDrawing(2*panelWidth, titleHeight+legendLine+panelHeight, "Users at once")
	d.text(panelLeft, 26, start, "title", r.Sentence())
	d.text(panelLeft, titleHeight+6, start, "faint", fmt.Sprintf("%s. Bound: %s. The line is the goal; 9 of 10 requests are on the good side of a dot.", r.Model, r.Bound.Kind))
	r.panel(d, 0, "Time to first token, ms", 1000*r.TTFT.Seconds(), func(s *QuickStep) float64 { return 1000 * s.TTFT })
	r.panel(d, panelWidth, "Tokens per second, each", r.PerUser, func(s *QuickStep) float64 { return s.PerUser })
	return d.writeTo(w)
}

func (r *QuickReport) panel(d *drawing, left float64, title string, goal float64, value func(*QuickStep) float64) {
	low, high := goal, goal
	for i := range r.Steps {
		if v := value(&r.Steps[i]); v > 0 {
			low, high = min(low, v), max(high, v)
		}
	}
	top, bottom := titleHeight+legendLine+panelTop, titleHeight+legendLine+panelHeight-panelBottom
	x := newLogScale(1, float64(r.Steps[len(r.Steps)-1].Users), left+panelLeft, left+panelWidth-panelRight)
	y := newLogScale(low, high, bottom, top)
	d.text(x.from, top-10, start, "head", title)
	for _, t := range y.ticks() {
		d.line(x.from, y.at(t), x.to, y.at(t), "grid")
		d.text(x.from-8, y.at(t)+4, end, "faint", short(t))
	}
	d.line(x.from, bottom, x.to, bottom, "axis")
	d.line(x.from, y.at(goal), x.to, y.at(goal), "axis")
	d.text(x.to, y.at(goal)-5, end, "faint", "goal "+short(goal))
	d.text((x.from+x.to)/2, bottom+34, middle, "faint", "users at once, logarithmic")
	var points []float64
	for i := range r.Steps {
		s := &r.Steps[i]
		d.text(x.at(float64(s.Users)), bottom+16, middle, "faint", strconv.Itoa(s.Users))
		if v := value(s); v > 0 {
			points = append(points, x.at(float64(s.Users)), y.at(v))
		}
	}
	d.curve(points, "s0")
	for i := range r.Steps {
		class := "good"
		if !r.Steps[i].Holds {
			class = "bad"
		}
		if v := value(&r.Steps[i]); v > 0 {
			d.dot(x.at(float64(r.Steps[i].Users)), y.at(v), class)
		}
	}
}
