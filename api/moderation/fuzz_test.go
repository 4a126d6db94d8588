package moderation

import (
	"encoding/json"
	"strings"
	"testing"
)

func FuzzFilter(f *testing.F) {
	for _, text := range splitTexts {
		f.Add(text, []byte{1, 3, 2})
	}
	p := splitRules(f, 3)
	f.Fuzz(func(t *testing.T, text string, sizes []byte) {
		if len(text) > 4<<10 || len(sizes) == 0 {
			return
		}
		i := 0
		checkSplit(t, p, text, func(most int) int {
			i++
			return 1 + int(sizes[i%len(sizes)])%most
		})
	})
}

// A policy that is read either is refused, or filters any text.
func FuzzPolicy(f *testing.F) {
	for _, s := range []Spec{
		{Name: "a", HoldBackTokens: 4, Rules: []RuleSpec{{ID: "a", PII: PIIKinds(), Output: Redact, Input: Flag}}},
		{Roles: []string{"user"}, Rules: []RuleSpec{{ID: "w", Category: "violence", Words: []string{"pipe bomb", "爆弾"}, Input: Block, Output: Block}}},
		{Rules: []RuleSpec{{ID: "p", Patterns: []string{`(?i)\ba{1,4}(b|c)?$`, `[^\x00-\x{10FFFF}]x`}, MaxMatchBytes: 9, Output: Redact, Replacement: "#"}}},
		{Rules: []RuleSpec{{ID: "c", Classifier: &ClassifierSpec{Model: "m", Question: "q", Threshold: 0.5}, Input: Block}}},
	} {
		data, err := json.Marshal(s)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, "ann@example.org aaab 爆弾")
	}
	f.Fuzz(func(t *testing.T, data []byte, text string) {
		if len(data) > 4<<10 || len(text) > 1<<10 {
			return
		}
		s, err := ParseSpec(data)
		if err != nil {
			return
		}
		p, err := New(s, Options{})
		if err != nil {
			return
		}
		r := &Report{}
		p.Check(text, r, nil)
		p.Classify(text, r, nil)
		if p.FiltersOutput() {
			first, blocked, _ := filtered(p, Plain, false, text)
			second, again, _ := filtered(p, Plain, false, strings.SplitAfter(text, " ")...)
			if first != second || blocked != again {
				t.Fatalf("%q: %q or %q", text, first, second)
			}
		}
	})
}
