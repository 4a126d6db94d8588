package schema

import (
	"errors"
	"sync"

	"weir/tokenizer/grammar/regex"
)

const (
	yearPattern = `(?:\d{3}[1-9]|\d{2}[1-9]\d|\d[1-9]\d{2}|[1-9]\d{3})`
	leapPattern = `(?:\d\d(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)`
	datePattern = `(?:` + yearPattern + `-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|` +
		`02-(?:0[1-9]|1\d|2[0-8]))|` + leapPattern + `-02-29)`
	timePattern = `(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)`

	// labelPattern leaves out labels with -- as their third and fourth letter: punycode, which no expression can check, and reserved ones.
	labelPattern = `[A-Za-z0-9](?:[A-Za-z0-9-]?[A-Za-z0-9]|[A-Za-z0-9-]{2}[A-Za-z0-9]|` +
		`[A-Za-z0-9-](?:[A-Za-z0-9][A-Za-z0-9-]|-[A-Za-z0-9])[A-Za-z0-9-]{0,58}[A-Za-z0-9])?`
	hostPattern = labelPattern + `(?:\.` + labelPattern + `)*`
	atomPattern = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]"

	octetPattern = `(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)`
	ipv4Pattern  = octetPattern + `(?:\.` + octetPattern + `){3}`
	groupPattern = `[0-9A-Fa-f]{1,4}`
	lastPattern  = `(?:` + groupPattern + `:` + groupPattern + `|` + ipv4Pattern + `)`
	ipv6Pattern  = `(?:(?:` + groupPattern + `:){6}` + lastPattern +
		`|::(?:` + groupPattern + `:){5}` + lastPattern +
		`|(?:` + groupPattern + `)?::(?:` + groupPattern + `:){4}` + lastPattern +
		`|(?:(?:` + groupPattern + `:){0,1}` + groupPattern + `)?::(?:` + groupPattern + `:){3}` + lastPattern +
		`|(?:(?:` + groupPattern + `:){0,2}` + groupPattern + `)?::(?:` + groupPattern + `:){2}` + lastPattern +
		`|(?:(?:` + groupPattern + `:){0,3}` + groupPattern + `)?::` + groupPattern + `:` + lastPattern +
		`|(?:(?:` + groupPattern + `:){0,4}` + groupPattern + `)?::` + lastPattern +
		`|(?:(?:` + groupPattern + `:){0,5}` + groupPattern + `)?::` + groupPattern +
		`|(?:(?:` + groupPattern + `:){0,6}` + groupPattern + `)?::)`

	percent = `%[0-9A-Fa-f]{2}`
	wide    = `\u00A0-\uD7FF\uF900-\uFDCF\uFDF0-\uFFEF\u{10000}-\u{10FFFD}` // what an IRI has beyond a URI

	hoursPattern = `(?:\d{1,9}H(?:\d{1,9}M(?:\d{1,9}S)?)?|\d{1,9}M(?:\d{1,9}S)?|\d{1,9}S)`
	daysPattern  = `(?:\d{1,9}Y(?:\d{1,9}M(?:\d{1,9}D)?)?|\d{1,9}M(?:\d{1,9}D)?|\d{1,9}D)`

	stepsPattern = `(?:/(?:[^~/]|~[01])*)*`
	// sequencePattern leaves out of regular expressions what dialects differ in, counts, and groups in groups.
	literalPattern  = `(?:[^\\^$.*+?()\[\]{}|\u0000-\u001f\u007f-\u{10ffff}]|\\[dDwWsS\\^$.*+?()\[\]{}|/]|\.|\[\^?[A-Za-z0-9_ ]+\])`
	itemPattern     = literalPattern + `(?:[*+?]\??)?`
	groupsPattern   = `\((?:\?:)?(?:` + itemPattern + `)*(?:\|(?:` + itemPattern + `)*)*\)(?:[*+?]\??)?`
	sequencePattern = `\^?(?:` + itemPattern + `|` + groupsPattern + `)*\$?`
	variable        = `(?:[A-Za-z0-9_]|` + percent + `)(?:\.?(?:[A-Za-z0-9_]|` + percent + `))*(?:\*|:[1-9]\d{0,2})?` // a prefix may have four digits, and libraries differ there
)

