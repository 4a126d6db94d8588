package choice

import "testing"

// The text of a custom tool is the same however its arguments are cut into pieces.
func TestInputsReadAnySplit(t *testing.T) {
	for arguments, want := range map[string]string{
		`{"input": "a\"\\\/\n\u00e9é\ud83d\ude00b"}`: "a\"\\/\néé\U0001F600b",
		" {\n\"input\"\t:\"x\"} ":                    "x",
		`{"input":""}`:                               "",
		`{}`:                                         "",
		`{"input":"\ud83dx\udc00\uZZZZ"}`:            "\uFFFDx\uFFFD\uFFFD",
		`{"input":"cut off`:                          "cut off",
		`{"input":"\ud83d`:                           "",
		`{"query":"x"}`:                              `{"query":"x"}`,
		`{"input":5}`:                                `{"input":5}`,
		`{"inp`:                                      `{"inp`,
		`[1]`:                                        `[1]`,
	} {
		for cut := range len(arguments) + 1 {
			for second := cut; second <= len(arguments); second++ {
				c := &customInput{}
				var got []byte
				for _, piece := range []string{arguments[:cut], arguments[cut:second], arguments[second:]} {
					got = c.append(got, []byte(piece))
				}
				if got = c.close(got); string(got) != want {
					t.Fatalf("%s cut at %d and %d: %q, want %q", arguments, cut, second, got, want)
				}
			}
		}
	}
}
