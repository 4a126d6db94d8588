package meter

import "testing"

// Prompts are estimated by those that were told: with what a template adds to each, and by the usual size of a token where these were too
// few or too equal to say it.
func TestPromptsAreEstimatedByThoseThatWereTold(t *testing.T) {
	for name, c := range map[string]struct {
		told [][2]int // bytes and tokens
		asks [][2]int
	}{
		"template":      {[][2]int{{20, 35}, {24, 36}, {28, 37}, {20, 35}}, [][2]int{{20, 35}, {24, 36}, {4000, 1030}}},
		"one prompt":    {[][2]int{{4000, 1100}}, [][2]int{{4000, 1100}, {8000, 2100}, {0, 100}}},
		"many a byte":   {[][2]int{{1000, 1010}, {3000, 3010}, {9000, 9010}}, [][2]int{{2000, 2010}, {20000, 20010}}},
		"few a byte":    {[][2]int{{8000, 800}, {8000, 800}}, [][2]int{{4000, 400}, {8000, 800}}},
		"a single byte": {[][2]int{{1, 1}}, [][2]int{{1, 1}, {400, 101}}},
	} {
		e := NewEstimates()
		if n, ok := e.PromptTokens("m", 10); ok {
			t.Errorf("%s: %d tokens before any was told", name, n)
		}
		for _, p := range c.told {
			if !e.LearnsPrompt("m") {
				t.Fatalf("%s: a first prompt is not learned from", name)
			}
			e.LearnPrompt("m", p[0], p[1])
		}
		for _, p := range c.asks {
			if n, ok := e.PromptTokens("m", p[0]); !ok || n < p[1]*95/100-1 || n > p[1]*105/100+1 {
				t.Errorf("%s: %d bytes are %d tokens, want %d", name, p[0], n, p[1])
			}
		}
	}
}

// What is learned follows a model that changed, and costs little once it is known.
func TestOldPromptsAreForgotten(t *testing.T) {
	e, learned := NewEstimates(), 0
	for i := range 80_000 {
		tokens := 500
		if i > 20_000 {
			tokens = 1500
		}
		if e.LearnsPrompt("m") {
			learned++
			e.LearnPrompt("m", 2000, tokens)
		}
	}
	if n, _ := e.PromptTokens("m", 2000); n < 1300 || learned > 6000 {
		t.Errorf("%d tokens, after %d prompts that were learned from", n, learned)
	}
}
