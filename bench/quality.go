package bench

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
)

// scorer is what is measured: engine/llm's Scorer. A reference may be LogProbs, too.
type scorer interface {
	Score(tokens []int32, from int, yield func(position int, logits []float32)) error
	Vocabulary() int
}

// QualityOptions say on which tokens two models are compared.
type QualityOptions struct {
	Tokens  []int32
	BOS     int32 // begins each window in place of its first token, as llama-perplexity does; negative: none
	Context int   // tokens of a window
	From    int   // first position of a window that counts
	Windows int   // at most; 0 is all

	// Save, if set, is where the reference's log-probabilities are written as LogProbs. Only windows whose second
	// half counts can be saved.
	Save io.Writer

	Progress func(done, total int)
}

// windows cuts the tokens; a rest that fills no window is left out.
func (o *QualityOptions) windows() ([][]int32, error) {
	if o.Context < 2 || o.From < 0 || o.From > o.Context-2 {
		return nil, fmt.Errorf("a window of %d tokens, counted from position %d: it takes 2 tokens, and a position before the last two", o.Context, o.From)
	}
	var list [][]int32
	for lo := 0; lo+o.Context <= len(o.Tokens) && (o.Windows == 0 || len(list) < o.Windows); lo += o.Context {
		window := slices.Clone(o.Tokens[lo : lo+o.Context])
		if o.BOS >= 0 {
			window[0] = o.BOS
		}
		list = append(list, window)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("the text has %d tokens, less than one window of %d; take a longer text or a smaller --context", len(o.Tokens), o.Context)
	}
	return list, nil
}

// Quality compares a model with a reference, position by position. The figures are
// those of llama-perplexity --kl-divergence.
type Quality struct {
	Positions int // that were compared

	Perplexity, ReferencePerplexity Estimate
	LogRatio                        Estimate // mean of ln(p of the reference / p of the model) of the text's tokens
	KL                              Estimate // mean Kullback-Leibler divergence, in nats
	KLQuantiles                     []Quantile
	SameTop                         Estimate // share of positions with the same most probable token
	DeltaP                          Estimate // mean of the change of the text's tokens' probability
	RMSDeltaP                       float64

	ByPosition []PositionKL
}

// Estimate is a mean and its standard error.
type Estimate struct{ Value, Error float64 }

// Quantile is a value below which a share of all positions lies.
type Quantile struct{ Share, Value float64 }

// PositionKL is the mean divergence at positions of a window from From up to To.
type PositionKL struct {
	From, To int
	KL       float64
}

// quantileShares are those of Quality.KLQuantiles.
var quantileShares = []float64{0.1, 0.5, 0.9, 0.95, 0.99, 0.999, 1}

// CompareQuality computes both models on the same windows. Memory: the reference's
// logits of one window's counted positions.
func CompareQuality(reference, model scorer, o QualityOptions) (*Quality, error) {
	if a, b := reference.Vocabulary(), model.Vocabulary(); a != b {
		return nil, fmt.Errorf("the reference has %d tokens in its vocabulary and the model %d; only models with one vocabulary can be compared", a, b)
	}
	windows, err := o.windows()
	if err != nil {
		return nil, err
	}
	c := comparison{vocabulary: model.Vocabulary(), counted: o.Context - 1 - o.From, from: o.From, floor: -40}
	if _, saved := reference.(*LogProbs); saved {
		c.saved, c.floor = true, logProbsFloor
	}
	if o.Save != nil {
		if o.From != o.Context/2 {
			return nil, fmt.Errorf("log-probabilities are saved of the second half of windows, not from position %d of %d", o.From, o.Context)
		}
		c.save = NewLogProbsWriter(o.Save, c.vocabulary, windows)
	}
	c.reference = make([]float32, c.counted*c.vocabulary)
	for i, w := range windows {
		if err := c.add(reference, model, w); err != nil {
			return nil, err
		}
		if o.Progress != nil {
			o.Progress(i+1, len(windows))
		}
	}
	if c.save != nil {
		if err := c.save.Close(); err != nil {
			return nil, fmt.Errorf("save log-probabilities: %w", err)
		}
	}
	return c.result(), nil
}

// comparison collects one number of each kind per position.
type comparison struct {
	vocabulary, counted, from int
	reference                 []float32 // of one window, [counted][vocabulary]
	saved                     bool      // the reference's rows are log-probabilities
	floor                     float64   // of log-probabilities whose tokens enter a divergence; others add next to nothing
	save                      *LogProbsWriter

	kl, nll, referenceNLL, deltaP, same []float64
}

