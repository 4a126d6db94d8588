package models

import (
	"math"
	"testing"
)

func TestCalibrationsAreRead(t *testing.T) {
	c, err := ReadCalibration([]string{"predicate=2.5", "predicate.bias=-0.7", "choice=1.25", "score=0.5"})
	want := Calibration{Predicate: Scaling{2.5, -0.7}, Choice: Scaling{1.25, 0}, Score: Scaling{0.5, 0}}
	if err != nil || c != want {
		t.Errorf("%+v, %v; want %+v", c, err, want)
	}
	for _, wrong := range []string{"", "predicate", "predicate=", "predicate=0", "choice=-1", "choice=NaN", "score=inf", "choice.bias=1", "noul=2", "predicate.bias=1e9", "score=101"} {
		if _, err := ReadCalibration([]string{"choice=2", wrong}); err == nil {
			t.Errorf("%q was read", wrong)
		}
	}
}

// TestScalingIsPlatts compares with the formulas: a logistic function of the odds, and a softmax at a temperature.
func TestScalingIsPlatts(t *testing.T) {
	logs := []float64{math.Log(0.9), math.Log(0.1)}
	got := Scaling{Temperature: 2, Bias: -0.5}.Apply(logs)
	p := math.Exp(got[0]) / (math.Exp(got[0]) + math.Exp(got[1]))
	if want := 1 / (1 + math.Exp(-(math.Log(9)/2 - 0.5))); math.Abs(p-want) > 1e-12 {
		t.Errorf("%v is true, want %v", p, want)
	}
	if same := (Scaling{}).Apply(logs); &same[0] != &logs[0] {
		t.Error("no correction made other bits")
	}
	if got := (Scaling{Bias: 3}).Apply([]float64{math.Inf(-1), -1}); !math.IsInf(got[0], -1) || got[1] != -1 {
		t.Errorf("what cannot be is %v after a bias", got)
	}
}
