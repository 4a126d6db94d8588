package schema

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

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

// shapeTable has the shapes of a document, one for each set of schemas.
type shapeTable struct {
	most   int
	shapes map[string]*shape
	order  []*shape // in the order of making
}

// of finds or makes the shape of a set of schemas; its forms are built later.
func (t *shapeTable) of(set []*value) (*shape, error) {
	key, members := conjunction(set)
	if s := t.shapes[key]; s != nil {
		return s, nil
	}
	if len(t.order) >= t.most {
		return nil, &Error{Reason: fmt.Sprintf("the schema has more than %d different parts, counting combinations; split it", t.most)}
	}
	s := &shape{members: members}
	t.shapes[key] = s
	t.order = append(t.order, s)
	return s, nil
}

// compiler makes shapes of one document, and the forms of each.
type compiler struct {
	*reader
	gatherer *gatherer
	expander *expander
	shapes   *shapeTable
	scalars  *scalarForms
	arrays   *arrayForms
	objects  *objectForms

	built  int               // the shapes of the table that have their forms
	leaves map[string][]form // by members and what else tells closures without choices apart
	ways   int               // how many leaves the contraries at one place may make, 0 is all
}

func newCompiler(r *reader, ways int) *compiler {
	n := &negator{r}
	l := &listings{reader: r, known: map[*value]*value{}}
	g := &gatherer{reader: r, negator: n, listings: l}
	e := &enums{spending: r.spending, values: map[*value]map[string]bool{}}
	pr := &profiler{reader: r, gatherer: g, profiles: map[*value]*profile{}}
	pv := &prover{reader: r, profiler: pr, enums: e, digests: map[*value]uint64{}}
	x := &expander{reader: r, gatherer: g, negator: n, profiler: pr, prover: pv}
	t := &shapeTable{most: r.limits.Shapes, shapes: map[string]*shape{}}
	sf := &scalarForms{reader: r, enums: e}
	return &compiler{reader: r, gatherer: g, expander: x, shapes: t, scalars: sf, arrays: &arrayForms{reader: r, shapes: t},
		objects: &objectForms{reader: r, shapes: t, gatherer: g, expander: x, scalars: sf}, leaves: map[string][]form{}, ways: ways}
}

// compile makes the shape of a schema with all that it refers to.
func (c *compiler) compile(root *value) (*shape, error) {
	start, err := c.shapes.of([]*value{root})
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
	for ; c.built < len(c.shapes.order); c.built++ {
		if err := c.build(c.shapes.order[c.built]); err != nil {
			return err
		}
	}
	for changed := true; changed; { // a shape refers mostly to later ones
		changed = false
		for _, s := range slices.Backward(c.shapes.order[from:]) {
			if !s.alive && slices.ContainsFunc(s.forms, form.possible) {
				s.alive, changed = true, true
			}
		}
		if err := c.spend(len(c.shapes.order) - from); err != nil {
			return err
		}
	}
	return nil
}

func (c *compiler) build(s *shape) error {
	cl := newClosure(isAny)
	cl.ways = c.ways
	for _, m := range s.members {
		if err := c.gatherer.add(cl, m, nil); err != nil {
			return err
		}
	}
	seen := map[string]bool{}
	return c.expander.expand(cl, func(leaf *closure) error {
		members := leaf.members
		if leaf.listed { // constants are held against the choices that are open, too
			for _, open := range leaf.choices {
				members = append(slices.Clip(members), open.at)
			}
		}
		key, sorted := conjunction(members)
		closed := c.expander.closes(leaf)
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
		return c.scalars.listed(members)
	}
	var forms []form
	if cl.types&isNull != 0 && !c.scalars.excludes(members, func(v *value) bool { return v.kind == null }) {
		forms = appendLexeme(forms, regex.Literal("null"), nil)
	}
	if cl.types&isBoolean != 0 {
		forms = appendLexeme(forms, c.scalars.booleans(members), nil)
	}
	if cl.types&isNumber != 0 {
		r, err := c.scalars.number(members, cl.types&isNumber)
		if err != nil {
			return nil, err
		}
		forms = appendLexeme(forms, r, plainNumber)
	}
	if cl.types&isText != 0 {
		r, once, err := c.scalars.text(members)
		if err != nil {
			return nil, err
		}
		if r != nil {
			forms = append(forms, &lexeme{r, once})
		}
	}
	if cl.types&isArray != 0 {
		f, err := c.arrays.array(members, cl.under)
		if err != nil {
			return nil, err
		}
		forms = append(forms, f)
	}
	if cl.types&isObject != 0 {
		f, err := c.objects.object(members, cl.under, closed)
		if err != nil {
			return nil, err
		}
		if f != nil {
			forms = append(forms, f)
		}
	}
	return forms, nil
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
