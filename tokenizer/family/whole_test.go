package family

import (
	"slices"
	"testing"
)

// TestCallsWithoutMarkers are whole answers of calls as JSON, which small models write without the markers that their template asks for.
func TestCallsWithoutMarkers(t *testing.T) {
	const (
		call    = `{"name": "get_weather", "arguments": {"city": "Ulm"}}`
		weather = `C(get_weather {"city": "Ulm"})`
	)
	for in, want := range map[string]string{
		call:                                  weather,
		"\n" + call + "\n":                    weather,
		"```json\n" + call + "\n```":          weather,
		"```\n" + call + "\n```\n":            weather,
		"[" + call + ", " + call + "]":        weather + weather,
		"```json\n[" + call + "]\n```":        weather,
		call + "\n" + call:                    weather + weather,
		"<think>hm</think>\n" + call:          "R(hm)" + weather,
		"```{" + call + "}}\n```":             weather, // braces doubled, as the template shows them
		`{"name": "noop"}`:                    "C(noop {})",
		`{"name": "sum", "parameters": "{}"}`: "C(sum {})",
		`{"type": "function", "function": {"name": "noop", "arguments": {}}}`:              `C(noop {})`,
		`{"name": "get_weather", "arguments": {}}`:                                         "", // city is missing
		`{"name": "get_weather", "arguments": {"city": 5}}`:                                "",
		`{"name": "get_weather", "description": "Weather."}`:                               "",
		`{"name": "nope", "arguments": {}}`:                                                "",
		`{"city": "Ulm"}`:                                                                  "",
		"Sure:\n" + call:                                                                   "T(Sure:)" + weather,
		"Sure:\n\n```json\n" + call + "\n```":                                              "T(Sure:)" + weather,
		"Sure:\n```json\n" + call:                                                          "T(Sure:)" + weather, // without the fence's end
		"Sure.\n<tools>\n" + call + "\n</tools>":                                           "T(Sure.)" + weather,
		"<function_call>" + call + "</function_call>":                                      weather,
		"First:\n```sh\nls\n```\nThen:\n" + call:                                           "T(First:\n```sh\nls\n```\nThen:)" + weather,
		"One:\n```\n" + call + "\n```\n```json\n" + call + "```":                           "T(One:)" + weather + weather,
		"Sure: " + call:                                                                    "", // within a line
		"Sure:\n```json\n" + call + "\n```\nIt is warm in Ulm.":                            "", // an example, with more text
		"Sure:\n[" + call + ", 5]":                                                         "",
		"Sure:\n" + `{"name": "nope", "arguments": {}}`:                                    "",
		"Sure:\n```json\n" + `{"name": "get_weather", "arguments": {"city": 5}}` + "\n```": "",
		"x\n```\n{\n```\n[\n<tools>\n":                                                     "",
		call + "\nThis is the call.":                                                       weather + "T(This is the call.)",
		"```json\n" + call + "\n```\nDone.":                                                weather + "T(Done.)",
		"[" + call + ", 5]":                                                                weather + "T(, 5])",
		"```json\n" + call + "\n" + call + "\n```\n" + call + "\n```\n[" + `{"name": "noop"}, ` + call + "]\n```":        weather + weather + weather + "C(noop {})" + weather,
		`{"name": "get_weather", "parameters": {"city": "Ulm", "days": 2}}` + "\n" + `{"name": "noop", "arguments": {}}`: `C(get_weather {"city": "Ulm", "days": 2})C(noop {})`,
		`{"name": "get_weather", "arguments": {"type": "object"}}`:                                                       "", // the tool's own schema
		`{"name": "get_weather", "note": 1, "arguments": {"city": "Ulm"}}`:                                               "",
		"```python\nprint(1)\n```": "",
		"[1, 2]":                   "",
		`{"name": "get_weather", "arguments": {"city": "U`: `C(get_weather {"city": "U"})`,
		`{"name": "get_weather", "arguments": {"cit`:       "",
	} {
		for _, name := range []string{"generic", "hermes", "mistral", "nemotron"} {
			f := named(t, name)
			if want == "" {
				want = "T(" + in + ")"
			}
			if got := show(checkSplits(t, f, auto(), in)); got != want {
				t.Errorf("%s: %q\n got %s\nwant %s", name, in, got, want)
			}
		}
	}
}

