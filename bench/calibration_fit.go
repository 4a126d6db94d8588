package bench

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A calibration divides the log-probabilities of a question's options by a temperature, and adds a bias to the log-odds of a predicate
// (Platt scaling). Both are those with the least log loss. A type of question gets what has the least log loss on lines that it was not fitted
// on: nothing, a temperature, or of predicates a temperature and a bias. How good all of that is, the choice among the three with it, is measured
// by nested cross-validation: lines are dealt out to folds, and of each fold is reported what was chosen and fitted without it, by folds of the
// other lines alone.

const (
	calibrationFolds     = 5
	leastFittedQuestions = 20 // of a type, to fit anything
	leastFittedLines     = 3  // with questions of a type: a line to report, one to choose by and one to fit
	leastOfEach          = 5  // predicates that are true, and that are false, to fit a bias
	leastHeat, mostHeat  = 0.05, 20.0
)

// platt is what a fit gives: log-probabilities are multiplied by slope, and the first option of a predicate gets bias.
type platt struct{ slope, bias float64 }

var unscaled = platt{slope: 1}

// CalibrationFit is a calibration of a server's decisions, and how good it is on questions that it was not fitted on.
type CalibrationFit struct {
	Before, After *Calibration // of the same questions; After's probabilities are by fits that had not seen the line
	Types         []TypeFit
}

// TypeFit is what is fitted of one type of question.
type TypeFit struct {
	Type              string // predicate, choice or score
	Questions         int
	Temperature, Bias float64 // 1 and 0 where nothing made it better, or where there are too few questions
	Few               bool    // questions, or lines with some, than can be fitted
}

// kinds are the types of questions in the order of reports.
var kinds = []string{"predicate", "choice", "score"}

// Fit fits a calibration. Questions of one line stay together, so that none is judged by a fit on its own input; fewer than three lines
// are an error.
func (m *Decisions) Fit() (*CalibrationFit, error) {
	if n := len(linesOf(m.answers)); n < leastFittedLines {
		return nil, fmt.Errorf("the file has %d of the %d lines that a fit takes; it is chosen and judged on lines that it has not seen: give more, with different inputs", n, leastFittedLines)
	}
	f, held := &CalibrationFit{Before: m.Calibration()}, &Decisions{}
	for _, kind := range kinds {
		var list []decided
		for _, d := range m.answers {
			if d.kind == kind {
				list = append(list, d)
			}
		}
		if len(list) == 0 {
			continue
		}
		fit, after := fitType(list)
		f.Types, held.answers = append(f.Types, fit), append(held.answers, after...)
	}
	f.After = held.Calibration()
	return f, nil
}

// fitType fits one type of question, and gives the answers as what is chosen and fitted on other folds has them.
func fitType(list []decided) (TypeFit, []decided) {
	fit := TypeFit{Type: list[0].kind, Questions: len(list), Temperature: 1}
	if fit.Few = len(list) < leastFittedQuestions || len(linesOf(list)) < leastFittedLines; fit.Few {
		return fit, list
	}
	s := chooseScaling(list)
	fit.Temperature, fit.Bias = 1/s.slope, s.bias
	return fit, crossed(list, chooseScaling)
}

// chooseScaling fits what has the least log loss on folds that it was not fitted on.
func chooseScaling(list []decided) platt {
	best, least := unscaled, meanLoss(list)
	for _, biased := range []bool{false, true} {
		if biased && !canBias(list) {
			continue
		}
		fit := func(seen []decided) platt { return fitScaling(seen, biased) }
		if loss := meanLoss(crossed(list, fit)); loss < least {
			best, least = fit(list), loss
		}
	}
	return best
}

// crossed are the answers, those of each fold scaled by a fit on the others.
func crossed(list []decided, fit func(seen []decided) platt) (after []decided) {
	folds := foldsOf(list)
	for fold := range calibrationFolds {
		var seen, unseen []decided
		for _, d := range list {
			if folds[d.line] == fold {
				unseen = append(unseen, d)
			} else {
				seen = append(seen, d)
			}
		}
		if len(unseen) == 0 { // of fewer lines than folds
			continue
		}
		s := fit(seen)
		for i := range unseen {
			after = append(after, s.apply(&unseen[i]))
		}
	}
	return after
}

