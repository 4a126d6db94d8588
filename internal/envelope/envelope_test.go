package envelope

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func secretMaster(t testing.TB, text string) *Master {
	t.Helper()
	m, err := NewSecret([]byte(strings.Repeat(text, MinSecretBytes)))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func newKey(t testing.TB, tenant string) *DataKey {
	t.Helper()
	key, _, err := Masters{secretMaster(t, "m")}.New(context.Background(), tenant)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestRecordsAreBoundToTheirPlace(t *testing.T) {
	key := newKey(t, "acme")
	label := Label{"acme", "weir_responses.input", "resp_1"}
	sealed := key.Seal(label, []byte("a prompt"))
	if again := key.Seal(label, []byte("a prompt")); bytes.Equal(again, sealed) || bytes.Contains(sealed, []byte("prompt")) {
		t.Error("two ciphertexts are the same, or show the text")
	}
	if plain, err := key.Open(label, sealed); err != nil || string(plain) != "a prompt" {
		t.Fatalf("%q, %v", plain, err)
	}
	for name, other := range map[string]Label{
		"tenant": {"zeta", label.Kind, label.ID}, "kind": {label.Tenant, "weir_responses.object", label.ID},
		"record": {label.Tenant, label.Kind, "resp_2"}, "shifted": {"acmew", "eir_responses.input", label.ID},
	} {
		if _, err := key.Open(other, sealed); !errors.Is(err, ErrSealed) {
			t.Errorf("as another %s: %v", name, err)
		}
	}
	for i := range sealed {
		flipped := bytes.Clone(sealed)
		flipped[i] ^= 1
		if _, err := key.Open(label, flipped); !errors.Is(err, ErrSealed) {
			t.Errorf("with bit %d flipped: %v", 8*i, err)
		}
	}
	if _, err := newKey(t, "acme").Open(label, sealed); !errors.Is(err, ErrSealed) {
		t.Errorf("with another key: %v", err)
	}
}

func TestFilesAreBoundToTheirPlace(t *testing.T) {
	key := newKey(t, "acme")
	find := func(id string) (*DataKey, error) {
		if id != key.ID {
			return nil, ErrNoKey
		}
		return key, nil
	}
	label := Label{"acme", "file", "file-1"}
	text := bytes.Repeat([]byte("a line of a batch\n"), 20_000) // several pieces
	var file bytes.Buffer
	w, err := key.Writer(label, &file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	read := func(l Label, file []byte, find func(string) (*DataKey, error)) ([]byte, error) {
		r, err := Reader(l, bytes.NewReader(file), find)
		if err != nil {
			return nil, err
		}
		return io.ReadAll(r)
	}
	if got, err := read(label, file.Bytes(), find); err != nil || !bytes.Equal(got, text) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	if bytes.Contains(file.Bytes(), []byte("batch")) {
		t.Error("the file shows its text")
	}
	if _, err := read(Label{"zeta", "file", "file-1"}, file.Bytes(), find); !errors.Is(err, ErrSealed) {
		t.Errorf("as another tenant's: %v", err)
	}
	if _, err := read(label, file.Bytes(), func(string) (*DataKey, error) { return nil, ErrNoKey }); !errors.Is(err, ErrNoKey) {
		t.Errorf("with its key destroyed: %v", err)
	}
	for name, damage := range map[string]func([]byte) []byte{
		"cut off": func(b []byte) []byte { return b[:len(b)-1000] }, "without its last piece": func(b []byte) []byte { return b[:len(b)-len(text)%(64<<10)-16] },
		"altered": func(b []byte) []byte { b[len(b)/2] ^= 1; return b }, "not sealed": func([]byte) []byte { return text },
		"longer": func(b []byte) []byte { return append(b, 'x') },
	} {
		if got, err := read(label, damage(bytes.Clone(file.Bytes())), find); err == nil {
			t.Errorf("%s: it reads as %d bytes", name, len(got))
		}
	}
}

func TestMastersOpenWhatTheyWrapped(t *testing.T) {
	ctx := t.Context()
	first, second := secretMaster(t, "1"), secretMaster(t, "2")
	key, w, err := Masters{first}.New(ctx, "acme")
	if err != nil {
		t.Fatal(err)
	}
	label := Label{Tenant: "acme"}
	sealed := key.Seal(label, []byte("text"))
	opens := func(m Masters, w Wrapped) error {
		key, err := m.Open(ctx, w)
		if err == nil {
			_, err = key.Open(label, sealed)
		}
		return err
	}
	if err := opens(Masters{first}, w); err != nil {
		t.Error(err)
	}
	if err := opens(Masters{second, first}, w); err != nil {
		t.Errorf("with an older master key behind: %v", err)
	}
	if err := opens(Masters{second}, w); err == nil || !strings.Contains(err.Error(), first.ID()) || !strings.Contains(err.Error(), second.ID()) {
		t.Errorf("with another master key: %v", err)
	}
	moved := w
	moved.Tenant = "zeta"
	if err := opens(Masters{first}, moved); !errors.Is(err, ErrSealed) {
		t.Errorf("as another tenant's key: %v", err)
	}
	again, err := Masters{second, first}.Rewrap(ctx, w)
	if err != nil || again.Master != second.ID() {
		t.Fatalf("%+v, %v", again, err)
	}
	if err := opens(Masters{second}, again); err != nil {
		t.Errorf("after the rotation: %v", err)
	}
	if _, err := NewSecret([]byte("short")); err == nil {
		t.Error("a short secret is taken")
	}
}

// A program of the operator's keeps the master key: here one that adds a byte.
func TestCommandsAreMasters(t *testing.T) {
	program := filepath.Join(t.TempDir(), "kms")
	script := "#!/bin/sh\ncase \"$2\" in\nwrap) printf x; cat ;;\nunwrap) dd bs=1 skip=1 2>/dev/null ;;\nesac\n[ \"$1\" = good ] || { echo 'no such key' >&2; exit 3; }\n"
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	good, err := NewCommand([]string{program, "good"})
	if err != nil {
		t.Fatal(err)
	}
	_, w, err := Masters{good}.New(t.Context(), "acme")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (Masters{good}).Open(t.Context(), w); err != nil {
		t.Error(err)
	}
	w.Master = "command-of-another-name"
	if _, err := (Masters{secretMaster(t, "1"), good}).Open(t.Context(), w); err != nil {
		t.Errorf("the same command under another name: %v", err)
	}
	bad, err := NewCommand([]string{program, "bad"})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := (Masters{bad}).New(t.Context(), "acme"); err == nil || !strings.Contains(err.Error(), "no such key") {
		t.Errorf("a command that fails: %v", err)
	}
	if _, err := NewCommand(nil); err == nil {
		t.Error("an empty command is taken")
	}
}

// No bytes make Open panic, or open as what was not sealed.
func FuzzOpen(f *testing.F) {
	key := newKey(f, "acme")
	f.Add(key.Seal(Label{Tenant: "acme"}, []byte("text")))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, sealed []byte) {
		if plain, err := key.Open(Label{Tenant: "zeta"}, sealed); err == nil {
			t.Errorf("%q opens as %q", sealed, plain)
		}
	})
}

// No bytes make a Reader panic, or give text that was not written.
func FuzzReader(f *testing.F) {
	key := newKey(f, "acme")
	label := Label{Tenant: "acme"}
	var file bytes.Buffer
	w, err := key.Writer(label, &file)
	if err != nil {
		f.Fatal(err)
	}
	_, _ = w.Write([]byte("a text"))
	if err := w.Close(); err != nil {
		f.Fatal(err)
	}
	f.Add(file.Bytes())
	f.Add([]byte("age-encryption.org/v1\n-> weir x\n\n---\n"))
	f.Fuzz(func(t *testing.T, stored []byte) {
		r, err := Reader(label, bytes.NewReader(stored), func(string) (*DataKey, error) { return key, nil })
		if err != nil {
			return
		}
		if plain, err := io.ReadAll(r); err == nil && string(plain) != "a text" {
			t.Errorf("%q reads as %q", stored, plain)
		}
	})
}
