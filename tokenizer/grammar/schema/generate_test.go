package schema_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"weir/internal/reference"
	"weir/tokenizer/grammar"
	"weir/tokenizer/grammar/schema"
)

// pairs is a small vocabulary with tokens of several bytes: what usual tokenizers have in JSON, across its borders.
var pairs = func() [][]byte {
	pieces := make([][]byte, 0, 512)
	for b := range 256 {
		pieces = append(pieces, []byte{byte(b)})
	}
	for p := range strings.FieldsSeq(`{" "} ": ": " "," ", "name" true false null tru nul "a "b "} ]} }} [[ [{ },{ \u \ud83d \ude00 \n \" \\ 00 10 123 2024-
		-01 T12: :00 .5 e+ -1 @a .com http:// é 日 日本 😀 \u00 \u0000 foo bar foo" "foo": "bar": baz quux the ing [] {} :[ :{ :" ,"`) {
		pieces = append(pieces, []byte(p))
	}
	for _, p := range []string{"\n  ", "\n", "  ", " \"", ": \"", ", \"", "\n\n", " {", "{ ", " ["} {
		pieces = append(pieces, []byte(p))
	}
	return pieces
}()

// sampler draws texts of a grammar at random.
type sampler struct {
	random *rand.Rand
	vocab  *grammar.Vocabulary
	pieces [][]byte
	mask   []uint64
}

// sample draws one text; ok is false where it did not end in time. At first every token is as likely as any other, later those that close what
// is open come first.
func (s *sampler) sample(g *grammar.Grammar) (text string, ok bool, err error) {
	m, err := g.Matcher(s.vocab)
	if err != nil {
		return "", false, err
	}
	var ids []int32
	patience := s.random.IntN(120)
	for step := range 1_500 {
		end, err := m.Mask(s.mask)
		if err != nil {
			return text, false, err
		}
		ids = ids[:0]
		for id := range int32(s.vocab.Size()) {
			if s.mask[id>>6]>>(id&63)&1 != 0 {
				ids = append(ids, id)
			}
		}
		if end && (len(ids) == 0 || step > patience || s.random.IntN(4) == 0) {
			return text, true, nil
		}
		if len(ids) == 0 {
			return text, false, errors.New("nothing may follow, and the text may not end")
		}
		id := ids[s.random.IntN(len(ids))]
		if step > patience {
			for _, b := range []byte("}]\"0a1:") {
				if slices.Contains(ids, int32(b)) && s.random.IntN(8) > 0 {
					id = int32(b)
					break
				}
			}
		}
		if err := m.Accept(id); err != nil {
			return text, false, err
		}
		text += string(s.pieces[id])
	}
	return text, false, nil
}

// usual are schemas as tools and typed outputs have them.
var usual = []string{
	`{"type":"object","properties":{"location":{"type":"string","description":"City"},"unit":{"type":"string","enum":["c","f"]}},"required":["location"]}`,
	`{"$defs":{"Step":{"properties":{"explanation":{"title":"E","type":"string"},"output":{"type":"string"}},"required":["explanation","output"],
		"type":"object","additionalProperties":false}},"properties":{"steps":{"items":{"$ref":"#/$defs/Step"},"type":"array"},
		"final_answer":{"type":"string"}},"required":["steps","final_answer"],"type":"object","additionalProperties":false}`,
	`{"type":"object","properties":{"id":{"type":"string","format":"uuid"},"at":{"type":"string","format":"date-time"},"day":{"format":"date","type":"string"},
		"mail":{"type":"string","format":"email"},"ip":{"type":"string","format":"ipv4"},"six":{"type":"string","format":"ipv6"},
		"host":{"type":"string","format":"hostname"}},"required":["id","at","mail"],"additionalProperties":false}`,
	`{"type":"object","properties":{"n":{"type":"integer","minimum":1,"maximum":10},"p":{"type":"number","exclusiveMinimum":0,"maximum":1},
		"price":{"type":"number","multipleOf":0.01,"minimum":0},"even":{"type":"integer","multipleOf":2},"t":{"type":"number","minimum":-273.15}},
		"required":["n","p"]}`,
	`{"type":"object","properties":{"kind":{"const":"circle"},"r":{"type":"number"}},"required":["kind","r"],
		"anyOf":[{"properties":{"r":{"minimum":3}}},{"required":["name"],"properties":{"name":{"type":"string","minLength":2,"maxLength":5}}}]}`,
	`{"oneOf":[{"type":"object","properties":{"type":{"const":"a"},"v":{"type":"integer"}},"required":["type","v"],"additionalProperties":false},
		{"type":"object","properties":{"type":{"const":"b"},"v":{"type":["string","null"]}},"required":["type"],"additionalProperties":false}]}`,
	`{"type":"array","items":{"type":"object","properties":{"x":{"type":"number"},"tags":{"type":"array","items":{"type":"string","maxLength":8},
		"minItems":1,"maxItems":3}},"required":["tags"]},"minItems":2,"maxItems":4}`,
	`{"type":"object","properties":{"tree":{"$ref":"#/$defs/n"}},"$defs":{"n":{"type":"object","properties":{"l":{"$ref":"#/$defs/n"},
		"r":{"$ref":"#/$defs/n"},"v":{"type":"integer"}},"required":["v"],"additionalProperties":false}},"required":["tree"]}`,
	`{"type":"object","patternProperties":{"^[a-z]{1,3}$":{"type":"integer"}},"additionalProperties":false,"minProperties":1}`,
	`{"type":"object","propertyNames":{"pattern":"^[A-Z]"},"additionalProperties":{"type":"boolean"},"maxProperties":3}`,
	`{"if":{"properties":{"c":{"const":"US"}},"required":["c"]},"then":{"properties":{"z":{"pattern":"^[0-9]{5}$"}}},
		"else":{"properties":{"z":{"pattern":"^[A-Z]{2}$"}}},"properties":{"c":{"enum":["US","FR"]},"z":{"type":"string"}},"type":"object","required":["z"]}`,
	`{"type":"object","dependentRequired":{"a":["b"]},"properties":{"a":{"type":"integer"},"b":{"type":"integer"},"c":{"type":"null"}}}`,
	`{"not":{"enum":[1,"a",null]},"type":["integer","string","null"]}`,
	`{"allOf":[{"type":"object","properties":{"a":{"type":"number"}}},{"properties":{"a":{"minimum":3},"b":{"maxLength":3}},"required":["a","b"]}]}`,
	`{"oneOf":[{"multipleOf":3},{"multipleOf":5}],"type":"integer","minimum":0,"maximum":100}`,
	`{"type":"string","format":"regex"}`,
	`{}`,
}

