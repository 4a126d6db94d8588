package reasoning

import "testing"

// A second thought has what the first has left.
func TestBudgetsAreSharedByThoughts(t *testing.T) {
	rules := rules{most: 5, again: true}
	s := rules.after(state{phase: within, used: 4})
	if s.phase != before || s.used != 4 || !s.late {
		t.Errorf("behind a thought: %+v", s)
	}
	s = rules.within(state{phase: within, used: 5})
	if s.phase != forced {
		t.Errorf("a thought that has nothing left: %+v", s)
	}
}
