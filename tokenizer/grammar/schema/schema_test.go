package schema_test

import (
	"errors"
	"strings"
	"testing"

	"weir/tokenizer/grammar"
	"weir/tokenizer/grammar/regex"
	"weir/tokenizer/grammar/schema"
)

// TestTexts says of whole texts whether a schema's grammar lets them through.
func TestTexts(t *testing.T) {
	for _, c := range []struct {
		name, schema string
		options      schema.Options
		good, bad    []string
	}{
		{name: "maxLength 1 takes a character beyond U+FFFF, raw and escaped", schema: `{"type":"string","maxLength":1}`,
			good: []string{`"😀"`, `"\ud83d\ude00"`, `"\uD83D\uDE00"`, `""`, `"\n"`, `"\u000a"`, `"\/"`},
			bad:  []string{`"😀a"`, `"\ud83d"`, `"\ude00"`, `"\ud83da"`, "\"\n\"", "\"\x01\"", `"\x"`, `"\u12"`, "\"\xff\"", "\"\xed\xa0\x80\""}},
		{name: "optional properties in any subset, in order", schema: `{"properties":{"a":{"type":"integer"},"b":{"type":"integer"},"c":{"type":"integer"}},
			"required":["b"],"additionalProperties":false,"type":"object"}`,
			good: []string{`{"b":1}`, `{"a":1,"b":2}`, `{"b":1,"c":2}`, `{"a":1,"b":2,"c":3}`, `{"a": 1, "b": 2}`, "{\n  \"b\": 1\n}"},
			bad: []string{`{}`, `{"a":1}`, `{"b":1,"a":2}`, `{"b":1,}`, `{,"b":1}`, `{"b":1 "c":2}`, `{"b":1,"b":2}`, ` {"b":1}`, `{"b":1} `,
				`{"b":  1}`, "{\n\n\n\"b\":1}", `{"b":1.0}`, `{"b":01}`, `{"b":-0}`}},
		{name: "compact", schema: `{"properties":{"a":{"type":"array","items":{"type":"null"}}},"type":"object","additionalProperties":false}`,
			options: schema.Options{Compact: true},
			good:    []string{`{}`, `{"a":[]}`, `{"a":[null,null]}`}, bad: []string{`{ }`, `{"a": []}`, `{"a":[null, null]}`}},
		{name: "a whitespace pattern", schema: `{"const":{"a":[1,2]}}`, options: schema.Options{Whitespace: `[\t]?`},
			good: []string{`{"a":[1,2]}`, "{\t\"a\":\t[1,\t2\t]}"}, bad: []string{`{"a": [1,2]}`}},
		{name: "names that are listed are no others, however they are written",
			schema: `{"properties":{"a":{"type":"integer"}},"type":"object"}`,
			good:   []string{`{"a":1,"b":"x"}`, `{"b":"x"}`}, bad: []string{`{"a":"x"}`, `{"\u0061":"x"}`, `{"b":1,"a":"x"}`}},
		{name: "json_object is an object", schema: `{"type":"object"}`,
			good: []string{`{}`, `{"a":{"b":[1,"x",null,true,1.5e3]}}`}, bad: []string{`[]`, `1`, `null`, `"a"`, `{"a":1}x`}},
		{name: "numbers", schema: `{"type":"number","minimum":-1.5,"exclusiveMaximum":2.25}`,
			good: []string{"0", "-1.5", "-1.49", "2.2499", "1", "-0.001", "2.0"}, bad: []string{"2.25", "-1.51", "2.3", "3", "-2", "1e0", "01", "."}},
		{name: "whole numbers", schema: `{"type":"integer","minimum":-12,"maximum":345}`,
			good: []string{"0", "-12", "-1", "345", "99", "100", "300"}, bad: []string{"346", "-13", "1000", "1.0", "-0", "007"}},
		{name: "multiples", schema: `{"type":"number","multipleOf":0.25,"minimum":0}`,
			good: []string{"0", "0.25", "0.5", "17.75", "3", "2.0"}, bad: []string{"0.3", "0.26", "-1", "1e0", "0.125"}},
		{name: "large multiples", schema: `{"type":"integer","multipleOf":300}`, good: []string{"0", "300", "-1200"}, bad: []string{"30", "400", "301"}},
		{name: "nullable", schema: `{"type":"string","nullable":true,"maxLength":2}`, good: []string{`null`, `"ab"`}, bad: []string{`"abc"`, `1`}},
		{name: "a oneOf by a const", schema: `{"oneOf":[{"properties":{"k":{"const":"a"},"x":{"type":"integer"}},"required":["k","x"]},
			{"properties":{"k":{"const":"b"}},"required":["k"]}],"type":"object"}`,
			good: []string{`{"k":"a","x":1}`, `{"k":"b"}`, `{"k":"b","x":"s"}`}, bad: []string{`{"k":"a"}`, `{"k":"a","x":"s"}`, `{"k":"c"}`}},
		{name: "a oneOf whose schemas overlap", schema: `{"oneOf":[{"type":"integer","maximum":10},{"type":"integer","minimum":5}]}`,
			good: []string{"4", "11", "-3"}, bad: []string{"5", "10", "7"}},
		{name: "a oneOf of closed objects whose properties may all be missing", schema: `{"oneOf":[
			{"type":"object","properties":{"a":{"type":"string"},"c":{"type":"null"}},"additionalProperties":false},
			{"type":"object","properties":{"b":{"type":"string"},"c":{"type":"null"}},"additionalProperties":false}]}`,
			good: []string{`{"a":"x"}`, `{"b":"x","c":null}`}, bad: []string{`{}`, `{"c":null}`, `{"a":"x","b":"y"}`, `{"a":1}`}},
		{name: "not a closed object", schema: `{"properties":{"a":{"type":"integer"},"b":{"type":"integer"},"c":{"type":"integer"}},"type":"object",
			"additionalProperties":false,"not":{"properties":{"a":true},"additionalProperties":false}}`,
			good: []string{`{"b":1}`, `{"a":1,"c":1}`, `{"a":1,"b":1,"c":1}`, `{"b":1,"c":1}`}, bad: []string{`{}`, `{"a":1}`}},
		{name: "a base's properties come first where it stands first", schema: `{"allOf":[{"properties":{"a":{"const":1}}}],
			"properties":{"b":{"const":2}},"type":"object","required":["a","b"]}`, good: []string{`{"a":1,"b":2}`}, bad: []string{`{"b":2,"a":1}`}},
		{name: "and behind where it stands behind", schema: `{"properties":{"b":{"const":2}},"type":"object","required":["a","b"],
			"anyOf":[{"properties":{"a":{"const":1}}}]}`, good: []string{`{"b":2,"a":1}`}, bad: []string{`{"a":1,"b":2}`}},
		{name: "a choice in front of the properties comes first", schema: `{"anyOf":[{"properties":{"a":{"const":1}}},{"properties":{"a":{"const":3}}}],
			"properties":{"b":{"const":2}},"type":"object","required":["a","b"]}`, good: []string{`{"a":1,"b":2}`, `{"a":3,"b":2}`}, bad: []string{`{"b":2,"a":1}`}},
		{name: "whole numbers of 18 digits", schema: `{"type":"integer"}`,
			good: []string{"234567890123456789", "-999999999999999999"}, bad: []string{"1234567890123456789"}},
		{name: "items that differ", schema: `{"type":"array","items":{"enum":["a","b",1,1.0]},"uniqueItems":true,"minItems":1}`,
			good: []string{`["a"]`, `["b", "a"]`, `[1,"a","b"]`}, bad: []string{`[]`, `["a","a"]`, `[1,1]`, `["a","b","a"]`, `["c"]`}},
		{name: "two of the items that differ", schema: `{"items":{"enum":[null,[1],{"a":2}]},"type":"array","uniqueItems":true,"maxItems":2}`,
			good: []string{`[]`, `[null]`, `[[1], {"a": 2}]`}, bad: []string{`[null,null]`, `[[1],[1]]`, `[null,[1],{"a":2}]`}},
		{name: "a reference to itself", schema: `{"type":"object","properties":{"next":{"$ref":"#"}},"additionalProperties":false}`,
			good: []string{`{}`, `{"next":{"next":{}}}`}, bad: []string{`{"next":1}`, `{"next":{"next":[]}}`}},
		{name: "a pattern in JavaScript's sense", schema: `{"type":"string","pattern":"^\\d{3}\"?$"}`,
			good: []string{`"123"`, `"123\""`}, bad: []string{`"12"`, `"1234"`, `"123""`, `"١٢٣"`}},
		{name: "constants are held against all else", schema: `{"enum":[1,"a","abc",null,[1]],"not":{"type":"array"},"maxLength":2}`,
			good: []string{`1`, `"a"`, `null`}, bad: []string{`"abc"`, `[1]`}},
		{name: "counts of properties", schema: `{"type":"object","properties":{"a":{"const":1},"b":{"const":2},"c":{"const":3}},
			"additionalProperties":false,"minProperties":1,"maxProperties":2}`,
			good: []string{`{"a":1}`, `{"c":3}`, `{"a":1,"c":3}`, `{"b":2,"c":3}`}, bad: []string{`{}`, `{"a":1,"b":2,"c":3}`}},
		{name: "closed: the members of an allOf together", options: schema.Served(true),
			schema: `{"allOf":[{"type":"object","properties":{"a":{"const":1}},"required":["a"]},
				{"type":"object","properties":{"b":{"const":2}},"required":["b"]}]}`,
			good: []string{`{"a":1,"b":2}`}, bad: []string{`{"a":1,"b":2,"c":3}`, `{"a":1}`}},
		{name: "closed: a reference and what stands beside it", options: schema.Served(true),
			schema: `{"$ref":"#/$defs/base","properties":{"b":{"const":2}},"$defs":{"base":{"type":"object","properties":{"a":{"const":1}},
				"required":["a"]}}}`,
			good: []string{`{"a":1}`, `{"a":1,"b":2}`}, bad: []string{`{"a":1,"c":2}`, `{"b":2}`}},
		{name: "closed: a condition", options: schema.Served(true),
			schema: `{"type":"object","properties":{"k":{"enum":["x","y"]},"n":{"type":"integer"}},"required":["k"],
				"if":{"properties":{"k":{"const":"x"}}},"then":{"required":["n"]},"else":{"properties":{"m":{"const":1}}}}`,
			good: []string{`{"k":"x","n":1}`, `{"k":"y"}`, `{"k":"y","n":2,"m":1}`}, bad: []string{`{"k":"x"}`, `{"k":"x","n":1,"m":1}`, `{"k":"y","z":1}`}},
		{name: "closed: a condition that asks for nothing", options: schema.Served(true),
			schema: `{"type":"object","properties":{"a":{"const":1},"b":{"const":2}},"if":{"required":["a"]},"then":{}}`,
			good:   []string{`{}`, `{"a":1}`, `{"b":2}`, `{"a":1,"b":2}`}, bad: []string{`{"c":1}`}},
		{name: "closed: a contrary", options: schema.Served(true),
			schema: `{"type":"object","properties":{"a":{"const":1},"b":{"const":2},"c":{"const":3}},"not":{"required":["a","b"]}}`,
			good:   []string{`{}`, `{"a":1}`, `{"b":2,"c":3}`}, bad: []string{`{"a":1,"b":2}`, `{"d":1}`}},
		{name: "a contrary alone closes nothing", options: schema.Served(true), schema: `{"type":"object","not":{"required":["a"]}}`,
			good: []string{`{}`, `{"b":1}`}, bad: []string{`{"a":1}`}},
		{name: "a condition alone closes nothing", options: schema.Served(true),
			schema: `{"type":"object","if":{"properties":{"a":{"const":1}},"required":["a"]},"then":{"not":{"required":["b"]}}}`,
			good:   []string{`{}`, `{"a":1}`, `{"a":1,"c":1}`, `{"b":1}`}, bad: []string{`{"a":1,"b":1}`}},
		{name: "closed: a base's properties are known in every branch of an anyOf", options: schema.Served(true),
			schema: `{"type":"object","properties":{"id":{"const":0}},"required":["id"],"anyOf":[{"properties":{"a":{"const":1}},"required":["a"]},
				{"properties":{"b":{"const":2}},"required":["b"]}]}`,
			good: []string{`{"id":0,"a":1}`, `{"id":0,"b":2}`}, bad: []string{`{"id":0}`, `{"id":0,"c":1}`, `{"a":1}`}},
		{name: "closed: branches of a oneOf that overlap", options: schema.Served(true),
			schema: `{"type":"object","properties":{"id":{"const":0}},"oneOf":[{"required":["a"],"properties":{"a":{"const":1}}},
				{"required":["b"],"properties":{"b":{"const":2}}}]}`,
			good: []string{`{"id":0,"a":1}`, `{"id":0,"b":2}`, `{"b":2}`}, bad: []string{`{"id":0}`, `{"id":0,"a":1,"b":2}`, `{"a":1,"c":1}`}},
		{name: "closed: dependent schemas", options: schema.Served(true),
			schema: `{"type":"object","properties":{"card":{"const":1}},"dependentSchemas":{"card":{"properties":{"address":{"const":2}},
				"required":["address"]}},"dependentRequired":{"card":["name"]}}`,
			good: []string{`{}`, `{"card":1,"address":2,"name":"x"}`}, bad: []string{`{"card":1}`, `{"address":2}`, `{"card":1,"address":2}`}},
		{name: "closed: unevaluatedProperties", options: schema.Served(true),
			schema: `{"allOf":[{"properties":{"a":{"const":1}},"required":["a"]}],"properties":{"b":{"const":2}},"type":"object",
				"unevaluatedProperties":{"type":"null"}}`,
			good: []string{`{"a":1}`, `{"a":1,"b":2}`, `{"a":1,"c":null}`}, bad: []string{`{"a":1,"c":3}`, `{"b":2}`}},
		{name: "closed: a member that speaks of others speaks for all", options: schema.Served(true),
			schema: `{"allOf":[{"properties":{"a":{"const":1}},"additionalProperties":{"type":"integer"}},{"properties":{"b":{"minimum":2}},"required":["b"]}],
				"type":"object"}`,
			good: []string{`{"b":2}`, `{"a":1,"b":2,"c":3}`}, bad: []string{`{"b":2.5}`, `{"b":2,"c":"x"}`}},
		{name: "closed: names of patterns", options: schema.Served(true),
			schema: `{"allOf":[{"properties":{"a":{"const":1}}},{"patternProperties":{"^x-":{"type":"null"}}}],"type":"object"}`,
			good:   []string{`{"a":1}`, `{"x-b":null}`, `{"a":1,"x-c":null}`}, bad: []string{`{"b":1}`, `{"x-c":1}`}},
		{name: "closed: names that are required and not described", options: schema.Served(true),
			schema: `{"type":"object","properties":{"a":{"const":1}},"required":["a","b"]}`,
			good:   []string{`{"a":1,"b":[]}`}, bad: []string{`{"a":1}`, `{"a":1,"b":2,"c":3}`}},
		{name: "constants are not held to what objects say nothing of", options: schema.Served(true),
			schema: `{"enum":[{"a":1,"b":2},{"a":2}],"properties":{"a":{"const":1}}}`, good: []string{`{"a":1,"b":2}`}, bad: []string{`{"a":2}`}},
		{name: "a format that JSON Schema does not define says nothing", schema: `{"type":"string","format":"color"}`, good: []string{`"red"`}},
		{name: "regular expressions", schema: `{"type":"string","format":"regex"}`, good: []string{`"^ab*(c|d)+\\d$"`, `""`, `"a+?(b|c)*?d??"`, `"[^abc]x?"`},
			bad: []string{`"("`, `"*a"`, `"a**"`, `"[a"`, `"a)"`, `"\\"`}},
		{name: "a draft by the end of its address", schema: `{"$schema":"http://json-schema-org/draft-07/schema#","$ref":"#/definitions/a","type":"null",
			"definitions":{"a":{"const":1}}}`, good: []string{`1`}, bad: []string{`null`}},
		{name: "documents that are given", schema: `{"$id":"https://example.com/a/main.json","properties":{"p":{"$ref":"point.json"},
			"q":{"$ref":"https://example.com/a/point.json#/$defs/x"},"r":{"$ref":"../b.json#here"}},"type":"object","required":["p"]}`,
			options: schema.Options{Closed: true, Documents: []byte(`{"https://example.com/a/point.json":{"type":"object","properties":{"x":{"$ref":"#/$defs/x"}},
				"required":["x"],"$defs":{"x":{"type":"integer","maximum":9}}},
				"https://example.com/b.json#":{"$defs":{"h":{"$anchor":"here","items":{"$ref":"a/main.json"},"type":"array"}}}}`)},
			good: []string{`{"p":{"x":1}}`, `{"p":{"x":1},"q":2}`, `{"p":{"x":1},"r":[{"p":{"x":3}}]}`},
			bad:  []string{`{"p":1}`, `{"p":{"x":10}}`, `{"p":{"x":1},"q":"a"}`, `{"p":{"x":1},"r":[1]}`}},
		{name: "texts that differ", schema: `{"type":"array","items":{"type":"string"},"uniqueItems":true,"maxItems":3}`,
			good: []string{`[]`, `["a"]`, `["a","b"]`, `["a", "ab", "b"]`, `["", "\\\\"]`, "[\n  \"a\",\n  \"b\"]", `["a","]","a]"]`, `["a,","a"]`},
			bad:  []string{`["a","a"]`, `["a", "b", "a"]`, `["", ""]`, `["a","b","c","d"]`, `["a","\u0061"]`, `["a",]`, `["ab","a","ab"]`}},
		{name: "whole numbers that differ", schema: `{"type":"array","items":{"type":"integer","minimum":-1,"maximum":12},"uniqueItems":true}`,
			good: []string{`[1,12]`, `[1, 10, 2]`, `[0,-1]`, `[12,1]`, `[-1,0,1,2,3,4,5,6,7,8,9,10,11,12]`}, bad: []string{`[1,1]`, `[12, 1, 12]`, `[0,0]`, `[1,2,1 ]`}},
		{name: "numbers that differ have one spelling", schema: `{"type":"array","items":{"type":"number"},"uniqueItems":true}`,
			good: []string{`[1,1.5]`, `[10, 1]`, `[0.1,0.01]`}, bad: []string{`[1,1.0]`, `[1.5,1.5]`, `[0,-0]`, `[1e1]`}},
		{name: "scalars of all kinds that differ, in two lists", options: schema.Served(true),
			schema: `{"type":"object","properties":{"a":{"$ref":"#/$defs/l"},"b":{"$ref":"#/$defs/l"}},
				"$defs":{"l":{"type":"array","items":{"type":["string","boolean","null","integer"]},"uniqueItems":true}}}`,
			good: []string{`{"a":["x",true,null,1],"b":["x",1]}`, `{"a":[true,false,"true"]}`},
			bad:  []string{`{"a":[true,true]}`, `{"a":["x"],"b":["x","x"]}`, `{"a":[null,1,null]}`}},
		{name: "ten constants that differ", schema: `{"type":"array","items":{"enum":["a","b","c","d","e","f","g","h","aa","ab"]},"uniqueItems":true,"minItems":9}`,
			good: []string{`["a","b","c","d","e","f","g","h","aa","ab"]`, `["ab","aa","a","b","c","d","e","f","g"]`},
			bad:  []string{`["a","b","c","d","e","f","g","h","aa","a"]`, `["a"]`, `["aa","aa","b","c","d","e","f","g","h"]`}},
		{name: "lists of lists whose items differ", schema: `{"type":"array","items":{"type":"array","items":{"type":"string","maxLength":1},"uniqueItems":true}}`,
			good: []string{`[["a","b"],["a"]]`, `[[],["a"],["a"]]`}, bad: []string{`[["a","a"]]`, `[["b"],["a","a"]]`}},
		{name: "names by pattern", schema: `{"type":"object","patternProperties":{"^n":{"type":"integer"},"x$":{"minimum":5}},
			"additionalProperties":{"type":"boolean"}}`,
			good: []string{`{"n":1}`, `{"nx":5}`, `{"x":5,"a":true}`, `{"x":"s"}`}, bad: []string{`{"n":"a"}`, `{"nx":4}`, `{"a":1}`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.options.Strict = true
			g, _, err := compile(c.schema, c.options)
			if err != nil {
				t.Fatal(err)
			}
			for _, text := range c.good {
				if !accepts(t, g, text) {
					t.Errorf("%s is refused", text)
				}
			}
			for _, text := range c.bad {
				if accepts(t, g, text) {
					t.Errorf("%s is let through", text)
				}
			}
		})
	}
}

