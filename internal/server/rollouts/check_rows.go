package rollouts

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"weir/internal/tensor"
	"weir/router/rollout"
)

func (c *candidateCheck) infer(version string, inputs []rollout.Tensor) (int, []byte) {
	path := "/v2/models/" + url.PathEscape(c.plan.Model) + "/versions/" + url.PathEscape(version) + "/infer"
	return c.post(path, map[string]any{"inputs": inputs})
}

// row has both versions score a row of zeros: what the stable version takes the candidate has to take, and to give the same outputs.
func (c *candidateCheck) row() error {
	inputs, ok := c.models.Inputs(c.plan.Model, c.plan.Stable)
	if !ok {
		return nil // the stable version is out of order: nothing can be compared
	}
	zeros := zeroRow(inputs)
	status, answer := c.infer(c.plan.Stable, zeros)
	if status != http.StatusOK {
		return nil // zeros are no row for this model
	}
	want := outputTypes(answer)
	status, answer = c.infer(c.plan.Candidate, zeros)
	switch got := outputTypes(answer); {
	case status != http.StatusOK:
		return fmt.Errorf("%w: it answers a row that the stable version takes with status %d: %.200s", rollout.ErrCheck, status, answer)
	case !maps.Equal(got, want):
		return fmt.Errorf("%w: its outputs are %v, and the stable version's %v", rollout.ErrCheck, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
	return nil
}

// zeroRow is a row of zeros or empty strings.
func zeroRow(inputs []tensor.Spec) []rollout.Tensor {
	list := make([]rollout.Tensor, len(inputs))
	for i, in := range inputs {
		t := rollout.Tensor{Name: in.Name, Datatype: in.Type.String()}
		values := 1
		for _, n := range in.Shape {
			n = max(n, 1)
			t.Shape = append(t.Shape, n)
			values *= int(n)
		}
		var zero any = 0
		if in.Type == tensor.Bytes {
			zero = ""
		}
		if in.Type == tensor.Bool {
			zero = false
		}
		t.Data = slices.Repeat([]any{zero}, min(values, maxZeros))
		list[i] = t
	}
	return list
}

// maxZeros bounds a row.
const maxZeros = 1 << 16

// outputTypes are the outputs of a V2 answer: their types by name.
func outputTypes(answer []byte) map[string]string {
	var got struct{ Outputs []rollout.Tensor }
	_ = json.Unmarshal(answer, &got) // a refusal has none
	outputs := make(map[string]string)
	for _, o := range got.Outputs {
		outputs[o.Name] = o.Datatype
	}
	return outputs
}

func (c *candidateCheck) goldenRows() error {
	for i := range c.plan.Golden {
		g := &c.plan.Golden[i]
		if g.Prompt != "" {
			return fmt.Errorf("%w: golden %d has a prompt, and %q is a classical model", rollout.ErrPlan, i+1, c.plan.Model)
		}
		status, answer := c.infer(c.plan.Candidate, g.Inputs)
		err := g.Scored(answer)
		if status != http.StatusOK {
			err = fmt.Errorf("status %d: %.200s", status, answer)
		}
		if err != nil {
			return fmt.Errorf("%w: golden %d: %w", rollout.ErrCheck, i+1, err)
		}
	}
	return nil
}