// canBias reports whether the list has predicates of which enough are true and enough false.
func canBias(list []decided) bool {
	agreed := 0
	for i := range list {
		if list[i].right == 0 {
			agreed++
		}
	}
	return list[0].kind == "predicate" && min(agreed, len(list)-agreed) >= leastOfEach
}

// linesOf are the lines of the answers, each once, in an order that does not follow theirs in the file: by a hash, SplitMix64's.
func linesOf(list []decided) []int {
	var lines []int
	for i := range list {
		lines = append(lines, list[i].line)
	}
	slices.Sort(lines)
	lines = slices.Compact(lines)
	slices.SortStableFunc(lines, func(a, b int) int { return cmp.Compare(mixed(a), mixed(b)) })
	return lines
}

func mixed(line int) uint64 {
	x := uint64(line+1) * 0x9e3779b97f4a7c15 //nolint:gosec // a line's number
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// foldsOf deals the lines of the answers out to folds.
func foldsOf(list []decided) map[int]int {
	folds := map[int]int{}
	for i, line := range linesOf(list) {
		folds[line] = i % calibrationFolds
	}
	return folds
}

func meanLoss(list []decided) float64 {
	sum := 0.0
	for i := range list {
		_, _, loss, _ := list[i].judge()
		sum += loss
	}
	return sum / float64(len(list))
}

// logs are the log-probabilities of the options. A predicate's answer has one number, near 1 no more exact than 2^-54.
func (d *decided) logs() []float64 {
	logs := make([]float64, len(d.probabilities))
	for i, p := range d.probabilities {
		least := math.SmallestNonzeroFloat64
		if d.kind == "predicate" {
			least = 0x1p-54
		}
		logs[i] = math.Log(max(p, least))
	}
	return logs
}

// apply gives the answer as it is scaled.
func (s platt) apply(d *decided) decided {
	scaled := *d
	scaled.probabilities = softmax(s.scores(d.logs()))
	return scaled
}

// scores are the scaled logarithms.
func (s platt) scores(logs []float64) []float64 {
	for i := range logs {
		logs[i] *= s.slope
	}
	logs[0] += s.bias
	return logs
}

func softmax(scores []float64) []float64 {
	top, sum := slices.Max(scores), 0.0
	p := make([]float64, len(scores))
	for i, v := range scores {
		p[i] = math.Exp(v - top)
		sum += p[i]
	}
	for i := range p {
		p[i] /= sum
	}
	return p
}

// fitScaling has the least log loss, which is convex in both numbers, by Newton's method. A temperature out of range, as that of answers that
// are all right, is the range's end.
func fitScaling(list []decided, biased bool) platt {
	s := newton(list, unscaled, true, biased)
	if bounded := min(max(s.slope, 1/mostHeat), 1/leastHeat); bounded != s.slope || math.IsNaN(s.slope) {
		s = platt{slope: bounded}
		if math.IsNaN(s.slope) {
			s.slope = 1
		}
		if biased {
			s = newton(list, s, false, true)
		}
	}
	return s
}

// newton goes from s to where the log loss is least, as far as the two numbers may change: each step half as far until it is lower.
func newton(list []decided, s platt, slope, bias bool) platt {
	at := newLoss(list, s)
	for range 100 {
		step := at.step(slope, bias)
		next, share := at, 1.0
		for ; share > 1e-9; share /= 2 {
			if next = newLoss(list, platt{s.slope - share*step.slope, s.bias - share*step.bias}); next.value < at.value {
				break
			}
		}
		if !(next.value < at.value) {
			break
		}
		s = platt{s.slope - share*step.slope, s.bias - share*step.bias}
		if done := at.value-next.value < 1e-13*at.value; done {
			return s
		}
		at = next
	}
	return s
}

// loss is the log loss of answers, with its derivatives.
type loss struct {
	value           float64
	bySlope, byBias float64
	slope2, bias2   float64 // second derivatives
	both            float64 // by one and the other
}

func newLoss(list []decided, s platt) (l loss) {
	for i := range list {
		l.add(list[i].logs(), list[i].right, s)
	}
	return l
}

// add adds a question. By the slope, an option's score grows by its log-probability, and by the bias the first one's by 1.
func (l *loss) add(logs []float64, right int, s platt) {
	grow := slices.Clone(logs)
	scores := s.scores(logs)
	top, sum := slices.Max(scores), 0.0
	for _, v := range scores {
		sum += math.Exp(v - top)
	}
	l.value += top + math.Log(sum) - scores[right]
	mean, square, first := 0.0, 0.0, math.Exp(scores[0]-top)/sum
	for i, v := range scores {
		p := math.Exp(v-top) / sum
		mean += p * grow[i]
		square += p * grow[i] * grow[i]
	}
	l.bySlope += mean - grow[right]
	l.slope2 += square - mean*mean
	l.byBias += first
	if right == 0 {
		l.byBias--
	}
	l.bias2 += first * (1 - first)
	l.both += first * (grow[0] - mean)
}

// step is Newton's.
func (l *loss) step(slope, bias bool) platt {
	const least = 1e-12 // of a second derivative: answers that are all sure
	a, c, b := l.slope2+least, l.bias2+least, l.both
	switch {
	case !bias:
		return platt{slope: l.bySlope / a}
	case !slope:
		return platt{bias: l.byBias / c}
	}
	det := a*c - b*b
	if !(det > 0) {
		return platt{l.bySlope / a, l.byBias / c}
	}
	return platt{(c*l.bySlope - b*l.byBias) / det, (a*l.byBias - b*l.bySlope) / det}
}

// Settings are the values of weir serve's --decision-calibration; none where nothing made the probabilities better.
func (f *CalibrationFit) Settings() []string {
	var list []string
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }
	for _, t := range f.Types {
		if t.Temperature != 1 || t.Bias != 0 {
			list = append(list, t.Type+"="+number(t.Temperature))
		}
		if t.Bias != 0 {
			list = append(list, t.Type+".bias="+number(t.Bias))
		}
	}
	return list
}

