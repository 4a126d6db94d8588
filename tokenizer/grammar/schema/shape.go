package schema

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"weir/internal/work"
	"weir/tokenizer/grammar"
	"weir/tokenizer/grammar/regex"
)

// shape is what a set of schemas lets through in one place: any of its forms.
type shape struct {
	members []*value
	forms   []form
	alive   bool // a finite value exists
}

// form is one alternative of a shape: values of one kind.
type form interface {
	// possible reports whether a finite value exists, as far as that is known of the shapes that the form refers to.
	possible() bool
	// emit adds the form's rules and gives its symbol.
	emit(e *emitter) (grammar.Symbol, error)
}

// compiler makes shapes of one document.
type compiler struct {
	doc     *document
	options Options
	limits  Limits
	report  Report
	work    int
	meter   *work.Meter // counts the work, too; nil is none
	room    int64       // bytes that an automaton may take

	// loose lets more through rather than less: it asks whether schemas exclude each other, where a keyword that is not enforced, or one
	// that validators read as a remark (format), must not count.
	loose bool
	// overlaps is the compiler of those questions.
	overlaps *compiler

	shapes   map[string]*shape
	order    []*shape // in the order of making; those from built on have no forms yet
	built    int
	leaves   map[string][]form
	patterns map[string]*pattern
	profiles map[*value]*profile
	scalars  map[*value]map[string]bool // by list of an enum: the fingerprints of its values
	digests  map[*value]uint64
	made     *made
	listings map[*value]*value // by list of an anyOf or oneOf of constants: one enum of them, nil where it is none

	ways       int  // how many leaves the contraries at one place may make, 0 is all
	contraries bool // some have several ways
}

func newCompiler(doc *document, o Options, l Limits) *compiler {
	return &compiler{doc: doc, options: o, limits: l, room: math.MaxInt64, shapes: map[string]*shape{}, leaves: map[string][]form{},
		patterns: map[string]*pattern{}, profiles: map[*value]*profile{}, digests: map[*value]uint64{}, listings: map[*value]*value{},
		scalars: map[*value]map[string]bool{}, made: newMade()}
}

// compile makes the shape of a schema with all that it refers to.
func (c *compiler) compile(root *value) (*shape, error) {
	start, err := c.shape([]*value{root})
	if err != nil {
		return nil, err
	}
	if err := c.finish(); err != nil {
		return nil, err
	}
	if err := c.settleUnique(); err != nil {
		return nil, err
	}
	if !start.alive {
		return nil, &Error{Pointer: root.pointer(), Reason: "no finite value satisfies the schema: its parts contradict each other, or it asks for " +
			"itself without end"}
	}
	return start, nil
}

// finish builds the shapes that wait and finds those that have values.
func (c *compiler) finish() error {
	from := c.built
	for ; c.built < len(c.order); c.built++ {
		if err := c.build(c.order[c.built]); err != nil {
			return err
		}
	}
	for changed := true; changed; { // a shape refers mostly to later ones
		changed = false
		for _, s := range slices.Backward(c.order[from:]) {
			if !s.alive && slices.ContainsFunc(s.forms, form.possible) {
				s.alive, changed = true, true
			}
		}
		if err := c.spend(len(c.order) - from); err != nil {
			return err
		}
	}
	return nil
}

// shape finds or makes the shape of a set of schemas; its forms are built later.
func (c *compiler) shape(set []*value) (*shape, error) {
	key, members := conjunction(set)
	if s := c.shapes[key]; s != nil {
		return s, nil
	}
	if len(c.order) >= c.limits.Shapes {
		return nil, &Error{Reason: fmt.Sprintf("the schema has more than %d different parts, counting combinations; split it", c.limits.Shapes)}
	}
	s := &shape{members: members}
	c.shapes[key] = s
	c.order = append(c.order, s)
	return s, nil
}

func (c *compiler) build(s *shape) error {
	cl := newClosure(isAny)
	cl.ways = c.ways
	for _, m := range s.members {
		if err := c.add(cl, m, nil); err != nil {
			return err
		}
	}
	seen := map[string]bool{}
	return c.expand(cl, func(leaf *closure) error {
		members := leaf.members
		if leaf.listed { // constants are held against the choices that are open, too
			for _, open := range leaf.choices {
				members = append(slices.Clip(members), open.at)
			}
		}
		key, sorted := conjunction(members)
		closed := c.closes(leaf)
		key += string(rune(leaf.types)) + strconv.FormatBool(closed) + leaf.underKey(sorted)
		if leaf.never || seen[key] {
			return nil
		}
		seen[key] = true
		forms, ok := c.leaves[key]
		if !ok {
			var err error
			if forms, err = c.formsOf(leaf, members, closed); err != nil {
				return err
			}
			c.leaves[key] = forms
		}
		s.forms = append(s.forms, forms...)
		return nil
	})
}

// underKey tells closures of the same members apart whose unevaluated keywords look at different ones.
func (cl *closure) underKey(members []*value) string {
	var key strings.Builder
	for _, m := range members {
		if below, asks := cl.under[m]; asks {
			part, _ := conjunction(below)
			key.WriteString("|" + part)
		}
	}
	return key.String()
}

