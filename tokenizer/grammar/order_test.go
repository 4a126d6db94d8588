package grammar

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// orderCase is a list in any order whose members are single letters.
type orderCase struct {
	letters           string // of the members
	required, repeats string // those of them that are, and do
	least, most       int
}

// texts gives all texts of a list with up to a number of members, and all their beginnings.
func (c *orderCase) texts(longest int) (whole, begun map[string]bool) {
	whole, begun = map[string]bool{}, map[string]bool{}
	var grow func(members string)
	grow = func(members string) {
		if c.holds(members) {
			text := strings.Join(strings.Split(members, ""), ",")
			whole[text] = true
			for i := range len(text) + 1 {
				begun[text[:i]] = true
			}
		}
		if len(members) == longest {
			return
		}
		for _, l := range c.letters {
			if strings.ContainsRune(c.repeats, l) || !strings.ContainsRune(members, l) {
				grow(members + string(l))
			}
		}
	}
	grow("")
	return whole, begun
}

func (c *orderCase) holds(members string) bool {
	once, further := 0, 0
	for _, l := range members {
		if strings.ContainsRune(c.repeats, l) {
			further++
		} else {
			once++
		}
	}
	for _, l := range c.required {
		if !strings.ContainsRune(members, l) {
			return false
		}
	}
	return members != "" && once+min(further, 1) >= c.least && (c.most < 0 || once+further <= c.most)
}

// TestAnyOrder holds lists in any order against all texts that there are: each letter may come exactly where some text goes on with it.
func TestAnyOrder(t *testing.T) {
	v := bytesVocabulary([]string{"a,b", ",c", "b,a,"})
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		c := orderCase{letters: "abc"[:1+random.IntN(3)], least: random.IntN(4), most: random.IntN(6) - 1}
		for _, l := range c.letters {
			switch random.IntN(4) {
			case 0:
				c.required += string(l)
			case 1:
				c.repeats += string(l)
			}
		}
		b := NewBuilder(Limits{})
		var members []Member
		for _, l := range c.letters {
			members = append(members, Member{[]Symbol{b.Literal(string(l))}, strings.ContainsRune(c.required, l), strings.ContainsRune(c.repeats, l)})
		}
		const walked, longest = 3, 6 // members; those that are left fit behind those that are walked
		whole, begun := c.texts(longest)
		g, err := b.Compile(b.Define("s", []Symbol{b.Literal("("), b.AnyOrder(members, b.Literal(","), c.least, c.most), b.Literal(")")}))
		if errors.Is(err, ErrNoText) && len(whole) == 0 {
			continue
		}
		if err != nil || len(whole) == 0 {
			t.Fatalf("%+v: %v, and %d texts", c, err, len(whole))
		}
		m, err := g.Matcher(v)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Accept('('); err != nil {
			t.Fatal(err)
		}
		checkOrder(t, &c, m, whole, begun, "", 2*walked-1)
	}
}

// checkOrder walks all texts of up to some letters.
func checkOrder(t *testing.T, c *orderCase, m *Matcher, whole, begun map[string]bool, text string, left int) {
	t.Helper()
	mask := make([]uint64, m.e.v.Words())
	if _, err := m.Mask(mask); err != nil {
		t.Fatalf("%+v after %q: %v", c, text, err)
	}
	for _, l := range "abcd,)" {
		next := text + string(l)
		want := begun[next] || l == ')' && whole[text]
		if got := mask[l>>6]>>(l&63)&1 != 0; got != want {
			t.Fatalf("%+v: %q after %q: %v, want %v", c, l, text, got, want)
		}
		if want && l != ')' && left > 1 {
			if err := m.Accept(l); err != nil {
				t.Fatal(err)
			}
			checkOrder(t, c, m, whole, begun, next, left-1)
			m.Rollback(1)
		}
	}
}

// TestAnyOrderOfMany: the rules of a list in any order grow with its members, and what an answer adds with what it writes.
func TestAnyOrderOfMany(t *testing.T) {
	v := bytesVocabulary(nil)
	list := func(n int) (*Grammar, []string) {
		b := NewBuilder(Limits{})
		var members []Member
		var names []string
		for i := range n {
			names = append(names, fmt.Sprintf("name%d=", i))
			members = append(members, Member{Symbols: []Symbol{b.Literal(names[i]), b.Regex(mustParse(t, `[0-9]{1,3}`))}, Required: i%2 == 0})
		}
		g, err := b.Compile(b.Define("s", []Symbol{b.AnyOrder(members, b.Literal(","), 0, -1), b.Literal(".")}))
		if err != nil {
			t.Fatal(err)
		}
		return g, names
	}
	few, _ := list(100)
	many, names := list(400)
	if a, b := few.Bytes(), many.Bytes(); b > 5*a {
		t.Errorf("400 members take %d bytes, 100 take %d", b, a)
	}
	m, err := many.Matcher(v)
	if err != nil {
		t.Fatal(err)
	}
	random, text := rand.New(rand.NewPCG(3, 4)), strings.Builder{}
	for _, i := range random.Perm(len(names))[:60] {
		text.WriteString(names[i] + "1,")
	}
	places, err := follow(t, m, text.String())
	if err != nil || places > 60_000 {
		t.Errorf("%d places, rows and states after 60 of 400 members: %v", places, err)
	}
	before := many.Bytes()
	if err := m.Accept(int32(names[0][0])); err != nil {
		t.Fatal(err)
	}
	t.Logf("400 members: %d kB for 60 of them, %d units", before>>10, m.Taken())
}

// TestAnyOrderRefuses: members that may be the empty text would have no place.
func TestAnyOrderRefuses(t *testing.T) {
	b := NewBuilder(Limits{})
	maybe := b.Repeat(b.Literal("a"), 0, 1)
	if _, err := b.Compile(b.AnyOrder([]Member{{Symbols: []Symbol{maybe}}}, b.Literal(","), 0, -1)); !errors.Is(err, errEmptyMember) {
		t.Errorf("an empty member: %v", err)
	}
	b = NewBuilder(Limits{})
	if _, err := b.Compile(b.AnyOrder([]Member{{Symbols: []Symbol{17}}}, b.Literal(","), 0, -1)); err == nil {
		t.Error("a member of no builder is taken")
	}
}
