package gbdt

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"weir/internal/reference"
)

// refusedLosses are those of testdata/losses that Read refuses by their names.
var refusedLosses = []string{"RMSEWithUncertainty"}

// notTrained are names of the tables of links that no file of testdata/losses has: of older releases, or of GPUs.
var notTrained = map[string][]string{
	"xgboost":  nil,
	"lightgbm": {"", "xentropy", "xentlambda"},
	"catboost": {"QueryCrossEntropy"},
}

// TestEveryLoss compares a model of every loss that each library trains with the library's own predict or predict_proba, bit by bit
// (log1p by 1 ulp), and wants a file of testdata/losses for every name of the tables of links.
func TestEveryLoss(t *testing.T) {
	reference.Slow(t)
	seen := map[string][]string{}
	goldensOf(t, "testdata/losses/*.gz", func(t *testing.T, g *golden) {
		library, _, _ := strings.Cut(g.header.Library, " ")
		if g.header.Loss != "" {
			seen[library] = append(seen[library], g.header.Loss)
		}
		m, err := ReadWith(g.model, g.options())
		if slices.Contains(refusedLosses, g.header.Loss) {
			if err == nil || !strings.Contains(err.Error(), g.header.Loss) {
				t.Fatalf("%v, want a refusal that names %s", err, g.header.Loss)
			}
			t.Logf("%s %s: refused", library, g.header.Loss)
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		worst := 0
		got := make([]float64, len(g.outputs))
		m.Predict64(g.rows, got)
		for i, want := range g.outputs {
			worst = max(worst, ulps(got[i], want, g.header.ValueBytes == 8))
		}
		transform := m.Ensemble().Transform
		if worst > 0 && (transform != Log1pExp || worst > 1) {
			t.Errorf("outputs differ by up to %d ulp", worst)
		}
		t.Logf("%s %s: %v, %d values, %d ulp", library, g.header.Loss, transform, len(got), worst)
	})
	for library, links := range map[string][]string{
		"xgboost": slices.Collect(maps.Keys(xgboostLinks)), "lightgbm": slices.Collect(maps.Keys(lightgbmLinks)), "catboost": slices.Collect(maps.Keys(catboostLinks)),
	} {
		for _, name := range links {
			if !slices.Contains(seen[library], name) && !slices.Contains(notTrained[library], name) {
				t.Errorf("%s: nothing of testdata/losses stands for %q", library, name)
			}
		}
	}
}

// TestUnknownLossesAreRefused: what margins mean is never guessed, and the option transform says it.
func TestUnknownLossesAreRefused(t *testing.T) {
	for _, c := range []struct{ file, old, loss, want string }{
		{"catboost-binary", `"type": "Logloss"`, `"type": "Mine"`, `"Mine" is unknown`},
		{"catboost-binary", `"type": "Logloss"`, `"type": "PythonUserDefinedPerObject"`, "CatBoostClassifier makes probabilities"},
		{"catboost-binary", `"type": "Logloss"`, `"kind": "Logloss"`, "there is none"},
		{"lightgbm-binary", "objective=binary", "objective=mine", `"mine" is unknown`},
	} {
		data := []byte(strings.Replace(string(firstGolden(t, c.file)), c.old, c.loss, 1))
		if _, err := Read(data); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "option transform") {
			t.Errorf("%s: %v, want %q and the option transform", c.loss, err, c.want)
		}
		sigmoid := Sigmoid
		m, err := ReadWith(data, ReadOptions{Transform: &sigmoid})
		if err != nil || m.Ensemble().Transform != Sigmoid {
			t.Errorf("%s with the option: %v", c.loss, err)
		}
	}
	data := strings.Replace(string(firstGolden(t, "xgboost-binary")), "binary:logistic", "reg:expectileerror", 1)
	if _, err := Read([]byte(data)); err == nil || !strings.Contains(err.Error(), "reg:expectileerror") {
		t.Errorf("xgboost: %v, want a refusal", err)
	}
}

// TestSummedModelsHaveTheirLoss: CatBoost's sum_models keeps a loss as a text of JSON, and no parameters.
func TestSummedModelsHaveTheirLoss(t *testing.T) {
	data := string(firstGolden(t, "catboost-binary"))
	params := data[strings.Index(data, `"params"`):]
	params = params[:strings.Index(params, "}}")+2]
	for strings.Count(params, "{") > strings.Count(params, "}") {
		params += "}"
	}
	summed := strings.Replace(data, params, `"loss_function": "{\"type\":\"Focal\",\"params\":{\"focal_alpha\":\"0.5\"}}"`, 1)
	m, err := Read([]byte(summed))
	if err != nil || m.Ensemble().Objective != "Focal" || m.Ensemble().Transform != Sigmoid {
		t.Errorf("%v, %v", m, err)
	}
}

// TestBestIteration: XGBoost's classes for scikit-learn predict with the iterations that early stopping chose.
func TestBestIteration(t *testing.T) {
	g, err := readGolden("testdata/losses/xgboost-early-stopped.gz")
	if err != nil {
		t.Fatal(err)
	}
	differ := func(o ReadOptions) (largest float64, note string) {
		m, err := ReadWith(g.model, o)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]float64, len(g.outputs))
		m.Predict64(g.rows, got)
		for i, want := range g.outputs {
			largest = max(largest, math.Abs(got[i]-want))
		}
		return largest, fmt.Sprint(m.Summary().Notes)
	}
	if d, note := differ(ReadOptions{}); d < 0.01 || !strings.Contains(note, "option best_iteration") {
		t.Errorf("with all trees: %v from predict_proba, notes %s", d, note)
	}
	if d, note := differ(ReadOptions{BestIteration: true}); d != 0 || !strings.Contains(note, "iterations predict, which early stopping chose") {
		t.Errorf("with those that early stopping chose: %v from predict_proba, notes %s", d, note)
	}
}

func TestParseTransform(t *testing.T) {
	for i := range transforms {
		if got, err := ParseTransform(i.String()); err != nil || got != i {
			t.Errorf("%v: %v, %v", i, got, err)
		}
	}
	if _, err := ParseTransform("logit"); err == nil || !strings.Contains(err.Error(), "sigmoid") {
		t.Errorf("%v", err)
	}
}
