package drift

import (
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"
)

// Handler shows reports: JSON, or a page with plots for a browser (?format=html or
// json says which). ?model=NAME keeps to one model.
func Handler(reports func() []Report) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		list := reports()
		if name := r.URL.Query().Get("model"); name != "" {
			list = slices.DeleteFunc(list, func(p Report) bool { return p.Model != name })
		}
		format := r.URL.Query().Get("format")
		if format == "" && strings.Contains(r.Header.Get("Accept"), "text/html") {
			format = "html"
		}
		if format == "html" {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
			_ = page.Execute(w, list) // a broken peer is no news
			return
		}
		w.Header().Set("Content-Type", "application/json")
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		_ = e.Encode(map[string]any{"models": list}) // a broken peer is no news
	})
}

// Size of a plot.
const (
	plotWidth, plotHeight   = 320, 110
	sparkWidth, sparkHeight = 120, 24
)

// bar is one bar of a plot, in its units.
type bar struct {
	X, Y, Width, Height float64
	Class, Title        string
}

// bars draws the shares by bin side by side: reference, then now. Missing values are
// the last bin.
func (c ColumnReport) bars() []bar {
	list := append(slices.Clone(c.Bins), Bin{"missing", c.Missing})
	highest := 1e-9
	for _, b := range list {
		highest = max(highest, b.Reference, b.Now)
	}
	step := plotWidth / float64(len(list))
	var out []bar
	for i, b := range list {
		for j, share := range []float64{b.Reference, b.Now} {
			h := share / highest * (plotHeight - 4)
			class := [...]string{"reference", "now"}[j]
			out = append(out, bar{
				X: float64(i)*step + float64(j)*step*0.42 + step*0.08, Y: plotHeight - h, Width: step * 0.4, Height: h,
				Class: class, Title: fmt.Sprintf("%s: %s %.2f %%", b.Label, class, share*100),
			})
		}
	}
	return out
}

// spark is the history of PSI as the points of a line; the top is 0.5 or the highest.
func (c ColumnReport) spark() string {
	top := 0.5
	for _, v := range c.History {
		top = max(top, v)
	}
	var b strings.Builder
	for i, v := range c.History {
		x := float64(i) / float64(max(len(c.History)-1, 1)) * sparkWidth
		fmt.Fprintf(&b, "%.1f,%.1f ", x, sparkHeight-1-v/top*(sparkHeight-2))
	}
	return b.String()
}

var page = template.Must(template.New("drift").Funcs(template.FuncMap{
	"bars":    ColumnReport.bars,
	"spark":   ColumnReport.spark,
	"percent": func(x float64) string { return fmt.Sprintf("%.2f %%", x*100) },
	"three":   func(x float64) string { return fmt.Sprintf("%.3f", x) },
}).Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><title>weir: drift</title>
<style>
body{font:14px/1.4 system-ui,sans-serif;margin:1.5rem;color:#222;background:#fff}
h1{font-size:1.2rem}h2{font-size:1.05rem;margin:1.5rem 0 .3rem}
.grid{display:flex;flex-wrap:wrap;gap:1rem}
.card{border:1px solid #ccc;border-radius:4px;padding:.6rem;width:322px}
.card.drifting{border-color:#b3261e;border-width:2px}
.name{font-weight:600;overflow-wrap:anywhere}.state{float:right;color:#666}.drifting .state{color:#b3261e;font-weight:600}
.numbers{color:#555;font-size:12px}
.reference{fill:#9aa5b1}.now{fill:#1f6feb}.drifting .now{fill:#b3261e}
polyline{fill:none;stroke:#555;stroke-width:1}
.key span{display:inline-block;width:.8em;height:.8em;margin:0 .3em 0 1em}
</style>
<h1>Drift of features and scores</h1>
<p class="key"><span style="background:#9aa5b1"></span>reference<span style="background:#1f6feb"></span>last window</p>
{{range .}}<h2>{{.Model}} {{.Version}}</h2>
<p>{{if .Judged}}Window of {{.Rows}} rows that ended {{.Judged.UTC.Format "2006-01-02 15:04:05"}} UTC; {{.Drifting}} columns drift.{{else}}No window was
judged yet.{{end}} Since then {{.Waiting}} rows were counted, of at least {{.MinRows}}.</p>
<div class="grid">{{range .Columns}}<div class="card {{.State}}"><span class="state">{{.State}}</span><div class="name">{{.Name}}
{{if eq .Kind "score"}}(score){{end}}</div>
<svg width="320" height="110" role="img" aria-label="shares by bin">{{range bars .}}<rect x="{{.X}}" y="{{.Y}}" width="{{.Width}}" height="{{.Height}}"
class="{{.Class}}"><title>{{.Title}}</title></rect>{{end}}</svg>
<div class="numbers">PSI {{three .Distance.PSI}} · JS {{three .Distance.JS}} · KS {{three .Distance.KS}} · missing {{percent .Missing.Reference}} →
{{percent .Missing.Now}}</div>
<svg width="120" height="24" role="img" aria-label="PSI by window"><polyline points="{{spark .}}"/></svg></div>{{end}}</div>
{{else}}<p>No model has a reference profile. <code>weir eval --profile</code> makes one.</p>{{end}}
</html>
`))
