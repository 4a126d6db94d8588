package bench

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"
)

// labelled makes 300 questions of a type that are surer than they should be, the same ones that the references below were fitted on.
func labelled(kind string) *Decisions {
	m := &Decisions{}
	for i := range 300 {
		x, u := float64(i), float64(i*7919%1000)/1000
		d := decided{line: i, kind: kind}
		if kind == "predicate" {
			z := 4 * math.Sin(1.7*x)
			d.probabilities = []float64{1 / (1 + math.Exp(-z)), 1 / (1 + math.Exp(z))}
			if !(u < 1/(1+math.Exp(-(0.45*z-0.6)))) {
				d.right = 1
			}
		} else {
			scores, half := make([]float64, 3), make([]float64, 3)
			for k := range scores {
				scores[k] = 3 * math.Sin(1.3*x+2.1*float64(k))
				half[k] = scores[k] / 2
			}
			d.probabilities = softmax(scores)
			sum, p := 0.0, softmax(half)
			for d.right = 0; d.right < 2; d.right++ {
				if sum += p[d.right]; u < sum {
					break
				}
			}
		}
		m.answers = append(m.answers, d)
	}
	return m
}

// TestFitsAreThoseOfOthers compares with scikit-learn 1.9's LogisticRegression without a penalty (a temperature and a bias of predicates) and
// with SciPy's minimize_scalar (a temperature alone; three options).
func TestFitsAreThoseOfOthers(t *testing.T) {
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 2e-6*math.Abs(want) {
			t.Errorf("%s is %.9f, want %.9f", what, got, want)
		}
	}
	predicates, choices := labelled("predicate").answers, labelled("choice").answers
	s := fitScaling(predicates, true)
	near("slope", s.slope, 0.516831966)
	near("bias", s.bias, -0.611503786)
	near("temperature of predicates", 1/fitScaling(predicates, false).slope, 2.082187981)
	s = fitScaling(choices, false)
	near("temperature of choices", 1/s.slope, 2.009140914)
	near("log loss of choices", meanLoss(choices), 0.882458477)
	near("log loss after the fit", newLoss(choices, s).value/300, 0.714346995)
}

// TestFitIsJudgedOnWhatItHasNotSeen: probabilities that are too sure become better on other lines, and ones that are honest are left alone.
func TestFitIsJudgedOnWhatItHasNotSeen(t *testing.T) {
	m := labelled("predicate")
	for _, d := range labelled("choice").answers {
		d.line += 300
		m.answers = append(m.answers, d)
	}
	f, err := m.Fit()
	if err != nil {
		t.Fatal(err)
	}
	if f.After.LogLoss.Value > f.Before.LogLoss.Value-0.1 || f.After.ECE > f.Before.ECE/2 || f.After.Questions != 600 {
		t.Errorf("log loss %v to %v, ECE %v to %v of %d", f.Before.LogLoss, f.After.LogLoss, f.Before.ECE, f.After.ECE, f.After.Questions)
	}
	if got := fmt.Sprint(f.Settings()); got != "[predicate=1.935 predicate.bias=-0.6115 choice=2.009]" {
		t.Errorf("settings %s", got)
	}
	var page bytes.Buffer
	if err := f.WriteMarkdown(&page); err != nil || !strings.Contains(page.String(), "decision_calibration: [predicate=1.935, predicate.bias=-0.6115, choice=2.009]") {
		t.Errorf("%v: %s", err, page.String())
	}
	honest := labelled("choice")
	for i := range honest.answers {
		honest.answers[i] = platt{slope: 0.5}.apply(&honest.answers[i])
	}
	f, err = honest.Fit()
	if err != nil || math.Abs(f.Types[0].Temperature-1) > 0.1 || math.Abs(f.After.LogLoss.Value-f.Before.LogLoss.Value) > 0.01 {
		t.Errorf("%+v, %v: honest probabilities were changed", f, err)
	}
}

// TestFitsStayInBounds: what is always right, or always wrong, or too little, gives numbers that a server takes.
func TestFitsStayInBounds(t *testing.T) {
	answers := func(n, wrong int) *Decisions {
		m := &Decisions{}
		for i := range n {
			d := decided{line: i, kind: "predicate", probabilities: []float64{0.75, 0.25}, right: 0}
			if i%2 == 1 {
				d.probabilities, d.right = []float64{0, 1}, 1
			}
			if i < wrong {
				d.right = 1 - d.right
			}
			m.answers = append(m.answers, d)
		}
		return m
	}
	for _, c := range []struct{ n, wrong int }{{19, 0}, {40, 0}, {40, 40}, {40, 1}, {20, 10}, {2, 1}} {
		f, err := answers(c.n, c.wrong).Fit()
		if err != nil {
			t.Fatal(err)
		}
		y := f.Types[0]
		if y.Few != (c.n < leastFittedQuestions) || !(y.Temperature >= leastHeat && y.Temperature <= mostHeat) || !(math.Abs(y.Bias) < 100) {
			t.Errorf("%d questions, %d wrong: %+v", c.n, c.wrong, y)
		}
		if f.After.LogLoss.Value > f.Before.LogLoss.Value {
			t.Errorf("%d questions, %d wrong: log loss %v became %v", c.n, c.wrong, f.Before.LogLoss, f.After.LogLoss)
		}
	}
	if _, err := answers(1, 0).Fit(); err == nil {
		t.Error("one line was fitted, with none to judge by")
	}
}
