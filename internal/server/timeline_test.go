package server

import (
	"testing"

	"weir/engine/llm"
)

func TestTimelineGivesEachStepOnce(t *testing.T) {
	var line timeline
	add := func(from, to int) {
		for i := from; i < to; i++ {
			line.add(llm.StepStats{DecodeTokens: i})
		}
	}
	want := func(from, to, left int) {
		t.Helper()
		steps, l := line.take()
		if len(steps) != to-from || l != left {
			t.Fatalf("it gives %d steps and leaves out %d, want %d and %d", len(steps), l, to-from, left)
		}
		for i, s := range steps {
			if s.Decode != from+i {
				t.Fatalf("step %d is %+v", from+i, s)
			}
		}
	}
	want(0, 0, 0)
	add(0, 3)
	want(0, 3, 0)
	want(0, 0, 0)
	add(3, 3+timelineSteps+7)
	want(10, 10+timelineSteps-0, 7)
}
