package audit

import (
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"
)

var testKey = NewKey([]byte("a secret that lies apart from the store"))

func chain(n int) []Entry {
	var entries []Entry
	var last Head
	for i := range n {
		e := testKey.Next(last, Change{
			Time:  time.Date(2026, 11, 22, 12, 0, i, 1234, time.UTC),
			Actor: "weir_0000000000", Action: "key.create", Object: string(rune('a' + i)), Details: `{"n":1}`,
		})
		entries = append(entries, e)
		last = e.Head()
	}
	return entries
}

func each(entries []Entry) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for _, e := range entries {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func TestVerifyFindsEveryTampering(t *testing.T) {
	whole := chain(6)
	head, err := testKey.Verify(Head{}, each(whole), whole[2].Head(), whole[5].Head(), Head{})
	if err != nil || head != whole[5].Head() {
		t.Fatalf("the whole chain: %v, %v", head, err)
	}
	for name, tamper := range map[string]func([]Entry) []Entry{
		"time":      func(e []Entry) []Entry { e[3].Time = e[3].Time.Add(time.Microsecond); return e },
		"actor":     func(e []Entry) []Entry { e[3].Actor = "other"; return e },
		"action":    func(e []Entry) []Entry { e[3].Action = "key.revoke"; return e },
		"object":    func(e []Entry) []Entry { e[3].Object = "z"; return e },
		"details":   func(e []Entry) []Entry { e[3].Details = "{}"; return e },
		"shifted":   func(e []Entry) []Entry { e[3].Action, e[3].Object = "key.createx", ""; return e },
		"rehashed":  func(e []Entry) []Entry { e[3].Object = "z"; e[3].Hash = Key{}.sum(&e[3]); return e },
		"removed":   func(e []Entry) []Entry { return slices.Delete(e, 2, 3) },
		"first":     func(e []Entry) []Entry { return e[1:] },
		"repeated":  func(e []Entry) []Entry { return slices.Insert(e, 2, e[2]) },
		"swapped":   func(e []Entry) []Entry { e[1], e[2] = e[2], e[1]; return e },
		"put in":    func(e []Entry) []Entry { return slices.Insert(e, 3, testKey.Next(e[2].Head(), Change{Object: "new"})) },
		"cut short": func(e []Entry) []Entry { return e[:5] },
		"rewritten": func(e []Entry) []Entry {
			for i := 2; i < len(e); i++ {
				e[i] = Key{}.Next(e[i-1].Head(), Change{Time: e[i].Time, Actor: "other", Action: "x"})
			}
			return e
		},
	} {
		if _, err := testKey.Verify(Head{}, each(tamper(slices.Clone(whole))), whole[5].Head()); !errors.Is(err, ErrBroken) {
			t.Errorf("%s: %v", name, err)
		}
	}
	failed := errors.New("disk")
	_, err = testKey.Verify(Head{}, func(yield func(Entry, error) bool) { yield(Entry{}, failed) })
	if !errors.Is(err, failed) || errors.Is(err, ErrBroken) {
		t.Errorf("a failed read is %v", err)
	}
}

// Entries of an earlier weir may stand before those with the key, and nowhere else.
func TestAChainIsKeyedFromSomeEntryOn(t *testing.T) {
	change := Change{Actor: "a", Action: "b"}
	plain := Key{}.Next(Head{}, change)
	keyed := testKey.Next(plain.Head(), Change{Actor: "weir", Action: ActionKeyed})
	after := testKey.Next(keyed.Head(), change)
	if head, err := testKey.Verify(Head{}, each([]Entry{plain, keyed, after})); err != nil || head != after.Head() {
		t.Errorf("a chain that was keyed later: %v, %v", head, err)
	}
	if _, err := testKey.Verify(keyed.Head(), each([]Entry{after})); err != nil {
		t.Errorf("its end: %v", err)
	}
	for name, entries := range map[string][]Entry{
		"without the key from some entry on": {plain, keyed, Key{}.Next(keyed.Head(), change)},
		"without the key at all":             {plain, Key{}.Next(plain.Head(), change)},
		"with another key":                   {NewKey([]byte("another")).Next(Head{}, change)},
	} {
		if _, err := testKey.Verify(Head{}, each(entries)); !errors.Is(err, ErrBroken) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What somebody has seen and accepted no longer breaks the chain, as long as nothing before it changes again.
func TestAnAcceptedChainStaysAsItWas(t *testing.T) {
	entries := chain(5)
	entries[1].Actor = "somebody else"
	digest, err := testKey.Digest(each(entries))
	if err != nil {
		t.Fatal(err)
	}
	accept := func(before Hash) Change {
		return Change{Actor: "ops", Action: ActionAccept, Details: `{"found":"entry 2","reason":"seen","before":"` + before.String() + `"}`}
	}
	accepted := append(slices.Clone(entries), testKey.Next(entries[4].Head(), accept(digest)))
	if head, err := testKey.Verify(Head{}, each(accepted)); err != nil || head != accepted[5].Head() {
		t.Errorf("accepted: %v, %v", head, err)
	}
	for name, tamper := range map[string]func(e []Entry){
		"another entry is altered":         func(e []Entry) { e[3].Actor = "x" },
		"the same entry is altered":        func(e []Entry) { e[1].Actor = "x" },
		"accepted without the key":         func(e []Entry) { e[5] = Key{}.Next(e[4].Head(), accept(digest)) },
		"accepted as of another beginning": func(e []Entry) { e[5] = testKey.Next(e[4].Head(), accept(Hash{})) },
	} {
		again := slices.Clone(accepted)
		tamper(again)
		if _, err := testKey.Verify(Head{}, each(again)); !errors.Is(err, ErrBroken) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestHeadsReadAsWritten(t *testing.T) {
	head := chain(3)[2].Head()
	got, err := ParseHead(head.String())
	if err != nil || got != head {
		t.Errorf("%v reads as %v, %v", head, got, err)
	}
}

func FuzzParseHead(f *testing.F) {
	f.Add(chain(1)[0].Head().String())
	f.Add("-1:00")
	f.Add("01:" + strings.Repeat("0", 64))
	f.Fuzz(func(t *testing.T, text string) {
		h, err := ParseHead(text)
		if err != nil {
			return
		}
		if again, err := ParseHead(h.String()); err != nil || again != h || h.Sequence < 0 {
			t.Errorf("%q reads as %v, and that as %v, %v", text, h, again, err)
		}
	})
}

func TestChangesAreChecked(t *testing.T) {
	good := Change{Actor: "a", Action: "b", Details: strings.Repeat("x", MaxDetailsBytes)}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for _, c := range []Change{
		{}, {Actor: "a"}, {Action: "b"}, {Actor: "a", Action: "b\x00"}, {Actor: "a\xff", Action: "b"},
		{Actor: "a", Action: "b", Object: strings.Repeat("x", MaxTextBytes+1)},
		{Actor: "a", Action: "b", Details: strings.Repeat("x", MaxDetailsBytes+1)},
	} {
		if err := c.Check(); err == nil {
			t.Errorf("%.80q is taken", c)
		}
	}
}
