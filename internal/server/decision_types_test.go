package server

import (
	"slices"
	"testing"

	"weir/api/openai/decision"
	"weir/engine/llm"
)

// What the engine takes of decision types, the edge can ask, and nothing else.
func TestDecisionTypesCanBeAsked(t *testing.T) {
	asked, taken := decision.Types(), append(slices.Clone(llm.DecisionLabels), llm.DecisionPointer)
	slices.Sort(asked)
	slices.Sort(taken)
	if !slices.Equal(asked, taken) {
		t.Errorf("asked are %q, and the engine takes %q", asked, taken)
	}
}
