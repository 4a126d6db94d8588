package relay

import (
	"strings"
	"testing"

	"weir/api/meter"
	"weir/api/openai/models"
	"weir/router"
)

// What is reserved for a prompt is what its texts have by what the model's servers have told, not what the bytes of its request are: a picture
// of a megabyte is some hundred tokens, and a prompt of numbers has as many tokens as numbers.
func TestExpectedInput(t *testing.T) {
	s := &Relay{Estimates: meter.NewEstimates()}
	m := &models.Model{ID: "m"}
	chat := func(content string) []router.Part {
		return []router.Part{{Kind: "messages", Text: []byte(`[{"role": "user", "content": ` + content + `}]`)}}
	}
	picture := `[{"type": "text", "text": "What is it?"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,` + strings.Repeat("A", 1<<20) + `"}}]`
	for name, c := range map[string]struct {
		parts       []router.Part
		least, most int64
	}{
		"a picture": {chat(picture), shownTokens, shownTokens + 10},
		"ids":       {[]router.Part{{Kind: "prompt", Text: []byte(`[1, 22222, 333333]`)}}, 3, 3},
		"a text":    {chat(`"` + strings.Repeat("word ", 100) + `"`), 125, 125},
		"very long": {chat(`"` + strings.Repeat("word ", 1<<20) + `"`), 5 << 18, 5<<18 + 20},
	} {
		if got := s.ExpectedInput(m, c.parts); got < c.least || got > c.most {
			t.Errorf("%s: %d tokens, want %d to %d", name, got, c.least, c.most)
		}
	}
	for range 20 { // the model's vocabulary has a token for each byte of these texts
		s.learnPrompt("m", chat(`"`+strings.Repeat("ä", 100)+`"`), 200)
	}
	if got := s.ExpectedInput(m, chat(`"`+strings.Repeat("ä", 100)+`"`)); got != 200 {
		t.Errorf("%d tokens are expected of a prompt whose like had 200", got)
	}
}
