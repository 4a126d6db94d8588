package chat

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// dump writes a value as JSON again.
func dump(t testing.TB, v Value) string {
	t.Helper()
	x := &exec{budget: newBudget(Options{}.withDefaults()), lib: builtins()}
	s, err := filterToJSON(x, v, args{})
	if err != nil {
		t.Fatal(err)
	}
	return s.str
}

func TestFromJSONKeepsOrderAndNumbers(t *testing.T) {
	for in, want := range map[string]string{
		`{"b":1,"a":2,"c":{"z":0,"y":[]}}`:                            `{"b": 1, "a": 2, "c": {"z": 0, "y": []}}`,
		`{"a":1,"b":2,"a":3}`:                                         `{"a": 3, "b": 2}`,
		` [1, 1.0, 1e2, -0, -0.0, 12345678901234567890, 1E400, 0.1] `: `[1, 1.0, 100.0, 0, -0.0, 12345678901234567890, Infinity, 0.1]`,
		`"\u00e9\ud83e\udd99\n\/\"\\\b\f\r\t"`:                        `"é🦙\n/\"\\\b\f\r\t"`,
		`"\ud83e x \udd99\ud83e\u0041"`:                               "\"\uFFFD x \uFFFD\uFFFDA\"",
		"\"a\xffb\"":                                                  "\"a\uFFFDb\"",
		"\"a\xff\\nb\xfe\"":                                           "\"a\uFFFD\\nb\uFFFD\"",
		`null`:                                                        `null`,
		`[true,false,[]]`:                                             `[true, false, []]`,
		`{"":{"":""}}`:                                                `{"": {"": ""}}`,
	} {
		v, err := FromJSON([]byte(in))
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		if got := dump(t, v); got != want {
			t.Errorf("%s\n got %s\nwant %s", in, got, want)
		}
	}
}

func TestFromJSONRefuses(t *testing.T) {
	for _, in := range []string{``, `{`, `[1,]`, `{"a"}`, `01`, `nul`, `"a`, `[1] 2`, `{1:2}`, "\"\n\"",
		strings.Repeat("[", 200) + strings.Repeat("]", 200), strings.Repeat("9", 5000)} {
		if v, err := FromJSON([]byte(in)); err == nil {
			t.Errorf("%.20q gives %v", in, v)
		}
	}
}

func TestLargeObjectsAreIndexed(t *testing.T) {
	var b bytes.Buffer
	b.WriteString("{")
	for i := range 3000 {
		if i > 0 {
			b.WriteString(",")
		}
		key, _ := json.Marshal(strings.Repeat("k", i%7) + string(rune('a'+i%26)) + strings.Repeat("x", i/26))
		b.Write(key)
		b.WriteString(":1")
	}
	b.WriteString("}")
	v, err := FromJSON(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	d := v.dict()
	if d.index == nil || len(d.index) != d.len() {
		t.Fatalf("index of %d for %d keys", len(d.index), d.len())
	}
	for i, e := range d.entries {
		if at := d.find(textKey(e.key.str)); at != i {
			t.Errorf("key %d is found at %d", i, at)
		}
	}
}

func FuzzFromJSON(f *testing.F) {
	for _, s := range []string{`{"a": [1, 2.5, "x\u00e9\ud83e\udd99", null, true]}`, `[]`, `"\ud800"`, `1e999`, `{"a":1,"a":2}`,
		"\"\xff\""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := FromJSON(data)
		if !json.Valid(data) {
			if err == nil {
				t.Fatal("invalid JSON is accepted")
			}
			return
		}
		if err != nil {
			return // too deep or too many digits
		}
		var want, got any
		if json.Unmarshal(data, &want) != nil {
			return // numbers that float64 does not hold
		}
		if err := json.Unmarshal([]byte(dump(t, v)), &got); err != nil {
			t.Fatalf("%s: %v", dump(t, v), err)
		}
		// Runs of invalid bytes become one replacement character here, one per
		// byte in encoding/json.
		if !bytes.ContainsRune(data, '\uFFFD') && json.Valid(data) && isValidUTF8(data) && !reflect.DeepEqual(got, want) {
			t.Fatalf("%s: got %v, want %v", data, got, want)
		}
	})
}

func isValidUTF8(data []byte) bool { return bytes.Equal(bytes.ToValidUTF8(data, nil), data) }
