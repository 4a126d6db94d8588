package tag

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"weir/tokenizer/grammar"
	"weir/tokenizer/grammar/regex"
)

// maxChars bounds the characters that free text may be bounded by.
const maxChars = 1 << 24

// format adds the rules of a format by its type.
func (r *reader) format(p *part) (grammar.Symbol, error) {
	if p.depth > maxDepth {
		return 0, p.wrong("stands more than %d formats deep", maxDepth)
	}
	var kind struct {
		Type string `json:"type"`
	}
	if len(p.raw) == 0 {
		return 0, p.wrong("is missing; it must be a format")
	}
	if err := json.Unmarshal(p.raw, &kind); err != nil {
		return 0, &Error{Pointer: p.at, Reason: "no format: " + err.Error(), cause: err}
	}
	formats := r.formats()
	read, ok := formats[kind.Type]
	if !ok {
		return 0, p.wrong("the format %.60q is not served; use one of %v", kind.Type, slices.Sorted(maps.Keys(formats)))
	}
	return read(p)
}

// formats are the readers of formats by type.
func (r *reader) formats() map[string]func(p *part) (grammar.Symbol, error) {
	return map[string]func(p *part) (grammar.Symbol, error){
		"const_string": r.constString, "json_schema": r.jsonSchema, "any_text": r.anyText, "grammar": r.notation, "regex": r.pattern, "token": r.token,
		"sequence": r.sequence, "or": r.or, "tag": r.tag, "triggered_tags": r.triggeredTags, "tags_with_separator": r.tagsWithSeparator,
		"dispatch": r.dispatchFormat, "optional": r.repeat, "star": r.repeat, "plus": r.repeat, "repeat": r.repeat,
	}
}

func (r *reader) constString(p *part) (grammar.Symbol, error) {
	var f struct {
		Type  string `json:"type"`
		Value string `json:"value"`
	}
	if err := p.decode(&f); err != nil {
		return 0, err
	}
	return r.b.Define("text", r.text(f.Value)), nil
}

func (r *reader) jsonSchema(p *part) (grammar.Symbol, error) {
	var f struct {
		Type     string          `json:"type"`
		Schema   json.RawMessage `json:"json_schema"`
		Style    string          `json:"style"`
		AnyOrder *bool           `json:"any_order"`
		Blanks   *int            `json:"max_whitespace_cnt"`
		Excludes []string        `json:"excludes"`
	}
	if err := p.decode(&f); err != nil {
		return 0, err
	}
	o := r.o.Schema
	if f.AnyOrder != nil {
		o.AnyOrder = *f.AnyOrder
	}
	switch {
	case f.Style != "" && f.Style != "json":
		return 0, p.wrong("the style %.60q is not served; values are written as JSON", f.Style)
	case len(f.Excludes) > 0:
		return 0, p.wrong("excludes is not served inside of JSON; use patterns in the schema")
	case f.Blanks != nil && (*f.Blanks < 0 || *f.Blanks > 1000):
		return 0, p.wrong("max_whitespace_cnt is %d; it must be from 0 to 1000", *f.Blanks)
	case f.Blanks != nil && *f.Blanks == 0:
		o.Compact = true
	case f.Blanks != nil:
		o.Whitespace = fmt.Sprintf(`[ \n\r\t]{0,%d}`, *f.Blanks)
	}
	return r.schema(p.inside("json_schema", f.Schema, nil), o)
}

func (r *reader) anyText(p *part) (grammar.Symbol, error) {
	var f struct {
		Type      string   `json:"type"`
		Excludes  []string `json:"excludes"`
		MaxTokens *int     `json:"max_tokens"`
		MaxChars  *int     `json:"max_chars"`
	}
	if err := p.decode(&f); err != nil {
		return 0, err
	}
	switch {
	case f.MaxTokens != nil:
		return 0, p.wrong("max_tokens is not served; use max_chars")
	case f.MaxChars == nil:
		return r.free(p, f.Excludes...)
	case *f.MaxChars < 0 || *f.MaxChars > maxChars:
		return 0, p.wrong("max_chars is %d; it must be from 0 to %d", *f.MaxChars, maxChars)
	}
	if _, err := r.free(p, f.Excludes...); err != nil {
		return 0, err
	}
	return r.b.Regex(regex.And(regex.Without(slices.Concat(f.Excludes, p.stops)...), regex.Repeat(regex.AnyRune(), 0, *f.MaxChars))), nil
}

func (r *reader) notation(p *part) (grammar.Symbol, error) {
	var f struct {
		Type    string `json:"type"`
		Grammar string `json:"grammar"`
	}
	if err := p.decode(&f); err != nil {
		return 0, err
	}
	return r.grammar(p.inside("grammar", nil, nil), f.Grammar)
}

