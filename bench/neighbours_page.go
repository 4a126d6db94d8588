package bench

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
)

// page is what the server's metrics say at a moment.
type page struct {
	steps []bucket // of weir_step_seconds, in order
	heap  int64    // bytes
	cpu   float64  // seconds that the process has had
}

// bucket is one of a histogram: how many values were at most its bound.
type bucket struct{ bound, count float64 }

// page reads the server's metrics.
func (r *neighboursRun) page(ctx context.Context) (*page, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, r.server.url+"/metrics", http.NoBody)
	if err != nil {
		return nil, err
	}
	q.Header.Set("Authorization", "Bearer "+victimKey)
	res, err := r.client.Do(q)
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("read metrics: status %d, %w", res.StatusCode, err)
	}
	return readPage(text)
}

var (
	stepBucket = regexp.MustCompile(`^weir_step_seconds_bucket\{.*le="([^"]+)"\} (\S+)$`)
	gauge      = regexp.MustCompile(`^(go_memstats_heap_inuse_bytes|process_cpu_seconds_total) (\S+)$`)
)

func readPage(text []byte) (*page, error) {
	p := &page{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		if m := stepBucket.FindStringSubmatch(lines.Text()); m != nil {
			bound, err := strconv.ParseFloat(m[1], 64)
			count, err2 := strconv.ParseFloat(m[2], 64)
			if err != nil || err2 != nil {
				return nil, fmt.Errorf("read metrics: %s", lines.Text())
			}
			p.steps = append(p.steps, bucket{bound, count})
		} else if m := gauge.FindStringSubmatch(lines.Text()); m != nil {
			value, err := strconv.ParseFloat(m[2], 64)
			if err != nil {
				return nil, fmt.Errorf("read metrics: %s", lines.Text())
			}
			if m[1] == "process_cpu_seconds_total" {
				p.cpu = value
			} else {
				p.heap = int64(value)
			}
		}
	}
	return p, lines.Err()
}

// stepsBetween are the steps between two pages. A step is taken to be as long as the middle of its bucket; the buckets are
// a fifth of their bounds wide.
func stepsBetween(before, after *page) (s Steps) {
	list := slices.Clone(after.steps)
	for i := range min(len(list), len(before.steps)) {
		list[i].count -= before.steps[i].count
	}
	lower, counted := 0.0, 0.0
	for _, b := range list {
		between := 1000 * (lower + min(b.bound, 2*lower+1)) / 2
		lower = b.bound
		if b.count <= counted {
			continue
		}
		if total := list[len(list)-1].count; counted < total/2 && b.count >= total/2 {
			s.P50 = between
		}
		s.Worst, counted = between, b.count
	}
	return s
}

func (r *neighboursRun) memory(p *page) Memory {
	return Memory{Resident: residentBytes(r.server.cmd.Process.Pid), Heap: p.heap}
}
