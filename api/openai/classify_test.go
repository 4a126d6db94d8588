package openai

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"weir/api/moderation"
)

// A reranker, or a text encoder and a classical model behind it, score what requests bring. A classifier that does not answer
// lets nothing pass.
func TestClassifiersOfPolicies(t *testing.T) {
	c := DefaultConfig()
	var rows [][]float32
	var broken error
	c.Predict = func(_ context.Context, model string, vectors [][]float32, _ []string) ([]float64, error) {
		rows = vectors
		if model != "trees" {
			return nil, fmt.Errorf("no model %q", model)
		}
		scores := make([]float64, len(vectors))
		for i := range scores {
			scores[i] = 0.25
		}
		return scores, broken
	}
	r, _, ranks := poolingRig(t, c)
	defer r.close()
	serve := func(classifier moderation.ClassifierSpec, action moderation.Action) {
		m := testModel(t, r.backend)
		m.Policy = testPolicy(t, moderation.RuleSpec{ID: "toxic", Category: "harassment", Classifier: &classifier, Input: action})
		if err := r.openai.SetModels(m, testPooler(t, &fakeEmbedder{vector: ofTokens}, false), testPooler(t, ranks, true)); err != nil {
			t.Fatal(err)
		}
	}
	// The score of "a b" is that of 3 tokens, 0.59, and of "a" 0.56.
	reranker := moderation.ClassifierSpec{Model: "ranks", Question: "q", Threshold: 0.58}
	body := func(text string) string {
		return `{"model":"test-model","messages":[{"role":"user","content":"` + text + `"}]}`
	}
	serve(reranker, moderation.Block)
	if status, text := r.post(routeChat, body("a")); status != http.StatusOK {
		t.Errorf("%d %s", status, text)
	}
	if status, text := r.post(routeChat, body("a b")); status != http.StatusBadRequest || !strings.Contains(text, `"harassment":{"filtered":true`) {
		t.Errorf("%d %s", status, text)
	}
	if _, text := r.post(routeModerations, `{"input":["a","a b"],"model":"test-model"}`); !strings.Contains(text, `"harassment":0.56`) ||
		!strings.Contains(text, `"harassment":0.59`) || strings.Count(text, `"flagged":true`) != 1 {
		t.Error(text)
	}
	serve(reranker, moderation.Flag)
	if status, text := r.post(routeChat, body("a b")); status != http.StatusOK {
		t.Errorf("flagged only: %d %s", status, text)
	}
	serve(moderation.ClassifierSpec{Model: "vectors", Predictor: "trees", Threshold: 0.2}, moderation.Block)
	if status, text := r.post(routeChat, body("a")); status != http.StatusBadRequest || !strings.Contains(text, "content_policy_violation") || len(rows) != 1 || len(rows[0]) != 4 {
		t.Errorf("%d %s; rows %v", status, text, rows)
	}
	broken = errors.New("out of order")
	for _, k := range []moderation.ClassifierSpec{
		{Model: "vectors", Predictor: "trees", Threshold: 0.2}, {Model: "vectors", Question: "q", Threshold: 0.2}, {Model: "nobody", Question: "q", Threshold: 0.2},
		{Model: "test-model", Question: "q", Threshold: 0.2},
	} {
		serve(k, moderation.Block)
		if status, text := r.post(routeChat, body("a")); status != http.StatusServiceUnavailable || !strings.Contains(text, "classifier_unavailable") {
			t.Errorf("%+v: %d %s", k, status, text)
		}
	}
}