func (c *comparison) add(reference, model scorer, window []int32) error {
	err := reference.Score(window[:len(window)-1], c.from, func(position int, logits []float32) {
		copy(c.reference[(position-c.from)*c.vocabulary:], logits)
		if c.save != nil {
			c.save.add(logits)
		}
	})
	if err != nil {
		return fmt.Errorf("reference: %w", err)
	}
	return model.Score(window[:len(window)-1], c.from, func(position int, logits []float32) {
		c.position(c.reference[(position-c.from)*c.vocabulary:][:c.vocabulary], logits, int(window[position+1]))
	})
}

// position compares two rows of logits; next is the token that the text goes on with.
func (c *comparison) position(reference, model []float32, next int) {
	p, q := newDistribution(reference), newDistribution(model)
	if c.saved {
		p.logWeights = 0 // the least probable tokens were raised to the format's least value, so that all do not sum up to 1
	}
	kl := 0.0
	for i, x := range reference {
		if lp := p.log(x); lp > c.floor {
			kl += math.Exp(lp) * (lp - q.log(model[i]))
		}
	}
	lp, lq := p.log(reference[next]), q.log(model[next])
	c.kl = append(c.kl, max(kl, 0)) // below 0 by rounding only
	c.referenceNLL, c.nll = append(c.referenceNLL, -lp), append(c.nll, -lq)
	c.deltaP = append(c.deltaP, math.Exp(lq)-math.Exp(lp))
	same := 0.0
	if p.top == q.top {
		same = 1
	}
	c.same = append(c.same, same)
}

// distribution is a softmax that is not written out.
type distribution struct {
	top        int
	logWeights float64 // log of the sum of all exp(logit)
}

func newDistribution(logits []float32) (d distribution) {
	for i, x := range logits {
		if x > logits[d.top] {
			d.top = i
		}
	}
	most, sum := float64(logits[d.top]), 0.0
	for _, x := range logits {
		sum += math.Exp(float64(x) - most)
	}
	d.logWeights = most + math.Log(sum)
	return d
}

// log is the log-probability of a token with this logit.
func (d *distribution) log(logit float32) float64 { return float64(logit) - d.logWeights }

func (c *comparison) result() *Quality {
	q := &Quality{Positions: len(c.kl), KL: estimate(c.kl), SameTop: estimate(c.same), DeltaP: estimate(c.deltaP)}
	q.Perplexity, q.ReferencePerplexity = perplexity(c.nll), perplexity(c.referenceNLL)
	ratio := make([]float64, len(c.nll))
	squares := 0.0
	for i := range ratio {
		ratio[i] = c.nll[i] - c.referenceNLL[i]
		squares += c.deltaP[i] * c.deltaP[i]
	}
	q.LogRatio, q.RMSDeltaP = estimate(ratio), math.Sqrt(squares/float64(len(ratio)))
	sorted := slices.Sorted(slices.Values(c.kl))
	for _, share := range quantileShares {
		q.KLQuantiles = append(q.KLQuantiles, Quantile{share, sorted[min(int(share*float64(len(sorted))), len(sorted)-1)]})
	}
	q.ByPosition = c.byPosition()
	return q
}

// byPosition is the mean divergence of up to 16 stretches of a window.
func (c *comparison) byPosition() (list []PositionKL) {
	stretches := min(16, c.counted)
	for s := range stretches {
		lo, hi := s*c.counted/stretches, (s+1)*c.counted/stretches
		sum, n := 0.0, 0
		for at := 0; at < len(c.kl); at += c.counted {
			for _, kl := range c.kl[at+lo : at+hi] {
				sum, n = sum+kl, n+1
			}
		}
		list = append(list, PositionKL{From: c.from + lo, To: c.from + hi, KL: sum / float64(n)})
	}
	return list
}

// estimate takes the values as independent.
func estimate(values []float64) Estimate {
	n, m := float64(len(values)), mean(values)
	squares := 0.0
	for _, v := range values {
		squares += (v - m) * (v - m)
	}
	if n < 2 {
		return Estimate{Value: m}
	}
	return Estimate{m, math.Sqrt(squares / (n - 1) / n)}
}

