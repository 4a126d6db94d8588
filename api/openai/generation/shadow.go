package generation

import (
	"context"
	"net/http"
	"strings"
	"time"

	"weir/api/edge"
	"weir/api/openai/choice"
	"weir/api/openai/job"
)

// Shadowed is what a shadow gave. Times are 0 where no token came, or only one.
type Shadowed struct {
	Texts  []string
	Output int // tokens
	TTFT   time.Duration
	ITL    time.Duration // mean gap between tokens

	Compute time.Duration // of the engine; 0 for an upstream's answer
}

// refusals are how answers of common models begin that do not do what was asked.
var refusals = []string{"i'm sorry, but", "i am sorry, but", "i cannot ", "i can't ", "i'm unable to", "i am unable to", "i'm not able to", "i won't "}

// refusalBytes is where an answer that refuses has said so.
const refusalBytes = 120

// Shadow computes an answer that no hook hears of, and that no tenant pays for.
func (r *Runner) Shadow(ctx context.Context, j *job.Job) (Shadowed, error) {
	quiet := *r
	quiet.Hooks = &edge.Hooks{}
	g := &Generation{runner: &quiet, Job: j, gone: ctx.Done()}
	streams, err := g.submit()
	if err != nil {
		return Shadowed{}, err
	}
	for _, st := range streams {
		g.streams = append(g.streams, &stream{Source: choice.Source{Stream: st}})
	}
	for i := range len(j.Prompts) * j.Params.N {
		g.choices = append(g.choices, choice.New(j, &g.streams[i/j.Params.N].Source, i))
	}
	g.open = len(g.choices)
	fault := g.Run()
	g.cancel()
	if fault != nil {
		return Shadowed{}, fault
	}
	got := Shadowed{Texts: g.answers(), Output: g.outputTokens(), TTFT: Since(j.Arrived, g.Result.FirstToken), ITL: g.meanGap()}
	for _, st := range g.streams {
		got.Compute += st.Compute()
	}
	return got, nil
}

// Since is the time between two moments, 0 where the second never came.
func Since(from, to time.Time) time.Duration {
	if to.IsZero() {
		return 0
	}
	return to.Sub(from)
}

// meanGap is the mean time between the tokens of a choice; 0 where there was none.
func (g *Generation) meanGap() time.Duration {
	if gaps := g.outputTokens() - len(g.choices); gaps > 0 {
		return Since(g.Result.FirstToken, g.Result.LastToken) * time.Duration(len(g.choices)) / time.Duration(gaps)
	}
	return 0
}

// answers are the texts of all choices, of a job that keeps them.
func (g *Generation) answers() []string {
	var list []string
	for _, c := range g.choices {
		list = append(list, c.Said())
	}
	return list
}

// judge notes what a rollout asks of an answer's text: whether there is any, and whether
// it refuses.
func (g *Generation) judge() {
	g.Result.Empty = g.open == 0 && g.Result.Status == http.StatusOK && len(g.choices) > 0
	for i, c := range g.choices {
		g.Result.Empty = g.Result.Empty && c.SaysNothing()
		if g.Job.Arm.Name != "" && i == 0 {
			g.Result.Refuses = c.IsFiltered() || Refuses(g.answers()[0])
		}
	}
}

// Refuses reports whether a text begins as a refusal does.
func Refuses(text string) bool {
	text = strings.ToLower(strings.ReplaceAll(text[:min(len(text), refusalBytes)], "’", "'"))
	for _, r := range refusals {
		if strings.Contains(text, r) {
			return true
		}
	}
	return false
}
