package family

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	"weir/internal/reference"
)

// every gives all families, each with the thought markers that its published templates have.
func every() []*Family {
	marks := map[string]int{
		"mistral-v11": 0, "gemma4": 1, "command-r7b": 2, "command-tags": 2, "apertus": 3, "kimi-k3": 4, "minimax-m3": 5, "seed-oss": 6,
		"apriel": 7, "granite": 8, "solar-open2": 9, "solar-open": 10,
	}
	list := []*Family{generic(think)}
	for i := range candidates {
		c := &candidates[i]
		t := think
		if m, ok := marks[c.name]; ok {
			t = thoughts[m]
		}
		list = append(list, newFamily(c.name, c.calls, c.layout, t))
	}
	return list
}

// answers are texts of a family that must read the same in any split: its calls, alone and in company, and broken ones.
func answers(f *Family) []string {
	weather := Call{"get_weather", []byte(`{"city": "Zü\"rich\n☃", "days": 2, "exact": false, "where": [1, {"a": null}], "s": null}`)}
	calls := []Call{weather, {"noop", []byte(`{}`)}, {"sum", []byte(`{"a": -1.5, "b": 2e3}`)}}
	if f.layout.single {
		calls = calls[:1]
	}
	one, all := f.CallText("", calls[:1]), f.CallText("", calls)
	list := []string{one, all, "Hello ☃, < [ { `.", f.CallText("Let me see: 🙂", calls) + "\nDone.", one[:len(one)/2], one[:len(one)*3/4]}
	if t := f.thought; t != nil {
		list = append(list, t.open+"\nhm "+one+"\n"+t.close+"\n\n"+all, t.open+"hm", "a "+t.open+" b "+t.close+" c")
	}
	r := rand.New(rand.NewPCG(1, uint64(len(f.Name))))
	for range 4 { // a piece is missing somewhere
		from := r.IntN(len(all))
		to := min(len(all), from+1+r.IntN(12))
		list = append(list, all[:from]+all[to:])
	}
	return list
}

func TestAnySplitGivesTheSameAnswer(t *testing.T) {
	reference.Slow(t)
	for _, f := range every() {
		t.Run(f.Name, func(t *testing.T) {
			for i, text := range answers(f) {
				for j, o := range choices() {
					if (i+j)%reference.Repeats(3, 2, 1) != 0 {
						continue
					}
					checkSplits(t, f, o, text)
				}
			}
		})
	}
}

// choices are the options that change what a parser does.
func choices() []Options {
	none, one, inside, bound := auto(), auto(), auto(), auto()
	none.Choice.Mode = None
	one.Choice.Parallel = false
	inside.Opening.Thinking = true
	bound.Bound = true
	return []Options{auto(), none, one, inside, bound}
}

func TestCallsComeBackInEveryFamily(t *testing.T) {
	for _, f := range every() {
		t.Run(f.Name, func(t *testing.T) {
			calls := []Call{
				{"get_weather", []byte(`{"city": "Zü\"rich\n 'x' \\ ☃", "days": 2, "exact": false, "where": [1, {"a": null, "b": "c"}], "o": {"k": "v"}, "s": null}`)},
				{"noop", []byte(`{}`)}, {"sum", []byte(`{"a": -1.5, "b": 2000}`)},
			}
			if f.layout.single {
				calls = calls[:1]
			}
			var got []Call
			for _, p := range checkSplits(t, f, auto(), f.CallText("Now then.", calls)) {
				switch p.Kind {
				case Content:
					if p.Text != "Now then." {
						t.Errorf("content %q", p.Text)
					}
				case CallStart:
					got = append(got, Call{Name: p.Name})
				case CallArguments:
					got[len(got)-1].Arguments = []byte(p.Text)
				default:
				}
			}
			if len(got) != len(calls) {
				t.Fatalf("%d calls of %d: %s", len(got), len(calls), f.CallText("", calls))
			}
			for i, c := range calls {
				if got[i].Name != c.Name || !sameJSON(string(got[i].Arguments), string(c.Arguments)) {
					t.Errorf("call %d: %s %s, want %s %s", i, got[i].Name, got[i].Arguments, c.Name, c.Arguments)
				}
			}
		})
	}
}

func TestEveryFamilyKnowsItsMarkers(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range every() {
		if seen[f.Name] {
			t.Errorf("two families are called %s", f.Name)
		}
		seen[f.Name] = true
		for _, m := range f.calls.allMarkers {
			if !f.calls.knows([]byte(m)) {
				t.Errorf("%s drops its marker %q as a control token", f.Name, m)
			}
		}
	}
}

func FuzzParser(f *testing.F) {
	families := every()
	for i, family := range families {
		for _, text := range answers(family) {
			f.Add(i, uint8(0), uint16(7), text)
		}
		for _, w := range written {
			if w.family == family.Name {
				f.Add(i, uint8(0), uint16(1), w.in)
			}
		}
	}
	f.Fuzz(func(t *testing.T, n int, choice uint8, cut uint16, text string) {
		family := families[uint(n)%uint(len(families))]
		o := choices()[int(choice)%5]
		whole := parse(family, o, text)
		open, last := false, -1
		for _, p := range whole {
			switch p.Kind {
			case CallStart:
				if open || p.Call != last+1 || p.Name == "" {
					t.Fatalf("%s: %q: call %d %q after %d", family.Name, text, p.Call, p.Name, last)
				}
				open, last = true, p.Call
			case CallArguments:
				if !json.Valid([]byte(p.Text)) {
					t.Fatalf("%s: %q: arguments %q", family.Name, text, p.Text)
				}
			case CallEnd:
				open = false
			default:
			}
		}
		if open {
			t.Fatalf("%s: %q: a call stays open", family.Name, text)
		}
		step := 1 + int(cut)%11
		if got := parse(family, o, cutUp(text, step)...); show(got) != show(whole) {
			t.Fatalf("%s: %q in pieces of %d\n  got %s\nwhole %s", family.Name, text, step, show(got), show(whole))
		}
	})
}