func perplexity(nll []float64) Estimate {
	e := estimate(nll)
	ppl := math.Exp(e.Value)
	return Estimate{ppl, ppl * e.Error}
}

// AddQuality writes the comparison's figures into the result.
func (r *Result) AddQuality(q *Quality) {
	for _, row := range q.rows() {
		r.AddValue(row.name, row.unit, row.value)
	}
	for _, p := range q.ByPosition {
		r.AddValue(fmt.Sprintf("kl_at_%d", p.From), "nats", p.KL)
	}
}

type qualityRow struct {
	name, unit, title string
	value, err        float64
}

func (q *Quality) rows() []qualityRow {
	list := []qualityRow{
		{"kl_mean", "nats", "mean KL divergence", q.KL.Value, q.KL.Error},
	}
	for _, k := range q.KLQuantiles {
		title := "KL divergence, " + strconv.FormatFloat(100*k.Share, 'f', -1, 64) + " %"
		name := "kl_p" + strconv.FormatFloat(100*k.Share, 'f', -1, 64)
		switch k.Share {
		case 0.5:
			title = "KL divergence, median"
		case 1:
			name, title = "kl_max", "KL divergence, largest"
		}
		list = append(list, qualityRow{name, "nats", title, k.Value, 0})
	}
	return append(list,
		qualityRow{"same_top", "share", "same most probable token", q.SameTop.Value, q.SameTop.Error},
		qualityRow{"perplexity", "ppl", "perplexity", q.Perplexity.Value, q.Perplexity.Error},
		qualityRow{"reference_perplexity", "ppl", "perplexity of the reference", q.ReferencePerplexity.Value, q.ReferencePerplexity.Error},
		qualityRow{"log_ratio", "nats", "mean ln(perplexity ratio)", q.LogRatio.Value, q.LogRatio.Error},
		qualityRow{"delta_p_mean", "share", "mean change of p(text)", q.DeltaP.Value, q.DeltaP.Error},
		qualityRow{"delta_p_rms", "share", "root mean square change of p(text)", q.RMSDeltaP, 0})
}

// WriteQualityMarkdown writes the comparison as a table.
func WriteQualityMarkdown(w io.Writer, q *Quality) error {
	columns := []column{{title: "figure"}, {title: "value", align: right}, {title: "± standard error", align: right}}
	var rows [][]string
	for _, r := range q.rows() {
		e := ""
		if r.err != 0 {
			e = fmt.Sprintf("%.2g", r.err)
		}
		rows = append(rows, []string{r.title, fmt.Sprintf("%.5g", r.value), e})
	}
	return markdown(w, columns, rows)
}

// PlotQuality draws the mean divergence over the position in a window, as SVG.
func PlotQuality(w io.Writer, title string, q *Quality) error {
	if len(q.ByPosition) < 2 {
		return errors.New("plot: one position was compared; a curve takes two")
	}
	const width, height, left, right, top, bottom = 640.0, 320.0, 70.0, 20.0, 50.0, 46.0
	most := slices.MaxFunc(q.ByPosition, func(a, b PositionKL) int { return int(math.Copysign(1, a.KL-b.KL)) }).KL
	if most == 0 {
		most = 1e-9
	}
	last := float64(q.ByPosition[len(q.ByPosition)-1].To)
	x := func(p PositionKL) float64 { return left + (width-left-right)*float64(p.From+p.To)/2/last }
	y := func(kl float64) float64 { return height - bottom - (height-top-bottom)*kl/most }
	d := newDrawing(width, height, "KL divergence by position")
	d.text(left, 26, start, "title", title)
	d.line(left, height-bottom, width-right, height-bottom, "axis")
	d.line(left, top, left, height-bottom, "axis")
	for _, share := range []float64{0, 0.5, 1} {
		d.text(left-6, y(share*most)+4, end, "faint", fmt.Sprintf("%.2g", share*most))
	}
	d.text((left+width-right)/2, height-10, middle, "faint", "position in the window, tokens")
	d.upright(16, (top+height-bottom)/2, "faint", "mean KL divergence, nats")
	points := make([]float64, 0, 2*len(q.ByPosition))
	for _, p := range q.ByPosition {
		points = append(points, x(p), y(p.KL))
		d.dot(x(p), y(p.KL), series(0))
		d.text(x(p), height-bottom+16, middle, "faint", strconv.Itoa(p.From))
	}
	d.curve(points, series(0))
	return d.writeTo(w)
}
