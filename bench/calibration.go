package bench

import (
	"fmt"
	"io"
	"math"
)

// Calibration is how good decisions are, and how far their probabilities can be believed.
type Calibration struct {
	Questions int
	Accuracy  Estimate // share whose most probable option is the right one
	Brier     Estimate // mean over questions of the sum over options of (probability − 1 or 0)²; 0 is best, 2 worst
	LogLoss   Estimate // mean of −ln of the right option's probability
	ECE       float64  // expected calibration error: mean distance of confidence and accuracy, over ten bins of the highest probability
	Bins      []CalibrationBin
}

// CalibrationBin has the questions whose highest probability is above From and at most To.
type CalibrationBin struct {
	From, To             float64
	Questions            int
	Confidence, Accuracy float64 // means
}

const calibrationBins = 10

// Calibration measures the answers.
func (m *Decisions) Calibration() *Calibration {
	hits, briers, losses, top := []float64{}, []float64{}, []float64{}, []float64{}
	for i := range m.answers {
		hit, brier, loss, best := m.answers[i].judge()
		hits, briers, losses, top = append(hits, hit), append(briers, brier), append(losses, loss), append(top, best)
	}
	c := &Calibration{Questions: len(top), Accuracy: estimate(hits), Brier: estimate(briers), LogLoss: estimate(losses)}
	bins := make([]CalibrationBin, calibrationBins)
	for i, p := range top {
		b := &bins[min(max(int(math.Ceil(p*calibrationBins))-1, 0), calibrationBins-1)]
		b.Questions++
		b.Confidence += p
		b.Accuracy += hits[i]
	}
	for i := range bins {
		b := &bins[i]
		b.From, b.To = float64(i)/calibrationBins, float64(i+1)/calibrationBins
		if b.Questions == 0 {
			continue
		}
		n := float64(b.Questions)
		b.Confidence, b.Accuracy = b.Confidence/n, b.Accuracy/n
		c.ECE += math.Abs(b.Confidence-b.Accuracy) * n / float64(c.Questions)
		c.Bins = append(c.Bins, *b)
	}
	return c
}

// judge gives 1 or 0 for what is thought most probable, which is right or not, the Brier score, the log loss and the highest probability.
func (d *decided) judge() (hit, brier, loss, top float64) {
	best := 0
	for i, p := range d.probabilities {
		y := 0.0
		if i == d.right {
			y = 1
		}
		if brier += (p - y) * (p - y); p > d.probabilities[best] {
			best = i
		}
	}
	if best == d.right {
		hit = 1
	}
	return hit, brier, -math.Log(max(d.probabilities[d.right], 1e-12)), d.probabilities[best]
}

// WriteCalibrationMarkdown writes the figures, and the bins as a table.
func WriteCalibrationMarkdown(w io.Writer, c *Calibration) error {
	_, err := fmt.Fprintf(w, "%d questions: accuracy %.3f ± %.3f, Brier score %.3f ± %.3f, log loss %.3f ± %.3f, ECE %.3f\n\n"+
		"| highest probability | questions | its mean | accuracy |\n|---|---|---|---|\n",
		c.Questions, c.Accuracy.Value, c.Accuracy.Error, c.Brier.Value, c.Brier.Error, c.LogLoss.Value, c.LogLoss.Error, c.ECE)
	for _, b := range c.Bins {
		if err == nil {
			_, err = fmt.Fprintf(w, "| %.1f to %.1f | %d | %.3f | %.3f |\n", b.From, b.To, b.Questions, b.Confidence, b.Accuracy)
		}
	}
	return err
}

// AddTo adds the figures to a result.
func (c *Calibration) AddTo(r *Result) {
	for _, f := range []struct {
		name, unit string
		value      float64
	}{
		{"decision_questions", "questions", float64(c.Questions)}, {"decision_accuracy", "", c.Accuracy.Value}, {"decision_brier", "", c.Brier.Value},
		{"decision_log_loss", "nats", c.LogLoss.Value}, {"decision_ece", "", c.ECE},
	} {
		r.AddValue(f.name, f.unit, f.value)
	}
}