func (r *reader) pattern(p *part) (grammar.Symbol, error) {
	var f struct {
		Type     string   `json:"type"`
		Pattern  string   `json:"pattern"`
		Excludes []string `json:"excludes"`
	}
	if err := p.decode(&f); err != nil {
		return 0, err
	}
	e, err := regex.Parse(f.Pattern, regex.RE2)
	if err != nil {
		return 0, &Error{Pointer: p.at + "/pattern", Reason: err.Error(), cause: err}
	}
	if len(f.Excludes) > 0 {
		if _, err := r.free(p, f.Excludes...); err != nil {
			return 0, err
		}
		e = regex.And(e, regex.Without(f.Excludes...))
	}
	return r.b.Regex(e), nil
}

func (r *reader) token(p *part) (grammar.Symbol, error) {
	var f struct {
		Type  string          `json:"type"`
		Token json.RawMessage `json:"token"`
	}
	if err := p.decode(&f); err != nil {
		return 0, err
	}
	var text string
	if json.Unmarshal(f.Token, &text) == nil {
		return r.b.Token(text), nil
	}
	id, err := strconv.ParseInt(string(f.Token), 10, 32)
	if err != nil || id < 0 {
		return 0, p.wrong("token must be a control token's text, or the id of a token")
	}
	return r.b.TokenID(int32(id)), nil
}

func (r *reader) sequence(p *part) (grammar.Symbol, error) {
	elements, err := r.elements(p)
	if err != nil {
		return 0, err
	}
	var list []grammar.Symbol
	for i, e := range elements {
		if i < len(elements)-1 {
			e.stops = nil
		}
		s, err := r.format(e)
		if err != nil {
			return 0, err
		}
		list = append(list, s)
	}
	return r.b.Define("sequence", list), nil
}

func (r *reader) or(p *part) (grammar.Symbol, error) {
	elements, err := r.elements(p)
	if err != nil {
		return 0, err
	}
	var alternatives [][]grammar.Symbol
	for _, e := range elements {
		s, err := r.format(e)
		if err != nil {
			return 0, err
		}
		alternatives = append(alternatives, []grammar.Symbol{s})
	}
	return r.b.Define("or", alternatives...), nil
}

func (r *reader) elements(p *part) ([]*part, error) {
	var f struct {
		Type     string            `json:"type"`
		Elements []json.RawMessage `json:"elements"`
	}
	if err := p.decode(&f); err != nil {
		return nil, err
	}
	if len(f.Elements) == 0 {
		return nil, p.wrong("needs at least one element")
	}
	list := make([]*part, len(f.Elements))
	for i, raw := range f.Elements {
		list[i] = p.inside("elements/"+strconv.Itoa(i), raw, p.stops)
	}
	return list, nil
}

// repeat is optional, star, plus and repeat.
func (r *reader) repeat(p *part) (grammar.Symbol, error) {
	var f struct {
		Type    string          `json:"type"`
		Min     *int            `json:"min"`
		Max     *int            `json:"max"`
		Content json.RawMessage `json:"content"`
	}
	if err := p.decode(&f); err != nil {
		return 0, err
	}
	bounds := map[string][2]int{"optional": {0, 1}, "star": {0, -1}, "plus": {1, -1}}
	least, most := bounds[f.Type][0], bounds[f.Type][1]
	switch counted := f.Type == "repeat"; {
	case counted && (f.Min == nil || f.Max == nil || *f.Min < 0 || *f.Max < -1 || *f.Max >= 0 && *f.Max < *f.Min):
		return 0, p.wrong("needs min and max: counts, max no less than min, or -1 for no bound")
	case counted:
		least, most = *f.Min, *f.Max
	case f.Min != nil || f.Max != nil:
		return 0, p.wrong("min and max are of the format repeat")
	}
	content, err := r.format(p.inside("content", f.Content, p.stops))
	if err != nil {
		return 0, err
	}
	return r.b.Repeat(content, least, most), nil
}

// marked is a tag: its marker in front, content, and its marker behind.
type marked struct {
	Type    string          `json:"type"`
	Begin   json.RawMessage `json:"begin"`
	Content json.RawMessage `json:"content"`
	End     json.RawMessage `json:"end"`
}

func (r *reader) tag(p *part) (grammar.Symbol, error) {
	s, _, err := r.marked(p)
	return s, err
}

