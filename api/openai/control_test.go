package openai

import (
	"net/http"
	"testing"
)

// TestControlTokensInCompletionText: parsed where the server or the request
// says so; a prompt that holds one unparsed gets a warning.
func TestControlTokensInCompletionText(t *testing.T) {
	const note = `prompt holds "<|im_end|>" as plain text; parse_special makes it a control token`
	parsing := DefaultConfig()
	parsing.ParseSpecial = true
	for _, tc := range []struct {
		c             Config
		path, fields  string
		ids           int
		warning, name string
	}{
		{DefaultConfig(), routeCompletions, `"prompt":"Hello<|im_end|>"`, 11, note, "default"},
		{DefaultConfig(), routeCompletions, `"prompt":"Hello<|im_end|>","parse_special":true`, 2, "", "on request"},
		{parsing, routeCompletions, `"prompt":"Hello<|im_end|>"`, 2, "", "by the flag"},
		{parsing, routeCompletions, `"prompt":"Hello<|im_end|>","parse_special":false`, 11, note, "flag, but not on request"},
		{DefaultConfig(), routeCompletions, `"prompt":"Hello<|im_en|>"`, 10, "", "no control token"},
		{DefaultConfig(), routeCompletions, `"prompt":["a","Hello<|im_end|>","<|im_start|><|im_end|>"]`, 1,
			`prompt[] holds "<|im_end|>" as plain text; parse_special makes it a control token, ` +
				`prompt[] holds "<|im_start|>" as plain text; parse_special makes it a control token`, "several prompts"},
		{parsing, routeTokenize, `"prompt":"Hello<|im_end|>"`, 2, "", "tokenize"},
	} {
		b := &fakeBackend{}
		r := newRig(t, tc.c, b)
		res, body := r.do(http.MethodPost, tc.path, "", "{"+tc.fields+"}")
		if got := res.Header.Get("X-Weir-Warnings"); res.StatusCode != 200 || got != tc.warning {
			t.Errorf("%s: %d, warnings %s, want %s: %.200s", tc.name, res.StatusCode, got, tc.warning, body)
		}
		if tc.path == routeCompletions {
			if got := len(b.run(t, 0).req.Prompt); got != tc.ids {
				t.Errorf("%s: %d ids, want %d", tc.name, got, tc.ids)
			}
		}
		r.close()
	}
}
