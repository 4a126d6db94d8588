package quality

import (
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"strings"
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
		near(t, "AUC", float64(got.AUC), c.AUC)
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
		near(t, "R2", float64(got.R2), c.R2)
		near(t, "bias", got.Bias, c.Bias)
	}
}

// Labels that are all equal have no AUC and no R2.
func TestOneLabel(t *testing.T) {
	if b := OfBinary([]float64{0.2, 0.7}, []float64{1, 1}); !math.IsNaN(float64(b.AUC)) || b.Positives != 2 || b.Accuracy != 0.5 {
		t.Errorf("%+v", b)
	}
	if r := OfRegression([]float64{1, 3}, []float64{2, 2}); !math.IsNaN(float64(r.R2)) || r.RMSE != 1 {
		t.Errorf("%+v", r)
	}
}

// A report finds the task, slices by string and by quarter, and draws.
func TestReport(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	d := Data{Scores: [][]float64{nil}, Slices: []Column{{Name: "city"}, {Name: "age", Numbers: []float64{}}}}
	for i := range 400 {
		p := rng.Float64()
		label := 0.0
		if rng.Float64() < p {
			label = 1
		}
		d.Scores[0], d.Labels = append(d.Scores[0], p), append(d.Labels, label)
		d.Slices[0].Texts = append(d.Slices[0].Texts, [...]string{"<b>", "Rome", ""}[i%3])
		age := float64(i % 80)
		if i < 5 {
			age = math.NaN()
		}
		d.Slices[1].Numbers = append(d.Slices[1].Numbers, age)
	}
	r, err := Make(d, Auto)
	if err != nil || r.Task != BinaryTask || r.All.Binary.Rows != 400 {
		t.Fatalf("%+v, %v", r, err)
	}
	var names []string
	rows := 0
	for _, s := range r.Slices {
		names = append(names, s.Name)
		rows += s.Binary.Rows
	}
	want := "city = <b>, city = Rome, city = missing, age from 0 to 20, age from 21 to 40, age from 41 to 60, age from 61 to 79, age = missing"
	if got := strings.Join(names, ", "); got != want || rows != 800 {
		t.Errorf("%s with %d rows, want %s", got, rows, want)
	}
	var text, html strings.Builder
	if err := errors.Join(r.WriteText(&text), r.WriteHTML(&html)); err != nil {
		t.Fatal(err)
	}
	if strings.Count(text.String(), "█") < 100 || !strings.Contains(text.String(), "AUC") {
		t.Errorf("the text is\n%s", &text)
	}
	if strings.Contains(html.String(), "<b>") || strings.Count(html.String(), "<circle") != 10 {
		t.Errorf("the page is\n%s", &html)
	}
	if _, err := json.Marshal(r); err != nil {
		t.Error(err)
	}
}

// What a task cannot take is said.
func TestTasks(t *testing.T) {
	one, two := [][]float64{{0.5, 2}}, [][]float64{{0.5, 0.1}, {0.5, 0.9}}
	for _, c := range []struct {
		data Data
		ask  Task
		got  Task
		err  string
	}{
		{Data{Scores: one, Labels: []float64{0, 1}}, Auto, NumbersTask, ""},
		{Data{Scores: two, Labels: []float64{0, 1}}, Auto, ClassesTask, ""},
		{Data{Scores: two, Labels: []float64{0, 2}}, Auto, ClassesTask, "indices of its 2 scores"},
		{Data{Scores: two, Labels: []float64{0, 1}}, BinaryTask, BinaryTask, "--score"},
		{Data{Scores: one, Labels: []float64{0, 3}}, BinaryTask, BinaryTask, "are 0 and 1"},
		{Data{Scores: one, Labels: []float64{0, 3}}, "guess", "guess", "is unknown"},
		{Data{Scores: one}, Auto, "", "no row"},
	} {
		r, err := Make(c.data, c.ask)
		if r.Task != c.got || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %s, %v, want %s, %q", c.ask, r.Task, err, c.got, c.err)
		}
	}
}
