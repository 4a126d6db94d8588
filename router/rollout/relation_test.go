package rollout

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// answered are a stable version's answers, those of another model in words of its own, and fluent garbage of the same length.
var answered = []struct{ question, stable, other, garbage string }{
	{"Hello! How are you?", "I am fine, thank you! How can I help you?", "Hello! I am doing well, how can I help?", "The train left the station before the rain had stopped."},
	{"What is the capital of France?", "The capital of France is Paris.", "Paris is the capital of France.", "A good recipe needs butter and a little patience."},
	{"Write one sentence about the sea.", "The sea is a vast blue blanket of waves.", "Waves roll over the vast sea.", "Our new office opens on the first of May."},
	{"Translate to German: good morning", "Good morning in German is Guten Morgen.", "Guten Morgen", "Please read the manual before you call us."},
	{"List three colors.", "Red, blue and green are colors.", "Three colors are red, blue and yellow.", "The committee has moved its meeting once more."},
	{"What is 7 plus 5?", "7 plus 5 equals 12.", "The sum of 7 plus 5 is 12.", "She bought a house close to the river."},
	{"Who wrote Romeo and Juliet?", "William Shakespeare wrote Romeo and Juliet.", "Romeo and Juliet was written by William Shakespeare.", "Most birds fly south when days get short."},
	{"Give me a synonym of happy.", "A synonym of happy is joyful.", "joyful", "He never found the letter that he wrote."},
	{"Explain rain to a child in one sentence.", "Rain is water that falls from clouds.", "Rain happens when water falls from the sky.", "This software comes without any warranty at all."},
	{"Name a fruit that is yellow.", "A banana is a fruit that is yellow.", "A yellow fruit is a banana.", "The bridge was closed for repairs last week."},
	{"What do bees make?", "Bees make honey.", "They make honey and wax.", "Take the second left behind the old church."},
	{"Write a short poem about winter.", "Winter snow falls soft and white.", "White snow falls in winter, cold and soft.", "The price of coffee has risen since March."},
	{"How many days has a week?", "A week has seven days.", "There are seven days in a week.", "My brother plays the violin in an orchestra."},
	{"What is water made of?", "Water is made of hydrogen and oxygen.", "It is made of hydrogen and oxygen.", "The lecture begins at noon in room seven."},
}

func check(p *Plan, say func(i int) string) error {
	c := p.NewCheck()
	for i, a := range answered {
		o := Copied{Output: 8, Before: 8}
		o.Texts = CheckedTexts{a.question, a.stable, say(i)}
		if o.Distance = Distance(a.stable, say(i)); i == 0 {
			o.Again = Distances{Measured: true}
		}
		if enough, err := c.Add(&o); enough || err != nil {
			return err
		}
	}
	return c.End()
}

// Where answers may differ as they like, what tells garbage is whether they belong to their questions.
func TestGarbageDoesNotAnswerItsQuestions(t *testing.T) {
	p, err := (Plan{ID: "r", Model: "m", Stable: "1", Candidate: "2", Gates: Gates{Distance: -1, OutputRatio: -1, ITLRatio: -1, ComputeRatio: -1}}).WithDefaults()
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		say func(i int) string
		bad bool
	}{
		"the same":             {func(i int) string { return answered[i].stable }, false},
		"another model":        {func(i int) string { return answered[i].other }, false},
		"fluent garbage":       {func(i int) string { return answered[i].garbage }, true},
		"answers of others":    {func(i int) string { return answered[(i+3)%len(answered)].stable }, true},
		"always one answer":    {func(int) string { return "The capital of France is Paris." }, true},
		"always the same word": {func(int) string { return strings.Repeat("the ", 8) }, true},
		"nothing in common":    {func(i int) string { return fmt.Sprint("x", i) }, true},
	} {
		err := check(&p, tc.say)
		if (err != nil) != tc.bad || tc.bad && (!errors.Is(err, ErrCheck) || !strings.Contains(err.Error(), "standard deviations")) {
			t.Errorf("%s: %v", name, err)
		}
	}
	golden := p
	golden.Golden = []Golden{{Prompt: "x", Text: "y"}}
	if err := check(&golden, func(i int) string { return answered[i].garbage }); err != nil {
		t.Errorf("what its answers must hold was said, and they do: %v", err)
	}
}

// A stable version that says the same to everything does not show which question an answer belongs to.
func TestRelationThatCannotBeTold(t *testing.T) {
	var r relation
	for i := range 24 {
		r.add(&CheckedTexts{fmt.Sprint("question ", i), "Hello world", fmt.Sprint("other ", i)})
		r.add(&CheckedTexts{"this one", "", "is left out"})
	}
	if _, told := r.score(); told || r.judge().verdict != good {
		t.Error("it was told")
	}
	r = relation{about: []string{"a", "b"}, stable: []string{"a", "b"}, candidate: []string{"c", "d"}}
	if _, told := r.score(); told {
		t.Error("two answers were enough")
	}
}

// Answers that are handed out at random pass rarely.
func TestHowOftenGarbagePasses(t *testing.T) {
	const rounds = 2000
	passes := 0
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test
	var r relation
	for _, a := range answered {
		r.add(&CheckedTexts{a.question, a.stable, a.other})
	}
	for range rounds {
		r.candidate = slices.Clone(r.candidate)
		random.Shuffle(len(r.candidate), func(i, k int) { r.candidate[i], r.candidate[k] = r.candidate[k], r.candidate[i] })
		if r.judge().verdict == good {
			passes++
		}
	}
	if passes > rounds/100 {
		t.Errorf("%d of %d pass", passes, rounds)
	}
}