// addressPattern is a URI, or an IRI with the characters that it has more; relative ones may lack a scheme.
func addressPattern(more string, relative bool) string {
	char := `(?:[A-Za-z0-9._~!$&'()*+,;=:@` + more + `-]|` + percent + `)`
	noColon := `(?:[A-Za-z0-9._~!$&'()*+,;=@` + more + `-]|` + percent + `)`
	authority := `(?:(?:[A-Za-z0-9._~!$&'()*+,;=:` + more + `-]|` + percent + `)*@)?` +
		`(?:\[` + ipv6Pattern + `\]|(?:[A-Za-z0-9._~!$&'()*+,;=` + more + `-]|` + percent + `)*)(?::\d{0,5})?`
	path := `(?:/` + char + `*)*`
	tail := `(?:\?(?:` + char + `|[/?])*)?(?:#(?:` + char + `|[/?])*)?`
	rooted := `//` + authority + path + `|/(?:` + char + `+` + path + `)?`
	full := `[A-Za-z][A-Za-z0-9+.-]*:(?:` + rooted + `|` + char + `+` + path + `|)` + tail
	if relative {
		return `^(?:` + full + `|(?:` + rooted + `|` + noColon + `+` + path + `|)` + tail + `)$`
	}
	return `^` + full + `$`
}

// formats are the patterns of the formats of strings that are enforced. All patterns of one hold.
var formats = map[string][]string{
	"date":      {`^` + datePattern + `$`},
	"time":      {`^` + timePattern + `$`},
	"date-time": {`^` + datePattern + `T` + timePattern + `$`},
	"duration":  {`^P(?:\d{1,9}W|` + daysPattern + `(?:T` + hoursPattern + `)?|T` + hoursPattern + `)$`},
	"email": {`^` + atomPattern + `+(?:\.` + atomPattern + `+)*@` + labelPattern + `(?:\.` + labelPattern + `)+$`,
		`^[^@]{1,64}@.{1,253}$`},
	"hostname": {`^` + hostPattern + `$`, `^.{1,253}$`},
	"ipv4":     {`^` + ipv4Pattern + `$`},
	"ipv6":     {`^` + ipv6Pattern + `$`},
	"uuid":     {`^[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$`},

	"uri":           {addressPattern("", false)},
	"uri-reference": {addressPattern("", true)},
	"iri":           {addressPattern(wide, false)},
	"iri-reference": {addressPattern(wide, true)},
	"uri-template":  {`^(?:[!#$&-;=?-[\]_a-z~` + wide + `]|` + percent + `|\{[+#./;?&]?` + variable + `(?:,` + variable + `)*\})*$`},

	"json-pointer":          {`^` + stepsPattern + `$`},
	"relative-json-pointer": {`^(?:0|[1-9]\d{0,8})(?:#|` + stepsPattern + `)$`},
	"regex":                 {`^` + sequencePattern + `$`},
	"byte":                  {`^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$`},
}

// unenforced are the formats of JSON Schema that no expression can check.
var unenforced = map[string]bool{"idn-email": true, "idn-hostname": true}

// remarks are formats that say nothing of the text.
var remarks = map[string]bool{"password": true, "binary": true, "float": true, "double": true, "decimal": true, "": true, "textarea": true,
	"markdown": true, "multiline": true, "string": true, "text": true}

// compiledFormats are read once for the process: they are long, and often used.
var compiledFormats sync.Map // of name to *pattern

// format is the pattern of a schema's format, nil where it says nothing of strings.
func (rd *reader) format(s *value) (*pattern, error) {
	v := rd.doc.keyword(s, "format")
	if v == nil || rd.loose {
		return nil, nil
	}
	if v.kind != text {
		return nil, wrong(s, "format", "needs a string")
	}
	if _, ok := numberFormats[v.text]; ok || remarks[v.text] {
		return nil, nil
	}
	f, ok := formats[v.text]
	switch {
	case !ok && unenforced[v.text]:
		return nil, rd.refuse(s, "format", "the format %.80q is not enforced; use pattern, or leave it out", v.text)
	case !ok:
		rd.unknownFormat(s, v.text)
		return nil, nil
	}
	if p, ok := compiledFormats.Load(v.text); ok {
		return p.(*pattern), nil
	}
	p, err := parseFormat(f)
	if err != nil {
		return nil, wrong(s, "format", "%v", err)
	}
	compiledFormats.Store(v.text, p)
	return p, nil
}

// unknownFormat notes a format that JSON Schema does not define. It asserts nothing, so a strict schema may have it, too; but its author means
// something by it.
func (rd *reader) unknownFormat(s *value, name string) {
	if e, ok := errors.AsType[*Error](wrong(s, "format", "the format %.80q is none of JSON Schema and says nothing; use pattern", name)); ok {
		rd.ignore(e)
	}
}

func parseFormat(patterns []string) (*pattern, error) {
	var parts []*regex.Regex
	for _, expression := range patterns {
		r, err := regex.Parse(expression, regex.JavaScript)
		if err != nil {
			return nil, err
		}
		parts = append(parts, r)
	}
	return newPattern(regex.And(parts...)), nil
}
