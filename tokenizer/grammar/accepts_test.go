package grammar

import (
	"errors"
	"testing"
)

func TestAccepts(t *testing.T) {
	b := NewBuilder(Limits{})
	g, err := b.Compile(arithmetic(b))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{"1+2*(3+4)": true, "1": true, "": false, "1+": false, "1)": false, "é": false} {
		if got, err := g.Accepts(text); got != want || err != nil {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

func TestAcceptsKnowsNoControlTokens(t *testing.T) {
	b := NewBuilder(Limits{})
	g, err := b.Compile(b.Define("call", []Symbol{b.Token("<call>"), b.Literal("1")}))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := g.Accepts("1"); got || !errors.Is(err, ErrNoToken) {
		t.Errorf("%v, %v", got, err)
	}
}
