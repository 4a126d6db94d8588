package hooks

import (
	"testing"

	"weir/api/edge"
	"weir/internal/inference"
	"weir/telemetry"
)

// Batches see a prediction that began and ended between two of their looks, and none of their own lines.
func TestBatchesSeeBriefRequests(t *testing.T) {
	var o foreground
	h := o.hooks()
	one := func(class inference.Class) {
		h.OnRequestStart(edge.RequestStart{Class: class})
		h.OnRequestFinish(edge.RequestFinish{RequestStart: edge.RequestStart{Class: class}})
	}
	one(inference.Batch)
	if n := o.Running(); n != 0 {
		t.Errorf("%d others beside a line", n)
	}
	one(inference.Interactive)
	if n := o.Running(); n != 1 {
		t.Errorf("%d others after a prediction", n)
	}
	if n := o.Running(); n != 0 {
		t.Errorf("%d others after that was seen", n)
	}
}

// What befalls a request of the class batch is in no objective.
func TestBatchesAreInNoObjective(t *testing.T) {
	for _, status := range []int{200, 429, 503, 499} {
		f := edge.RequestFinish{RequestStart: edge.RequestStart{Model: "m", Class: inference.Batch}, Status: status}
		if a := answerOf(&f); a.Outcome != telemetry.AnswerBatch {
			t.Errorf("%d counts as %s", status, a.Outcome)
		}
	}
	if isTimed(&edge.RequestStart{Class: inference.Batch}) || !isTimed(&edge.RequestStart{Class: inference.Interactive}) {
		t.Error("the wrong class is timed")
	}
}
