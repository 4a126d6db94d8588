package server_test

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

	"weir/internal/reference"
	"weir/internal/server/servertest"
	"weir/telemetry/monitor/predictions"
)

// predictUntil asks for predictions of rows rows until the server is gone, and returns the ids
// of each client's answered ones, in their order.
func predictUntil(p *servertest.Process, clients, rows int) (wait func() [][]string) {
	body := `{"instances": [[6, 3, 5, 2]` + strings.Repeat(`, [5.1, 3.5, 1.4, 0.2]`, rows-1) + `]}`
	all := make([][]string, clients)
	var clientsDone sync.WaitGroup
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}, Timeout: servertest.Patience}
	for c := range clients {
		clientsDone.Go(func() {
			for {
				r, err := client.Post(p.API+"/v1/models/weir-iris:predict", "application/json", strings.NewReader(body))
				if err != nil {
					return
				}
				_, err = io.Copy(io.Discard, r.Body)
				r.Body.Close()
				if err != nil {
					return
				}
				if r.StatusCode != http.StatusOK {
					p.T.Errorf("status %d", r.StatusCode)
					return
				}
				all[c] = append(all[c], r.Header.Get("X-Request-Id"))
				time.Sleep(5 * time.Millisecond) // so that the log's queue is never full and drops none
			}
		})
	}
	return func() [][]string {
		clientsDone.Wait()
		return all
	}
}

// A process that is killed amid predictions loses the rows of its unfinished file and no
// others, so of each client the last ones; what has a name is whole, and the next process
// writes on beside it. (A file is finished at --prediction-log-age.)
func TestThePredictionLogOfAKilledProcess(t *testing.T) {
	reference.Slow(t)
	t.Parallel()
	const rows = 3
	folder := t.TempDir()
	flags := []string{"--prediction-log", folder, "--prediction-log-age", "1s", "--prediction-log-bytes", "64KiB"}
	p := servertest.StartProcess(t, 256, flags...)
	wait := predictUntil(p, 4, rows)
	for end := time.Now().Add(servertest.Patience); ; time.Sleep(20 * time.Millisecond) {
		if whole, _ := logFiles(t, folder); whole >= 2 {
			break
		} else if time.Now().After(end) {
			t.Fatalf("%d files\n%s", whole, p.Errs.String())
		}
	}
	p.Kill()
	all := wait()
	table, err := predictions.ReadTable(folder)
	if err != nil {
		t.Fatal(err)
	}
	logged := make(map[string]int)
	for _, id := range table.Text(predictions.ColumnID) {
		logged[id]++
	}
	asked, lost := 0, 0
	for c, ids := range all {
		lostBefore := lost
		for i, id := range ids {
			switch n := logged[id]; {
			case n == 0:
				lost++
			case n != rows || lost > lostBefore:
				t.Fatalf("request %d of %d of client %d has %d of %d rows in the log, and %d before it are lost",
					i, len(ids), c, n, rows, lost-lostBefore)
			}
		}
		asked += len(ids)
	}
	whole, partial := logFiles(t, folder)
	if lost == asked || partial > 1 {
		t.Errorf("%d of %d requests are lost; %d whole files and %d partial ones", lost, asked, whole, partial)
	}
	t.Logf("%d of %d requests are lost; %d whole files and %d partial ones", lost, asked, whole, partial)

	again := servertest.StartProcess(t, 256, flags...)
	if status, answer := again.Predict("weir-iris", `{"instances": [[6, 3, 5, 2]]}`); status != http.StatusOK {
		t.Fatalf("after the restart: %d %s", status, answer)
	}
	if err := again.End(); err != nil {
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
