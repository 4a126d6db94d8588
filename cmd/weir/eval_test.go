package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/configs"
	"weir/internal/server/servertest"
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

// The log of a server's predictions is compared with labels by the ids of their requests.
func TestEvalReadsTheLogOfAServer(t *testing.T) {
	log := t.TempDir()
	s := servertest.Start(t, func(c *configs.Config) { c.Predict.Log.Folder = log })
	labels := "id,label\n"
	for i := range 3 {
		id := fmt.Sprint("mine-", i)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.API+"/v1/models/weir-iris:predict", strings.NewReader(`{"instances": [[5.1, 3.5, 1.4, 0.2]]}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Request-Id", id)
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		labels += id + ",0\n"
	}
	if err := s.End(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "labels.csv")
	if err := os.WriteFile(file, []byte(labels), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := weir("eval", log, "--labels", file); code != exitOK || !strings.Contains(out, "3 rows with a label; 0 predictions without, 0 labels without a prediction") {
		t.Errorf("%d %s%s", code, out, errs)
	}
}
