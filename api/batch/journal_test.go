package batch

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func readJournal(t testing.TB, path string) (*journal, []string) {
	t.Helper()
	var got []string
	j, err := openJournal(path, nil, func(r record) { got = append(got, fmt.Sprintf("%d %v %s", r.index, r.succeeded, r.text)) })
	if err != nil {
		t.Fatal(err)
	}
	return j, got
}

// Whatever a crash leaves of the last write, the records before it stay, and the next ones are written behind them.
func TestJournalCutAtEachByte(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j")
	j, _ := readJournal(t, path)
	records := []record{{index: 7, succeeded: true, text: []byte("seven\n")}, {index: 3, text: []byte("no")}, {index: maxLines - 1, succeeded: true, text: []byte(strings.Repeat("x", 20))}}
	if err := errors.Join(j.append(records[:2]), j.append(records[2:]), j.close()); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, r := range records {
		all = append(all, fmt.Sprintf("%d %v %s", r.index, r.succeeded, r.text))
	}
	ends := []int{0, 19, 34, len(whole)}
	for size := range len(whole) + 1 {
		for _, tail := range []string{"", strings.Repeat("\x00", 64), "\xff\xff\xff\x7f\x01\x02\x03\x04rest"} {
			if err := os.WriteFile(path, append(slices.Clone(whole[:size]), tail...), 0o600); err != nil {
				t.Fatal(err)
			}
			complete := 0
			for complete+1 < len(ends) && ends[complete+1] <= size {
				complete++
			}
			j, got := readJournal(t, path)
			if !slices.Equal(got, all[:complete]) || j.size != int64(ends[complete]) {
				t.Fatalf("of %d bytes and %q: %q", size, tail, got)
			}
			if err := errors.Join(j.append([]record{{index: 1, succeeded: true, text: []byte("next")}}), j.close()); err != nil {
				t.Fatal(err)
			}
			j, got = readJournal(t, path)
			if want := append(slices.Clone(all[:complete]), "1 true next"); !slices.Equal(got, want) || !j.isDone(1) {
				t.Fatalf("of %d bytes and %q, gone on from: %q", size, tail, got)
			}
			if err := j.close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestJournalIsOneProcessesAtATime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j")
	j, _ := readJournal(t, path)
	if _, err := openJournal(path, nil, nil); !errors.Is(err, errBusy) {
		t.Errorf("a journal that is open: %v", err)
	}
	if err := j.close(); err != nil {
		t.Fatal(err)
	}
	j, _ = readJournal(t, path)
	if err := j.close(); err != nil {
		t.Fatal(err)
	}
}

func FuzzJournal(f *testing.F) {
	f.Add(appendRecord(appendRecord(nil, record{index: 1, succeeded: true, text: []byte("a")}), record{index: 2}))
	f.Add([]byte("\xff\xff\xff\x0f\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		in := bytes.NewReader(data)
		var buf, again []byte
		for {
			r, n, err := readRecord(in, &buf)
			if err != nil {
				if !errors.Is(err, errTorn) && !errors.Is(err, io.EOF) {
					t.Fatal(err)
				}
				break
			}
			if again = appendRecord(again, r); n > len(data) || r.index < 0 || r.index >= maxLines {
				t.Fatalf("%d bytes, record %d", n, r.index)
			}
		}
		if !bytes.HasPrefix(data, again) {
			t.Fatal("records that were read are not those that were written")
		}
	})
}