// TestRefusals wants errors by place and keyword.
func TestRefusals(t *testing.T) {
	deep := strings.Repeat(`{"items":`, 1_000) + "true" + strings.Repeat("}", 1_000)
	for _, c := range []struct {
		name, schema, pointer, keyword, reason string
		options                                schema.Options
	}{
		{name: "more texts that differ than are kept", schema: `{"type":"array","items":{"type":"string"},"uniqueItems":true,"minItems":1001}`,
			pointer: "/uniqueItems", keyword: "uniqueItems", reason: "1000 at most"},
		{name: "unique items", schema: `{"properties":{"a":{"type":"array","uniqueItems":true}}}`, pointer: "/properties/a/uniqueItems", keyword: "uniqueItems"},
		{name: "contains", schema: `{"contains":{"type":"string"}}`, pointer: "/contains", keyword: "contains"},
		{name: "a format that is not enforced", schema: `{"type":"string","format":"idn-email"}`, pointer: "/format", keyword: "format",
			reason: `"idn-email"`},
		{name: "an address of no draft", schema: `{"$schema":"https://example.com/schema","type":"string"}`, pointer: "/$schema", keyword: "$schema"},
		{name: "a pattern that is none", schema: `{"type":"string","pattern":"("}`, pointer: "/pattern", keyword: "pattern"},
		{name: "a pattern with a lookahead", schema: `{"type":"string","pattern":"(?=a)"}`, pointer: "/pattern", keyword: "pattern"},
		{name: "a reference out of the document", schema: `{"$ref":"https://example.com/a.json"}`, pointer: "/$ref", keyword: "$ref", reason: "nothing is fetched"},
		{name: "a fault in a document that was given", schema: `{"$ref":"https://example.com/a.json"}`, pointer: "/https:~1~1example.com~1a.json/type", keyword: "type",
			options: schema.Options{Documents: []byte(`{"https://example.com/a.json":{"type":"text"}}`)}},
		{name: "documents that are none", schema: `{}`, options: schema.Options{Documents: []byte(`[]`)}, reason: "no object of schemas"},
		{name: "documents count in the size", schema: `{}`, reason: "bytes",
			options: schema.Options{Documents: []byte(`{"a":"` + strings.Repeat("x", 1<<20) + `"}`)}},
		{name: "a reference to nothing", schema: `{"items":{"$ref":"#/$defs/a"}}`, pointer: "/items/$ref", keyword: "$ref"},
		{name: "a reference to itself in place", schema: `{"$ref":"#"}`, reason: "back to itself"},
		{name: "an anyOf of itself", schema: `{"anyOf":[{"$ref":"#"},{"type":"null"}]}`, reason: "back to itself"},
		{name: "no finite value", schema: `{"type":"object","required":["a"],"properties":{"a":{"$ref":"#"}}}`, reason: "no finite value"},
		{name: "nothing", schema: `{"type":"string","enum":[1]}`, reason: "no finite value"},
		{name: "depth", schema: deep, reason: "nested deeper"},
		{name: "size", schema: `{"description":"` + strings.Repeat("x", 1<<20) + `"}`, reason: "bytes"},
		{name: "no JSON", schema: `{"type":`, reason: "not JSON"},
		{name: "text behind", schema: `{} {}`, reason: "after its end"},
		{name: "a key twice", schema: `{"type":"string","type":"null"}`, reason: "twice"},
		{name: "a number out of reach", schema: `{"minimum":1e1000000000}`, pointer: "/minimum", reason: "too long"},
		{name: "a wrong type", schema: `{"type":"text"}`, pointer: "/type", keyword: "type"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.options.Strict = true
			_, _, err := compile(c.schema, c.options)
			var e *schema.Error
			if !errors.As(err, &e) {
				t.Fatalf("the error is %v", err)
			}
			if c.pointer != "" && e.Pointer != c.pointer || c.keyword != "" && e.Keyword != c.keyword || !strings.Contains(e.Error(), c.reason) {
				t.Errorf("%v\nwant pointer %q, keyword %q and %q", e, c.pointer, c.keyword, c.reason)
			}
		})
	}
}

