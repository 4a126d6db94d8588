package schema

import (
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
)

// draft is a version of JSON Schema. The zero draft is a document that names none: it is read as 2020-12, with what older drafts spelled
// otherwise understood, too.
type draft int

const (
	anyDraft  draft = 0
	draft4    draft = 4
	draft6    draft = 6
	draft7    draft = 7
	draft2019 draft = 2019
	draft2020 draft = 2020
)

// document is a decoded schema with its addresses.
type document struct {
	root  *value
	draft draft
	// bases holds the absolute address of every schema resource ($id), by its root.
	bases map[*value]string
	// resources finds a resource by its address.
	resources map[string]*value
	// anchors finds a schema by the address of its resource, "#" and a name.
	anchors map[string]*value
	// dynamic counts the places of a $dynamicAnchor by name.
	dynamic map[string]int
}

// drafts are known by the tail of their address.
var drafts = map[string]draft{
	"draft-04/schema": draft4, "draft-06/schema": draft6, "draft-07/schema": draft7, "draft/2019-09/schema": draft2019,
	"draft/2020-12/schema": draft2020, "json-schema.org/schema": anyDraft,
}

// draftOf reads $schema.
func draftOf(root *value) (draft, error) {
	v := root.get("$schema")
	if v == nil {
		return anyDraft, nil
	}
	address := strings.TrimRight(v.text, "#")
	for tail, d := range drafts { // whatever host is written in front
		if v.kind == text && (strings.HasSuffix(address, "/"+tail) || address == tail) {
			return d, nil
		}
	}
	reason := fmt.Sprintf("%.120q is no draft that is known; leave $schema out or name draft-04, draft-06, draft-07, 2019-09 or 2020-12",
		v.text)
	return anyDraft, &Error{Pointer: "/$schema", Keyword: "$schema", Reason: reason}
}

// knows reports whether a keyword means something in the document's draft. dependencies is understood by all: the drafts that split it up let
// tools go on reading it.
func (d *document) knows(keyword string) bool {
	if d.draft == anyDraft {
		return true
	}
	switch keyword {
	case "const", "contains", "propertyNames", "$id":
		return d.draft >= draft6
	case "if", "then", "else":
		return d.draft >= draft7
	case "dependentRequired", "dependentSchemas", "minContains", "maxContains", "unevaluatedItems", "unevaluatedProperties", "$anchor":
		return d.draft >= draft2019
	case "prefixItems", "$dynamicRef", "$dynamicAnchor":
		return d.draft >= draft2020
	case "additionalItems", "$recursiveRef":
		return d.draft < draft2020
	case "id":
		return d.draft == draft4
	}
	return true
}

// keyword is a schema's value of a keyword that its draft knows, nil where there is none.
func (d *document) keyword(s *value, keyword string) *value {
	v := s.get(keyword)
	if v == nil || !d.knows(keyword) {
		return nil
	}
	if d.draft != anyDraft && d.draft <= draft7 && keyword != "$ref" && s.get("$ref") != nil {
		return nil // the siblings of a reference mean nothing until draft 7
	}
	return v
}

// Keywords that hold one schema, a list of them, or an object of them.
var (
	holdsSchema = []string{
		"additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not", "propertyNames", "then",
		"unevaluatedItems", "unevaluatedProperties",
	}
	holdsList   = []string{"allOf", "anyOf", "items", "oneOf", "prefixItems"}
	holdsObject = []string{"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"}
)

// newDocument indexes the addresses in a decoded schema, and in the documents that were given with it by address.
func newDocument(root, documents *value, d draft) *document {
	doc := &document{root: root, draft: d, bases: map[*value]string{}, resources: map[string]*value{}, anchors: map[string]*value{},
		dynamic: map[string]int{}}
	doc.bases[root] = ""
	doc.resources[""] = root
	doc.index(root, "")
	if documents == nil {
		return doc
	}
	for i, address := range documents.keys {
		base, _, _ := strings.Cut(address, "#")
		doc.bases[documents.items[i]] = base
		doc.resources[base] = documents.items[i]
	}
	for i, address := range documents.keys {
		base, _, _ := strings.Cut(address, "#")
		doc.index(documents.items[i], base)
	}
	return doc
}