// drawn are schemas with texts of their masks, for Python's jsonschema to check.
type drawn struct {
	options          schema.Options
	input            bytes.Buffer
	made, unfinished int
	texts            func(g *grammar.Grammar, text string) // is told each, where it is not nil
}

// add draws texts of a schema, over single bytes and over tokens of several by turns; one that is refused has none.
func (d *drawn) add(t *testing.T, draft, text string, count int) {
	g, _, err := compile(text, d.options)
	if err != nil {
		return
	}
	line := struct {
		Draft     string   `json:"draft"`
		Schema    string   `json:"schema"`
		Instances []string `json:"instances"`
	}{draft, text, []string{}}
	for i := range count {
		s := sampler{random: rand.New(rand.NewPCG(uint64(d.made), uint64(i))), vocab: octets, pieces: pairs[:256]}
		if i%2 == 1 {
			s.vocab, s.pieces = several, pairs
		}
		s.mask = make([]uint64, s.vocab.Words())
		instance, ok, err := s.sample(g)
		if err != nil && !errors.Is(err, grammar.ErrLimit) {
			t.Errorf("%.300s after %q: %v", text, instance, err)
		}
		if !ok {
			d.unfinished++
			continue
		}
		d.made++
		if d.texts != nil {
			d.texts(g, instance)
		}
		line.Instances = append(line.Instances, instance)
	}
	data, err := json.Marshal(line)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&d.input, "%s\n", data)
}

// check has Python's jsonschema check all texts; none may be wrong.
func (d *drawn) check(t *testing.T, least int) {
	python := python(t)
	cmd := exec.Command(python, "testdata/validate.py")
	cmd.Stdin = &d.input
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	var checked, wrong, unreadable int
	if _, err := fmt.Sscanf(lines[len(lines)-1], "checked %d wrong %d unreadable %d", &checked, &wrong, &unreadable); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%d checked, %d wrong, %d with patterns that Python does not read; %d texts did not end in time", checked, wrong, unreadable, d.unfinished)
	if wrong > 0 || checked < least {
		t.Errorf("%d of %d wrong:\n%.6000s", wrong, checked, out)
	}
}

// python is one with the package jsonschema; the test ends where there is none.
func python(t *testing.T) string {
	python := os.Getenv("WEIR_PYTHON")
	if python == "" {
		python = "python3"
	}
	if out, err := exec.Command(python, "-c", "import jsonschema, rfc3339_validator").CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: %s has no packages jsonschema and rfc3339-validator (WEIR_PYTHON names another): %v %s", python, err, out)
	}
	return python
}

// several is a vocabulary of pairs.
var several = grammar.NewVocabulary(pairs, nil)

// TestGenerated draws texts from masks, over single bytes and over tokens of several, and has Python's jsonschema check them all.
func TestGenerated(t *testing.T) {
	reference.Slow(t)
	python(t)
	d := drawn{options: schema.Served(true)}
	for _, text := range usual {
		d.add(t, "draft2020-12", text, reference.Repeats(0, 50, 300))
	}
	suite := readSuite(t)
	for _, draft := range []string{"draft2020-12", "draft7"} {
		for _, file := range slices.Sorted(maps.Keys(suite[draft])) {
			if strings.HasPrefix(file, "optional/") {
				continue
			}
			for _, group := range suite[draft][file] {
				d.add(t, draft, group.text(draft), reference.Repeats(0, 3, 16))
			}
		}
	}
	d.check(t, reference.Repeats(0, 1_700, 10_000))
	if d.unfinished > d.made/50 {
		t.Errorf("%d texts did not end in time, %d did", d.unfinished, d.made)
	}
}