// TestLenient reports what it does not enforce.
func TestLenient(t *testing.T) {
	g, report, err := compile(`{"type":"object","properties":{"a":{"type":"array","uniqueItems":true,"items":{"type":["integer","array"]}},
		"b":{"type":"string","format":"color"}},"additionalProperties":false}`, schema.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, i := range report.Ignored {
		got = append(got, i.Pointer+" "+i.Keyword)
	}
	if want := "/properties/b/format format, /properties/a/uniqueItems uniqueItems"; strings.Join(got, ", ") != want {
		t.Errorf("ignored: %s, want %s", strings.Join(got, ", "), want)
	}
	if !accepts(t, g, `{"a":[1,1],"b":"red"}`) || accepts(t, g, `{"a":["x"]}`) {
		t.Error("the rest of the schema is not enforced")
	}
	if _, _, err := compile(`{"properties":{"a":{"pattern":"["}}}`, schema.Options{}); !errors.Is(err, regex.ErrPattern) {
		t.Errorf("a pattern that is none gives %v", err)
	}
	if _, report, err := compile(`{"properties":{"a":{"pattern":"(?=a)"}}}`, schema.Options{}); err != nil || len(report.Ignored) != 1 {
		t.Errorf("a pattern that is not served: %v, ignored %v", err, report.Ignored)
	}
}

func TestAddObject(t *testing.T) {
	b := grammar.NewBuilder(grammar.Limits{})
	start, err := schema.AddObject(b, schema.Options{Closed: true})
	if err != nil {
		t.Fatal(err)
	}
	g, err := b.Compile(start)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{`{}`: true, `{"a":[{}]}`: true, `[]`: false, `""`: false, `{"a":1`: false} {
		if got := accepts(t, g, text); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}
