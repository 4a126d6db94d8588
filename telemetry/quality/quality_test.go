package quality

import (
	"encoding/json"
	"math"
	"os"
	"testing"
)

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-12*(1+math.Abs(want)) {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

// The figures are scikit-learn's, ties and scores of exactly 0 and 1 included.
func TestAsScikitLearn(t *testing.T) {
	data, err := os.ReadFile("testdata/metrics.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden struct {
		Binary []struct {
			Scores, Labels       []float64
			AUC, Brier, Accuracy float64
			LogLoss              float64 `json:"log_loss"`
			Rate, Mean           []float64
		}
		Classes []struct {
			Shares   [][]float64
			Labels   []int
			LogLoss  float64 `json:"log_loss"`
			Accuracy float64
		}
		Regression []struct {
			Scores, Labels      []float64
			RMSE, MAE, R2, Bias float64
		}
	}
	if err := json.Unmarshal(data, &golden); err != nil {
		t.Fatal(err)
	}
	if len(golden.Binary) != 4 || len(golden.Classes) != 4 || len(golden.Regression) != 4 {
		t.Fatal("the golden file lacks cases")
	}
	for _, c := range golden.Binary {
		got := OfBinary(c.Scores, c.Labels)
		near(t, "AUC", got.AUC, c.AUC)
		near(t, "log loss", got.LogLoss, c.LogLoss)
		near(t, "Brier", got.Brier, c.Brier)
		near(t, "accuracy", got.Accuracy, c.Accuracy)
		if len(got.Bins) != len(c.Rate) {
			t.Fatalf("%d bins, want %d", len(got.Bins), len(c.Rate))
		}
		for i, b := range got.Bins {
			near(t, "rate of a bin", b.Rate, c.Rate[i])
			near(t, "score of a bin", b.Score, c.Mean[i])
		}
	}
	for _, c := range golden.Classes {
		got := OfClasses(c.Shares, c.Labels)
		near(t, "log loss of classes", got.LogLoss, c.LogLoss)
		near(t, "accuracy of classes", got.Accuracy, c.Accuracy)
	}
	for _, c := range golden.Regression {
		got := OfRegression(c.Scores, c.Labels)
		near(t, "RMSE", got.RMSE, c.RMSE)
		near(t, "MAE", got.MAE, c.MAE)
		near(t, "R2", got.R2, c.R2)
		near(t, "bias", got.Bias, c.Bias)
	}
}

// Labels that are all equal have no AUC and no R2.
func TestOneLabel(t *testing.T) {
	if b := OfBinary([]float64{0.2, 0.7}, []float64{1, 1}); !math.IsNaN(b.AUC) || b.Positives != 2 || b.Accuracy != 0.5 {
		t.Errorf("%+v", b)
	}
	if r := OfRegression([]float64{1, 3}, []float64{2, 2}); !math.IsNaN(r.R2) || r.RMSE != 1 {
		t.Errorf("%+v", r)
	}
}