// WriteMarkdown writes what the fit changes, and the settings.
func (f *CalibrationFit) WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%d questions\n\n| | log loss | Brier score | ECE | accuracy |\n|---|---|---|---|---|\n", f.Before.Questions)
	for _, row := range []struct {
		name string
		c    *Calibration
	}{{"not calibrated", f.Before}, {"calibrated, on lines that neither fit nor choice have seen", f.After}} {
		fmt.Fprintf(&b, "| %s | %.3f ± %.3f | %.3f ± %.3f | %.3f | %.3f |\n", row.name, row.c.LogLoss.Value, row.c.LogLoss.Error,
			row.c.Brier.Value, row.c.Brier.Error, row.c.ECE, row.c.Accuracy.Value)
	}
	b.WriteString("\n| type | questions | temperature | bias |\n|---|---|---|---|\n")
	for _, t := range f.Types {
		few, limit := "", ""
		if t.Few {
			few = fmt.Sprintf(" (too few: a fit takes %d, on %d lines)", leastFittedQuestions, leastFittedLines)
		}
		if t.Temperature >= mostHeat {
			limit = " (the limit: the model's probabilities say little about these)"
		}
		fmt.Fprintf(&b, "| %s | %d%s | %.4g%s | %.4g |\n", t.Type, t.Questions, few, t.Temperature, limit, t.Bias)
	}
	list := f.Settings()
	if len(list) > 0 && f.After.LogLoss.Value >= f.Before.LogLoss.Value {
		b.WriteString("\nOn lines that they have not seen such fits make these probabilities no better. Give more questions before you use this one.\n")
	}
	if len(list) == 0 {
		b.WriteString("\nNo calibration makes these probabilities better; the server needs no setting.\n")
	} else {
		fmt.Fprintf(&b, "\nOf the server, or of the model's record:\n\n    weir serve … --decision-calibration %s\n    decision_calibration: [%s]\n",
			strings.Join(list, " --decision-calibration "), strings.Join(list, ", "))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// AddTo adds the figures of both, and what was fitted, to a result.
func (f *CalibrationFit) AddTo(r *Result) {
	f.Before.AddTo(r)
	r.AddValue("decision_accuracy_calibrated", "", f.After.Accuracy.Value)
	r.AddValue("decision_brier_calibrated", "", f.After.Brier.Value)
	r.AddValue("decision_log_loss_calibrated", "nats", f.After.LogLoss.Value)
	r.AddValue("decision_ece_calibrated", "", f.After.ECE)
	for _, t := range f.Types {
		r.AddValue("decision_temperature_"+t.Type, "", cmp.Or(t.Temperature, 1))
		r.AddValue("decision_bias_"+t.Type, "", t.Bias)
	}
}