func (d *document) index(s *value, base string) {
	if s.kind != object {
		return
	}
	for _, keyword := range []string{"$id", "id"} {
		if id := d.keyword(s, keyword); id != nil && id.kind == text {
			base = d.identify(s, base, id.text)
			break
		}
	}
	if a := d.keyword(s, "$anchor"); a != nil && a.kind == text {
		d.anchors[base+"#"+a.text] = s
	}
	if a := d.keyword(s, "$dynamicAnchor"); a != nil && a.kind == text {
		d.anchors[base+"#"+a.text] = s
		d.dynamic[a.text]++
	}
	for _, keyword := range holdsSchema {
		if v := s.get(keyword); v != nil {
			d.index(v, base)
		}
	}
	for _, keyword := range holdsList {
		if v := s.get(keyword); v != nil && v.kind == array {
			for _, item := range v.items {
				d.index(item, base)
			}
		}
	}
	for _, keyword := range holdsObject {
		if v := s.get(keyword); v != nil && v.kind == object {
			for _, item := range v.items {
				d.index(item, base)
			}
		}
	}
}

// identify notes a schema's $id and returns the base of what stands below.
func (d *document) identify(s *value, base, id string) string {
	address, fragment, _ := strings.Cut(id, "#")
	if fragment != "" { // until draft 7 an $id of "#name" is an anchor
		d.anchors[join(base, address)+"#"+fragment] = s
		if address == "" {
			return base
		}
	}
	if address == "" {
		return base
	}
	base = join(base, address)
	d.bases[s] = base
	d.resources[base] = s
	return base
}

// base is the address of the resource that a schema stands in.
func (d *document) base(s *value) string {
	for ; s != nil; s = s.parent {
		if base, ok := d.bases[s]; ok {
			return base
		}
	}
	return ""
}

// resolve finds the schema that a reference names.
func (d *document) resolve(from *value, keyword, ref string) (*value, error) {
	fail := func(format string, args ...any) error {
		return &Error{Pointer: from.pointer() + "/" + keyword, Keyword: keyword, Reason: fmt.Sprintf(format, args...)}
	}
	address, fragment, _ := strings.Cut(ref, "#")
	base := d.base(from)
	if address != "" {
		base = join(base, address)
	}
	resource := d.resources[base]
	if resource == nil {
		return nil, fail("%.120q is not in this document, and nothing is fetched; give it in schema_documents, or copy it into $defs", ref)
	}
	fragment, err := unpercent(fragment)
	if err != nil {
		return nil, fail("%.120q: %v", ref, err)
	}
	switch {
	case fragment == "":
		return resource, nil
	case fragment[0] == '/':
		if target := descend(resource, fragment); target != nil {
			return target, nil
		}
		return nil, fail("%.120q points to nothing in this document", ref)
	}
	if target := d.anchors[base+"#"+fragment]; target != nil {
		return target, nil
	}
	return nil, fail("no $anchor is named %.120q", fragment)
}

// descend follows a JSON pointer.
func descend(v *value, pointer string) *value {
	for step := range strings.SplitSeq(pointer[1:], "/") {
		step = pointerUnescaper.Replace(step)
		switch v.kind {
		case object:
			v = v.get(step)
		case array:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(v.items) || strconv.Itoa(i) != step {
				return nil
			}
			v = v.items[i]
		default:
			return nil
		}
		if v == nil {
			return nil
		}
	}
	return v
}

var errPercent = errors.New("a percent sign is not followed by two hexadecimal digits")

// unpercent decodes a fragment's percent signs.
func unpercent(s string) (string, error) {
	if !strings.Contains(s, "%") {
		return s, nil
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b.WriteByte(s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", errPercent
		}
		c, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
		if err != nil {
			return "", errPercent
		}
		b.WriteByte(byte(c))
		i += 2
	}
	return b.String(), nil
}

// join resolves a reference without fragment against a base, as RFC 3986 does.
func join(base, ref string) string {
	if scheme(ref) != "" {
		return ref
	}
	s := scheme(base)
	rest := base[len(s):]
	if strings.HasPrefix(ref, "//") {
		return s + ref
	}
	authority := ""
	if strings.HasPrefix(rest, "//") {
		end := strings.IndexByte(rest[2:], '/')
		if end < 0 {
			authority, rest = rest, "/"
		} else {
			authority, rest = rest[:end+2], rest[end+2:]
		}
	}
	if !strings.HasPrefix(ref, "/") {
		ref = rest[:strings.LastIndexByte(rest, '/')+1] + ref
	}
	if strings.HasPrefix(ref, "/") {
		clean := path.Clean(ref)
		if strings.HasSuffix(ref, "/") && clean != "/" {
			clean += "/"
		}
		ref = clean
	}
	return s + authority + ref
}

// scheme is the scheme of an address with its colon, "" where it has none.
func scheme(s string) string {
	for i := range len(s) {
		c := s[i]
		switch {
		case c == ':':
			return s[:i+1]
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', i > 0 && (c >= '0' && c <= '9' || c == '+' || c == '-' || c == '.'):
		default:
			return ""
		}
	}
	return ""
}
