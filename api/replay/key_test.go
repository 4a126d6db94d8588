package replay

import (
	"strings"
	"testing"
)

func TestParseKey(t *testing.T) {
	long := strings.Repeat("k", MaxKeyBytes)
	for field, want := range map[string]string{
		"8e03978e-40d5-43e8-bc93-6894a57f9324":   "8e03978e-40d5-43e8-bc93-6894a57f9324",
		`"8e03978e-40d5-43e8-bc93-6894a57f9324"`: "8e03978e-40d5-43e8-bc93-6894a57f9324",
		`  "a b"` + "\t":                         "a b",
		`"\"\\"`:                                 `"\`,
		`a"b\c`:                                  `a"b\c`,
		long:                                     long,
		`"` + long + `"`:                         long,
	} {
		if got, err := ParseKey(field); err != nil || got != want {
			t.Errorf("%.60q is %q, %v", field, got, err)
		}
	}
	for field, want := range map[string]string{
		"":                       "empty",
		"  ":                     "empty",
		`""`:                     "empty",
		`"`:                      "does not end",
		`"a`:                     "does not end",
		`"a"; v=1`:               "follows",
		`"a", "b"`:               "follows",
		`"a\b"`:                  "before",
		`"a\`:                    "before",
		"a b":                    "byte 1",
		"a\x00":                  "byte 1",
		"ä":                      "byte 0",
		"\"a\tb\"":               "byte 1",
		long + "k":               "256 bytes",
		`"` + long + `k"`:        "256 bytes",
		strings.Repeat("k", 600): "600 bytes",
	} {
		if got, err := ParseKey(field); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q is %q, %v; want an error with %q", field, got, err, want)
		}
	}
}

func TestFingerprint(t *testing.T) {
	seen := map[[32]byte]string{}
	for _, r := range [][2]string{{"/a", "b"}, {"/", "ab"}, {"/a", "b "}, {"/b", "b"}, {"", ""}, {"/a", ""}} {
		f := Fingerprint(r[0], []byte(r[1]))
		if before, found := seen[f]; found {
			t.Errorf("%q and %q are one", r, before)
		}
		seen[f] = r[0] + r[1]
		if f != Fingerprint(r[0], []byte(r[1])) {
			t.Errorf("%q has two fingerprints", r)
		}
	}
}

// A key that is taken can be sent as a quoted string, and is the same then.
func FuzzParseKey(f *testing.F) {
	for _, field := range []string{"a", `"a"`, `"\""`, `"a`, "", `"a";p`, "a\x7f", strings.Repeat("x", 300)} {
		f.Add(field)
	}
	f.Fuzz(func(t *testing.T, field string) {
		key, err := ParseKey(field)
		if err != nil {
			return
		}
		if key == "" || len(key) > MaxKeyBytes {
			t.Fatalf("%q is the key %q", field, key)
		}
		quoted := `"` + strings.NewReplacer(`"`, `\"`, `\`, `\\`).Replace(key) + `"`
		if again, err := ParseKey(quoted); err != nil || again != key {
			t.Fatalf("%q is %q, and as %s %q, %v", field, key, quoted, again, err)
		}
	})
}
