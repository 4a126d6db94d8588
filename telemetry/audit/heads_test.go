package audit

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

func TestHeadsKeepTheLast(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weir.db.audit-head")
	h := NewHeads(path)
	if last, err := h.Last(); err != nil || last != (Head{}) {
		t.Fatalf("before the first note: %v, %v", last, err)
	}
	entries := chain(1200) // more than the file holds
	var wait sync.WaitGroup
	for part := range 4 { // as processes that share the file
		wait.Go(func() {
			other := NewHeads(path)
			for i := part; i < len(entries); i += 4 {
				if err := other.Note(entries[i].Head()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	if err := h.Note(entries[len(entries)-1].Head()); err != nil {
		t.Fatal(err)
	}
	if last, err := h.Last(); err != nil || last != entries[len(entries)-1].Head() {
		t.Errorf("the last: %v, %v", last, err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Size() > 2*maxHeadsBytes || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v", info, err)
	}
}

// A line that a full disk has cut short does not spoil the next; a file without any head is no fresh one.
func TestHeadsOfADamagedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "heads")
	h, entries := NewHeads(path), chain(3)
	if err := os.WriteFile(path, []byte(entries[0].Head().String()[:20]), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Last(); !errors.Is(err, ErrBroken) {
		t.Errorf("no head at all: %v", err)
	}
	if err := h.Note(entries[1].Head()); err != nil {
		t.Fatal(err)
	}
	if last, err := h.Last(); err != nil || last != entries[1].Head() {
		t.Errorf("after half a line: %v, %v", last, err)
	}
	if err := h.Replace(entries[0].Head()); err != nil {
		t.Fatal(err)
	}
	if last, err := h.Last(); err != nil || last != entries[0].Head() {
		t.Errorf("replaced: %v, %v", last, err)
	}
}
