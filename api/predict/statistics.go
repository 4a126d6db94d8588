package predict

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"weir/api"
)

// statistics count what befell the requests of each version, in Triton's terms.
type statistics struct {
	versions sync.Map // of versionKey to *counters
}

type versionKey struct{ name, version string }

// counters of one version. A request's time is split in Triton's way: queue, then
// reading the input, inference, writing the output.
type counters struct {
	last              atomic.Int64 // Unix milliseconds
	succeeded, failed duration
	queue             atomic.Uint64 // nanoseconds of requests that succeeded
	batches           [batchSizes]batchCounters
}

// batchSizes is the number of sizes of batches that are told apart, by powers of two.
const batchSizes = 16

// batchCounters are those of the requests that ran in batches of 2^i to 2^(i+1)-1 rows.
type batchCounters struct {
	executions          atomic.Uint64 // batches, in millionths: each request counts for its share
	rows                atomic.Uint64
	input, infer, write atomic.Uint64 // nanoseconds
}

// duration counts events and their nanoseconds.
type duration struct{ count, ns atomic.Uint64 }

func (d *duration) add(t time.Duration) {
	d.count.Add(1)
	addTime(&d.ns, t)
}

func addTime(to *atomic.Uint64, t time.Duration) { to.Add(uint64(max(t, 0))) } //nolint:gosec // not negative

const wholeBatch = 1_000_000

func (s *statistics) of(name, version string) *counters {
	key := versionKey{name, version}
	if c, ok := s.versions.Load(key); ok {
		return c.(*counters)
	}
	c, _ := s.versions.LoadOrStore(key, new(counters))
	return c.(*counters)
}

// count takes in a request whose prediction has ended.
func (s *statistics) count(j *job, rows int64, ok bool) {
	c := s.of(j.about.Name, j.about.Version)
	if !ok {
		c.failed.add(j.computed.Sub(j.Arrived))
		return
	}
	c.last.Store(j.computed.UnixMilli())
	c.succeeded.add(j.computed.Sub(j.Arrived))
	addTime(&c.queue, j.p.Waited)
	rows = max(rows, 1)
	batch := max(int64(j.p.Batch), rows)
	b := &c.batches[min(bits.Len64(uint64(batch)), batchSizes)-1] //nolint:gosec // above 0
	b.executions.Add(uint64(max(wholeBatch*rows/batch, 1)))       //nolint:gosec // above 0
	b.rows.Add(uint64(rows))
	addTime(&b.input, j.parsed.Sub(j.Arrived))
	addTime(&b.infer, j.p.Computed)
	addTime(&b.write, j.computed.Sub(j.parsed)-j.p.Waited-j.p.Computed)
}

// durationJSON and below are Triton's statistics.
type durationJSON struct {
	Count uint64 `json:"count"`
	Ns    uint64 `json:"ns"`
}

func (d *duration) json() durationJSON { return durationJSON{d.count.Load(), d.ns.Load()} }

type modelStats struct {
	Name           string         `json:"name"`
	Version        string         `json:"version"`
	LastInference  int64          `json:"last_inference"`
	InferenceCount uint64         `json:"inference_count"`
	ExecutionCount uint64         `json:"execution_count"`
	Inference      inferenceStats `json:"inference_stats"`
	Batches        []batchStats   `json:"batch_stats"`
}

// batchStats are of batches with Size rows or more, but fewer than twice as many.
type batchStats struct {
	Size   uint64       `json:"batch_size"`
	Input  durationJSON `json:"compute_input"`
	Infer  durationJSON `json:"compute_infer"`
	Output durationJSON `json:"compute_output"`
}

type inferenceStats struct {
	Success durationJSON `json:"success"`
	Fail    durationJSON `json:"fail"`
	Queue   durationJSON `json:"queue"`
	Input   durationJSON `json:"compute_input"`
	Infer   durationJSON `json:"compute_infer"`
	Output  durationJSON `json:"compute_output"`
	Hit     durationJSON `json:"cache_hit"`
	Miss    durationJSON `json:"cache_miss"`
}

// ofModel is what was counted of one version.
func (s *statistics) ofModel(name, version string) modelStats {
	c := s.of(name, version)
	ok := c.succeeded.json()
	m := modelStats{
		Name: name, Version: version, LastInference: c.last.Load(), Batches: []batchStats{},
		Inference: inferenceStats{Success: ok, Fail: c.failed.json(), Queue: durationJSON{ok.Count, c.queue.Load()}},
	}
	all := &m.Inference
	all.Input.Count, all.Infer.Count, all.Output.Count = ok.Count, ok.Count, ok.Count
	executions := uint64(0)
	for i := range c.batches {
		b := &c.batches[i]
		n := b.executions.Load()
		if n == 0 {
			continue
		}
		executions += n
		n = max((n+wholeBatch/2)/wholeBatch, 1)
		one := batchStats{1 << i, durationJSON{n, b.input.Load()}, durationJSON{n, b.infer.Load()}, durationJSON{n, b.write.Load()}}
		m.Batches = append(m.Batches, one)
		m.InferenceCount += b.rows.Load()
		all.Input.Ns, all.Infer.Ns, all.Output.Ns = all.Input.Ns+one.Input.Ns, all.Infer.Ns+one.Infer.Ns, all.Output.Ns+one.Output.Ns
	}
	m.ExecutionCount = (executions + wholeBatch/2) / wholeBatch
	return m
}

// modelStatistics answers for one model, for one version of it, or for all.
func (c *call) modelStatistics() *api.Error {
	list, fault := c.statisticsOf(&c.job, c.Params.Name, c.Params.Version)
	if fault != nil {
		return fault
	}
	return c.json(map[string]any{"model_stats": list})
}

// statisticsOf lists what the job's caller may see: of one model, or of all for "".
func (s *Server) statisticsOf(j *job, model, version string) ([]modelStats, *api.Error) {
	if model != "" {
		if fault := s.use(j, model, version); fault != nil {
			return nil, fault
		}
		model = j.about.Name
	}
	list := []modelStats{}
	for _, m := range s.visible(j) {
		if m.Ready && (model == "" || m.Name == model) && (version == "" || m.Version == version) {
			list = append(list, s.stats.ofModel(m.Name, m.Version))
		}
	}
	return list, nil
}