// marked reads a tag; begin is the text of its marker, "" where that is a token.
func (r *reader) marked(p *part) (s grammar.Symbol, begin string, err error) {
	var f marked
	if err := p.decode(&f); err != nil {
		return 0, "", err
	}
	if f.Type != "tag" && f.Type != "" {
		return 0, "", p.wrong("%.60q is no tag", f.Type)
	}
	front, begins, err := r.markers(p.inside("begin", f.Begin, nil))
	if err != nil {
		return 0, "", err
	}
	behind, ends, err := r.markers(p.inside("end", f.End, nil))
	if err != nil {
		return 0, "", err
	}
	content, err := r.format(p.inside("content", f.Content, slices.DeleteFunc(ends, func(e string) bool { return e == "" })))
	if err != nil {
		return 0, "", err
	}
	if len(begins) > 1 {
		return 0, "", p.wrong("begin must be one text")
	}
	if len(begins) == 1 {
		begin = begins[0]
	}
	return r.b.Define("tag", []grammar.Symbol{front, content, behind}), begin, nil
}

// markers reads a marker: a text, several of which one stands there, or a token.
func (r *reader) markers(p *part) (s grammar.Symbol, texts []string, err error) {
	if len(p.raw) > 0 && p.raw[0] == '{' {
		s, err := r.token(p)
		return s, nil, err
	}
	var one string
	if json.Unmarshal(p.raw, &one) == nil {
		texts = []string{one}
	} else if err := p.decode(&texts); err != nil || len(texts) == 0 {
		return 0, nil, p.wrong("must be a text, a list of texts, or a token")
	}
	var alternatives [][]grammar.Symbol
	for _, t := range texts {
		alternatives = append(alternatives, r.text(t))
	}
	return r.b.Define("marker", alternatives...), texts, nil
}

func (r *reader) triggeredTags(p *part) (grammar.Symbol, error) {
	var f struct {
		Type     string            `json:"type"`
		Triggers []string          `json:"triggers"`
		Tags     []json.RawMessage `json:"tags"`
		First    bool              `json:"at_least_one"`
		Once     bool              `json:"stop_after_first"`
		Excludes []string          `json:"excludes"`
	}
	if err := p.decode(&f); err != nil {
		return 0, err
	}
	d := dispatch{triggers: f.Triggers, excludes: f.Excludes, first: f.First, once: f.Once}
	for i, raw := range f.Tags {
		t := p.inside("tags/"+strconv.Itoa(i), raw, nil)
		s, begin, err := r.marked(t)
		if err != nil {
			return 0, err
		}
		if err := d.add(t, begin, s); err != nil {
			return 0, err
		}
	}
	return r.dispatch(p, &d)
}

func (r *reader) tagsWithSeparator(p *part) (grammar.Symbol, error) {
	var f struct {
		Type      string            `json:"type"`
		Tags      []json.RawMessage `json:"tags"`
		Separator string            `json:"separator"`
		First     bool              `json:"at_least_one"`
		Once      bool              `json:"stop_after_first"`
	}
	if err := p.decode(&f); err != nil {
		return 0, err
	}
	if len(f.Tags) == 0 {
		return 0, p.wrong("needs at least one tag")
	}
	one := r.b.Rule("tag")
	for i, raw := range f.Tags {
		s, err := r.tag(p.inside("tags/"+strconv.Itoa(i), raw, nil))
		if err != nil {
			return 0, err
		}
		r.b.Add(one, []grammar.Symbol{s})
	}
	list := []grammar.Symbol{one}
	if !f.Once {
		next := r.b.Define("further tag", append(r.text(f.Separator), one))
		list = append(list, r.b.Repeat(next, 0, -1))
	}
	if f.First {
		return r.b.Define("tags", list), nil
	}
	return r.b.Define("tags", nil, list), nil
}

// dispatchFormat is free text with formats that follow certain texts.
func (r *reader) dispatchFormat(p *part) (grammar.Symbol, error) {
	f := struct {
		Type     string               `json:"type"`
		Rules    [][2]json.RawMessage `json:"rules"`
		Loop     *bool                `json:"loop"`
		Excludes []string             `json:"excludes"`
	}{}
	if err := p.decode(&f); err != nil {
		return 0, err
	}
	d := dispatch{excludes: f.Excludes, once: f.Loop != nil && !*f.Loop}
	for i, rule := range f.Rules {
		t := p.inside("rules/"+strconv.Itoa(i), rule[1], nil)
		var begin string
		if err := json.Unmarshal(rule[0], &begin); err != nil {
			return 0, t.wrong("a rule is a list of a text and a format")
		}
		content, err := r.format(t)
		if err != nil {
			return 0, err
		}
		d.triggers = append(d.triggers, begin)
		if err := d.add(t, begin, r.b.Define("rule", append(r.text(begin), content))); err != nil {
			return 0, err
		}
	}
	return r.dispatch(p, &d)
}
