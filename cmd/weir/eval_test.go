package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Labels name their request by id; those of requests with several rows name the row too, and only they. Ids are texts: 007 is not 7.
func TestLabelsFindTheirRows(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	log := write("log.csv", "id,row,output.p\n007,0,0.9\n7,0,0.2\nmany,0,0.1\nmany,1,0.8\n12345678901234567891,0,0.4\n")
	for _, c := range []struct{ what, labels, want string }{
		{"one-row requests alone", "id,label\n007,1\n7,0\n", "2 rows with a label; 3 predictions without, 0 labels without"},
		{"an id beyond what numbers hold", "id,label\n007,1\n12345678901234567891,0\n", "2 rows with a label; 3 predictions without, 0 labels without"},
		{"one of several rows without its number", "id,label\n007,1\nmany,0\n", `request "many" has several rows: its labels need the column "row"`},
		{"a row number that is missing", "id,row,label\n007,,1\nmany,,0\n", `request "many" has several rows`},
		{"rows where they are needed", "id,row,label\n007,,1\n7,,0\nmany,1,1\n", "3 rows with a label; 2 predictions without, 0 labels without"},
		{"a label that is missing", "id,label\n007,1\n7,0\nmany,\n", "2 rows with a label"},
	} {
		if _, out, errs := weir("eval", log, "--labels", write("labels.csv", c.labels)); !strings.Contains(out+errs, c.want) {
			t.Errorf("%s: %s%s; want %s", c.what, out, errs, c.want)
		}
	}
}
