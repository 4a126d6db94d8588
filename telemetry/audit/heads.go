package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"weir/internal/outfile"
)

// Heads keeps the names of a log's last entries in a file apart from the log, one a line: a log whose end was cut
// off lacks an entry that stands there. Several processes may note heads in one file. A process that dies between
// an entry and its note leaves the file behind the log, never ahead of it.
type Heads struct{ path string }

// NewHeads keeps heads in a file, which the first note makes.
func NewHeads(path string) *Heads { return &Heads{path} }

// Path is the file.
func (h *Heads) Path() string { return h.path }

// maxHeadsBytes is how large the file may grow before it is written again with its last line.
const maxHeadsBytes = 64 << 10

// Note adds a head. A line is written at once and at the file's end, so that no two processes mix theirs.
func (h *Heads) Note(head Head) error {
	file, err := os.OpenFile(h.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("note the head of the audit log: %w", err)
	}
	_, err = file.WriteString("\n" + head.String() + "\n") // after half a line that a full disk has left
	info, statErr := file.Stat()
	if err := errors.Join(err, statErr, file.Close()); err != nil {
		return fmt.Errorf("note the head of the audit log: %w", err)
	}
	if info.Size() > maxHeadsBytes {
		if last, err := h.Last(); err == nil {
			return h.Replace(last)
		}
	}
	return nil
}

// Last is the head with the highest number; zero where none was noted yet. A file in which no line is a head is an
// error.
func (h *Heads) Last() (last Head, err error) {
	text, err := os.ReadFile(h.path)
	if errors.Is(err, fs.ErrNotExist) {
		return Head{}, nil
	}
	if err != nil {
		return Head{}, fmt.Errorf("the heads of the audit log: %w", err)
	}
	for line := range bytes.Lines(text) {
		if head, err := ParseHead(strings.TrimSpace(string(line))); err == nil && head.Sequence >= last.Sequence {
			last = head
		}
	}
	if last == (Head{}) {
		return last, fmt.Errorf("%w: %s has no head of it", ErrBroken, h.path)
	}
	return last, nil
}

// Replace writes the file again with one head, whole or not at all.
func (h *Heads) Replace(head Head) error {
	if err := outfile.WriteBytes(h.path, outfile.Private, []byte(head.String()+"\n")); err != nil {
		return fmt.Errorf("note the head of the audit log: %w", err)
	}
	return nil
}