// A family whose template shows no JSON calls, and a request that may not call, have such an answer as text.
func TestJSONAnswersStayText(t *testing.T) {
	const call = `{"name": "noop", "arguments": {}}`
	none, named1 := auto(), auto()
	none.Choice.Mode = None
	named1.Choice.Names = []string{"sum"}
	for _, c := range []struct {
		family string
		o      Options
	}{{"glm4", auto()}, {"lfm2", auto()}, {"hermes", none}, {"hermes", named1}} {
		if got := show(checkSplits(t, named(t, c.family), c.o, call)); got != "T("+call+")" {
			t.Errorf("%s: %s", c.family, got)
		}
	}
}

// A stream waits only while the answer may still be a call.
func TestJSONTextStreamsOnceItIsNoCall(t *testing.T) {
	for in, held := range map[string]bool{
		"\n\n```json\n{\"name\": \"sum\"": true, "\n\n```json\n{\"b\"": false,
		"{\"na": true, `{"name": "noop", "arg`: true, "```js": true, "[": true,
		`{"city"`: false, `{"name": "nope"`: false, "Hi": false, "[1": false, "```json\n[1": false,
	} {
		p := named(t, "hermes").NewParser(auto())
		if parts := p.Append(nil, []byte(in), false); len(parts) == 0 != held {
			t.Errorf("%q: held back is %v, want %v", in, len(parts) == 0, held)
		}
	}
}

// Text in front of such a call streams, and what turns out to be none is given whole.
func TestTextBeforeJSONCallsStreams(t *testing.T) {
	p := named(t, "hermes").NewParser(auto())
	text := func(parts []Part) string {
		var b []byte
		for _, part := range parts {
			b = append(b, part.Bytes...)
		}
		return string(b)
	}
	for _, c := range [][2]string{
		{"Let us see.\n\n", "Let us see."}, {"```json\n{", ""}, {`"name": "noop"`, ""}, {"}\n```\n", ""}, {"It is done.", "\n\n```json\n{\"name\": \"noop\"}\n```\nIt is done."},
	} {
		if got := text(p.Append(nil, []byte(c[0]), false)); got != c[1] {
			t.Errorf("%q gave %q, want %q", c[0], got, c[1])
		}
	}
}

// An answer that its length cuts right behind such a call has it, and one that is cut inside has neither call nor half of one as text.
func TestCutJSONCalls(t *testing.T) {
	const call = `{"name": "noop", "arguments": {}}`
	f := named(t, "hermes")
	if got := show(cutShort(f, auto(), call)); got != "C(noop {})" {
		t.Error(got)
	}
	if got := cutShort(f, auto(), call[:25]); slices.ContainsFunc(got, func(p joined) bool { return p.Text != "" }) {
		t.Error(show(got))
	}
}

// TestStreamedArgumentsOfJSONCalls demands the arguments of a call that begins the answer as they come, from the first byte of the first value on.
func TestStreamedArgumentsOfJSONCalls(t *testing.T) {
	const (
		object  = `{"name": "get_weather", "arguments": {"city"`
		doubled = "```json\n{" + object
	)
	for front, rest := range map[string]string{object: `: "Ulm"}}`, "\n[" + object: `: "Ulm"}}]`, doubled: `: "Ulm"}}}` + "\n```", "<tools>" + object: `: "Ulm"}}</tools>`} {
		p := named(t, "hermes").NewParser(auto())
		if parts := p.Append(nil, []byte(front), false); len(parts) > 0 {
			t.Errorf("%q: %s", front, show(join(nil, parts)))
		}
		var all []joined
		for _, c := range []byte(rest) {
			parts := p.Append(nil, []byte{c}, false)
			if c == 'm' && (len(parts) != 1 || string(parts[0].Bytes) != "m") {
				t.Errorf("%q: %s", front, show(join(nil, parts)))
			}
			all = join(all, parts)
		}
		if got := show(join(all, p.Close(nil))); got != `C(get_weather {"city": "Ulm"})` {
			t.Errorf("%q: %s", front, got)
		}
	}
}

// A second call is none where one is allowed.
func TestOneStreamedJSONCall(t *testing.T) {
	const call = `{"name": "get_weather", "arguments": {"city": "Ulm"}}`
	one := auto()
	one.Choice.Parallel = false
	if got := show(checkSplits(t, named(t, "hermes"), one, "["+call+", "+call+"]")); got != `C(get_weather {"city": "Ulm"})` {
		t.Error(got)
	}
}
