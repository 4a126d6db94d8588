package audit

import (
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"
)

func chain(n int) []Entry {
	var entries []Entry
	var last Head
	for i := range n {
		e := Next(last, Change{
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
	head, err := Verify(each(whole), whole[2].Head(), whole[5].Head(), Head{})
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
		"rehashed":  func(e []Entry) []Entry { e[3].Object = "z"; e[3].Hash = e[3].sum(); return e },
		"removed":   func(e []Entry) []Entry { return slices.Delete(e, 2, 3) },
		"first":     func(e []Entry) []Entry { return e[1:] },
		"repeated":  func(e []Entry) []Entry { return slices.Insert(e, 2, e[2]) },
		"swapped":   func(e []Entry) []Entry { e[1], e[2] = e[2], e[1]; return e },
		"put in":    func(e []Entry) []Entry { return slices.Insert(e, 3, Next(e[2].Head(), Change{Object: "new"})) },
		"cut short": func(e []Entry) []Entry { return e[:5] },
		"rewritten": func(e []Entry) []Entry {
			for i := 2; i < len(e); i++ {
				e[i] = Next(e[i-1].Head(), Change{Time: e[i].Time, Actor: "other", Action: "x"})
			}
			return e
		},
	} {
		if _, err := Verify(each(tamper(slices.Clone(whole))), whole[5].Head()); !errors.Is(err, ErrBroken) {
			t.Errorf("%s: %v", name, err)
		}
	}
	failed := errors.New("disk")
	_, err = Verify(func(yield func(Entry, error) bool) { yield(Entry{}, failed) })
	if !errors.Is(err, failed) || errors.Is(err, ErrBroken) {
		t.Errorf("a failed read is %v", err)
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
