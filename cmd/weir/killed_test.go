package main

import (
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/telemetry/predictions"
)

// answered is a prediction that a client has the answer of.
type answered struct {
	id string
	at time.Time
}

// predictUntil asks for predictions of rows rows until the server is gone, and returns the
// answered ones.
func (p *process) predictUntil(clients, rows int) (wait func() []answered) {
	body := `{"instances": [[6, 3, 5, 2]` + strings.Repeat(`, [5.1, 3.5, 1.4, 0.2]`, rows-1) + `]}`
	var mu sync.Mutex
	var all []answered
	var clientsDone sync.WaitGroup
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}, Timeout: patience}
	for range clients {
		clientsDone.Go(func() {
			for {
				r, err := client.Post(p.api+"/v1/models/weir-iris:predict", "application/json", strings.NewReader(body))
				if err != nil {
					return
				}
				_, err = io.Copy(io.Discard, r.Body)
				r.Body.Close()
				if err != nil {
					return
				}
				if r.StatusCode != http.StatusOK {
					p.t.Errorf("status %d", r.StatusCode)
					return
				}
				mu.Lock()
				all = append(all, answered{r.Header.Get("X-Request-Id"), time.Now()})
				mu.Unlock()
				time.Sleep(time.Millisecond) // so that the log's queue is never full and drops none
			}
		})
	}
	return func() []answered {
		clientsDone.Wait()
		return all
	}
}

// A process that is killed amid predictions loses the rows of its unfinished file, those of
// the last --prediction-log-age, and no others; what has a name is whole, and the next
// process writes on beside it.
func TestThePredictionLogOfAKilledProcess(t *testing.T) {
	const age, rows = time.Second, 3
	folder := t.TempDir()
	flags := []string{"--prediction-log", folder, "--prediction-log-age", age.String(), "--prediction-log-bytes", "64KiB"}
	p := startProcess(t, 256, flags...)
	wait := p.predictUntil(4, rows)
	time.Sleep(2500 * time.Millisecond)
	killed := time.Now()
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	all := wait()
	table, err := predictions.ReadTable(folder)
	if err != nil {
		t.Fatal(err)
	}
	logged := make(map[string]int)
	for _, id := range table.Text(predictions.ColumnID) {
		logged[id]++
	}
	lost := 0
	for _, a := range all {
		switch n := logged[a.id]; {
		case n == rows:
		case n == 0 && killed.Sub(a.at) < 2*age: // the file's age, and as long again for a slow machine
			lost++
		default:
			t.Fatalf("request %s, answered %v before the end, has %d of %d rows in the log", a.id, killed.Sub(a.at), n, rows)
		}
	}
	whole, partial := logFiles(t, folder)
	if len(all) < 100 || lost == len(all) || whole == 0 || partial != 1 {
		t.Errorf("%d of %d requests are lost; %d whole files and %d partial ones", lost, len(all), whole, partial)
	}
	t.Logf("%d of %d requests are lost; %d whole files and %d partial ones", lost, len(all), whole, partial)

	again := startProcess(t, 256, flags...)
	if status, answer := again.predict("weir-iris", `{"instances": [[6, 3, 5, 2]]}`); status != http.StatusOK {
		t.Fatalf("after the restart: %d %s", status, answer)
	}
	if err := again.end(); err != nil {
		t.Errorf("the process ended with %v", err)
	}
	after, err := predictions.ReadTable(folder)
	if err != nil || after.Rows != table.Rows+1 {
		t.Errorf("%d rows after the restart, want %d: %v", after.Rows, table.Rows+1, err)
	}
}

// logFiles counts the files of a log.
func logFiles(t *testing.T, folder string) (whole, partial int) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil || entry.IsDir():
		case strings.HasSuffix(path, ".parquet"):
			whole++
		case strings.HasSuffix(path, ".parquet.partial"):
			partial++
		default:
			err = fmt.Errorf("%s is neither whole nor partial", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return whole, partial
}