// formsOf gives the forms of a closure without choices.
func (c *compiler) formsOf(cl *closure, members []*value, closed bool) ([]form, error) {
	if cl.listed {
		return c.listed(members)
	}
	var forms []form
	if cl.types&isNull != 0 && !c.excludes(members, func(v *value) bool { return v.kind == null }) {
		forms = appendLexeme(forms, regex.Literal("null"), nil)
	}
	if cl.types&isBoolean != 0 {
		forms = appendLexeme(forms, c.booleans(members), nil)
	}
	if cl.types&isNumber != 0 {
		r, err := c.number(members, cl.types&isNumber)
		if err != nil {
			return nil, err
		}
		forms = appendLexeme(forms, r, plainNumber)
	}
	if cl.types&isText != 0 {
		r, once, err := c.text(members)
		if err != nil {
			return nil, err
		}
		if r != nil {
			forms = append(forms, &lexeme{r, once})
		}
	}
	if cl.types&isArray != 0 {
		f, err := c.array(members, cl.under)
		if err != nil {
			return nil, err
		}
		forms = append(forms, f)
	}
	if cl.types&isObject != 0 {
		f, err := c.object(members, cl.under, closed)
		if err != nil {
			return nil, err
		}
		if f != nil {
			forms = append(forms, f)
		}
	}
	return forms, nil
}

// listed gives the form of an enum or const: the values of the shortest list that all members hold for.
func (c *compiler) listed(members []*value) ([]form, error) {
	var list []*value
	var from *value
	for _, m := range members {
		if v := c.doc.keyword(m, "const"); v != nil {
			list, from = []*value{v}, m
			break
		}
		if v := c.doc.keyword(m, "enum"); v != nil {
			if v.kind != array {
				return nil, c.wrong(m, "enum", "needs a list of values")
			}
			if list == nil || len(v.items) < len(list) {
				list, from = v.items, m
			}
		}
	}
	if err := c.spend(len(list)); err != nil {
		return nil, err
	}
	others := slices.DeleteFunc(slices.Clone(members), func(m *value) bool { return m == from && c.plainList(m) })
	seen := map[string]bool{}
	f := &constants{}
	for _, v := range list {
		key := string(fingerprint(nil, v))
		if seen[key] {
			continue
		}
		seen[key] = true
		ok, err := c.holdsAll(others, v)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		f.values = append(f.values, v)
	}
	if len(f.values) == 0 {
		return nil, nil
	}
	return []form{f}, nil
}

// plainList reports whether a schema asserts nothing but one list of values.
func (c *compiler) plainList(s *value) bool {
	asserted := 0
	for _, key := range s.keys {
		if assertions[key] || inPlace[key] {
			asserted++
		}
	}
	return asserted == 1
}

// booleans matches true and false, except for those that members exclude; nil where none is left.
func (c *compiler) booleans(members []*value) *regex.Regex {
	var left []string
	for truth, word := range map[bool]string{false: "false", true: "true"} {
		if !c.excludes(members, func(v *value) bool { return v.kind == boolean && v.truth == truth }) {
			left = append(left, word)
		}
	}
	if left == nil {
		return nil
	}
	return regex.Words(left...)
}

// excludes reports whether a member was made to exclude a constant.
func (c *compiler) excludes(members []*value, is func(*value) bool) bool {
	return slices.ContainsFunc(members, func(m *value) bool { return slices.ContainsFunc(c.made.excluded[m], is) })
}

// lexeme is a form of one terminal.
type lexeme struct {
	regex *regex.Regex
	once  *regex.Regex // the same values, each in one spelling
}

func (l *lexeme) possible() bool { return true }

func (l *lexeme) emit(e *emitter) (grammar.Symbol, error) { return e.terminal(l.regex), nil }

// appendLexeme adds a form, none for nil. Those that not only spelled matches have several spellings of a value, nil says that none has.
func appendLexeme(forms []form, r, spelled *regex.Regex) []form {
	switch {
	case r == nil:
		return forms
	case spelled == nil:
		return append(forms, &lexeme{r, r})
	}
	return append(forms, &lexeme{r, regex.And(r, spelled)})
}

// constants is a form of given values.
type constants struct{ values []*value }

func (f *constants) possible() bool { return true }

// arrayForm is lists: the first items have shapes of their own.
type arrayForm struct {
	items       []*shape
	rest        *shape       // of the items behind those; nil where there can be none
	least, most int          // most < 0 is no bound
	unique      *value       // the schema that asks that items differ, nil where none does or they cannot help it
	differ      *regex.Regex // the items where they are scalars that have to differ, each in one spelling; else nil
}

// room is how many items there can be: most, less where a place has no value; < 0 is no bound.
func (f *arrayForm) room() int {
	most := f.most
	for i, s := range f.items {
		if !s.alive && (most < 0 || i < most) {
			return i
		}
	}
	if (f.rest == nil || !f.rest.alive) && (most < 0 || most > len(f.items)) {
		return len(f.items)
	}
	return most
}

func (f *arrayForm) possible() bool {
	if f.unique != nil {
		if values := f.values(); values != nil && f.least > len(values) {
			return false
		}
	}
	room := f.room()
	return room < 0 || f.least <= room
}

// objectForm is objects: named properties in their order, then others.
type objectForm struct {
	properties  []property
	extras      []extra
	least, most int // most < 0 is no bound
}

type property struct {
	name     string
	required bool
	value    *shape
}

// extra is a class of property names that the schema does not list.
type extra struct {
	key   *regex.Regex // with its quotes
	value *shape
}

func (f *objectForm) possible() bool {
	required, there := 0, 0
	for _, p := range f.properties {
		if p.required {
			required++
		}
		if p.value.alive {
			there++
		} else if p.required {
			return false
		}
	}
	open := slices.ContainsFunc(f.extras, func(x extra) bool { return x.value.alive })
	return (f.most < 0 || required <= f.most) && (there >= f.least || open)
}
