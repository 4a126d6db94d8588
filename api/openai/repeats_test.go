package openai

import (
	"slices"
	"strings"
	"testing"
)

// TestRepeatsEndAListThatIsDemanded: a model that has to call goes in circles until max_tokens; the first call that was made before ends the
// answer, and is not told, whole or as a stream.
func TestRepeatsEndAListThatIsDemanded(t *testing.T) {
	const otherCall = "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Parma\"}}\n</tool_call>"
	circles := strings.Repeat(parisCall+"\n"+romeCall+"\n", 20)
	paris, rome, parma := `get_weather {"city": "Paris"}`, `get_weather {"city": "Rome"}`, `get_weather {"city": "Parma"}`
	for _, c := range []struct {
		name, says, fields string
		calls              []string
	}{
		{"the same call", strings.Repeat(parisCall+"\n", 40), `,"tool_choice":"required"`, []string{paris}},
		{"two calls in turn", circles, `,"tool_choice":"required"`, []string{paris, rome}},
		{"calls that begin alike", parisCall + "\n" + otherCall + "\n" + timeCall, `,"tool_choice":"required"`, []string{paris, parma, "get_time {}"}},
		{"without arguments", timeCall + "\n" + timeCall + "\n" + parisCall, `,"tool_choice":"required"`, []string{"get_time {}"}},
		{"a free choice", parisCall + "\n" + parisCall, "", []string{paris, paris}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := both(t, c.says, bothTool+c.fields)
			if !slices.Equal(a.names(), c.calls) || a.text() != "" || a.Reason != "tool_calls" {
				t.Errorf("calls %q, text %q, reason %s", a.names(), a.text(), a.Reason)
			}
		})
	}
}
