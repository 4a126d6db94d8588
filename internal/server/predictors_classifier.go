package server

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"weir/internal/tensor"
	"weir/router"
)

// checkClassifiers looks whether the models that a policy asks can score texts, among those that are served.
func checkClassifiers(p *planned, list []*planned) error {
	for _, k := range p.policy.Classifiers() {
		i := slices.IndexFunc(list, func(o *planned) bool { return o.record.Name == k.Model || slices.Contains(o.record.Aliases, k.Model) })
		wrong := func(is string) error {
			return fmt.Errorf("the policy %q of the model %q asks the classifier %q, which %s", p.policy.Name(), p.record.Name, k.Model, is)
		}
		switch {
		case i < 0:
			return wrong("is not served here")
		case k.Question != "" && !list[i].info.Ranks():
			return wrong("has no head that scores texts against a question; name a reranker, or a text encoder with a predictor")
		case k.Predictor != "" && list[i].info.Dimensions == 0:
			return wrong("gives no vectors for the predictor; name a text encoder, or a reranker with a question")
		}
	}
	return nil
}

// vectors implements openai.Predict: the classical model reads vectors as the rows of its one input, and its
// score is the last number of each row of its probabilities, or else of its last output of floats.
func (p *predictors) vectors(ctx context.Context, model string, rows [][]float32, residency []string) ([]float64, error) {
	found, hold, err := p.enriched.Acquire(model, "")
	if err != nil {
		return nil, err
	}
	if hold != nil {
		defer hold.Release()
	}
	about := found.Describe()
	if len(about.Inputs) != 1 || about.Inputs[0].Type != tensor.Float32 {
		return nil, fmt.Errorf("the model %q has %d inputs; a classifier's has one, of FP32", model, len(about.Inputs))
	}
	var values []float32
	for _, row := range rows {
		values = append(values, row...)
	}
	asked := &router.Prediction{ID: "policy", Hold: hold, Residency: residency, DoneBy: time.Now().Add(classifierTimeout),
		Inputs: []tensor.Tensor{tensor.Of(about.Inputs[0].Name, tensor.Float32, []int64{int64(len(rows)), int64(len(rows[0]))}, values)}}
	if err := found.Predict(ctx, asked); err != nil {
		return nil, err
	}
	return lastScores(asked.Outputs, len(rows))
}

// classifierTimeout is how long a classical model may take for the texts of one request.
const classifierTimeout = 10 * time.Second

// lastScores are the last numbers of the rows of an output.
func lastScores(outputs []tensor.Tensor, rows int) ([]float64, error) {
	var found *tensor.Tensor
	for i := range outputs {
		o := &outputs[i]
		if o.Type != tensor.Float32 && o.Type != tensor.Float64 || o.Rows() != int64(rows) {
			continue
		}
		if found = o; strings.Contains(o.Name, "prob") {
			break
		}
	}
	if found == nil || rows == 0 || len(found.Data) < rows*found.Type.Size() {
		return nil, fmt.Errorf("none of the %d outputs has a row of floats for each text", len(outputs))
	}
	scores := make([]float64, rows)
	if found.Type == tensor.Float64 {
		lastOf(scores, tensor.Values[float64](found))
	} else {
		lastOf(scores, tensor.Values[float32](found))
	}
	return scores, nil
}

func lastOf[T float32 | float64](scores []float64, values []T) {
	width := len(values) / len(scores)
	for i := range scores {
		scores[i] = float64(values[(i+1)*width-1])
	}
}
