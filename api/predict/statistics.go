package predict

import (
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
	last       atomic.Int64 // Unix milliseconds
	rows       atomic.Uint64
	executions atomic.Uint64 // batches, in millionths: each request counts for its share

	succeeded, failed          duration
	queue, input, infer, write duration
}

// duration counts events and their nanoseconds.
type duration struct{ count, ns atomic.Uint64 }

func (d *duration) add(t time.Duration) {
	d.count.Add(1)
	d.ns.Add(uint64(max(t, 0))) //nolint:gosec // not negative
}

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
		c.failed.add(j.computed.Sub(j.arrived))
		return
	}
	c.last.Store(j.computed.UnixMilli())
	c.rows.Add(uint64(max(rows, 0))) //nolint:gosec // not negative
	share := uint64(wholeBatch)
	if j.p.Batch > 0 && rows > 0 {
		share = wholeBatch * uint64(rows) / uint64(max(int64(j.p.Batch), rows)) //nolint:gosec // above 0
	}
	c.executions.Add(share)
	c.succeeded.add(j.computed.Sub(j.arrived))
	c.queue.add(j.p.Waited)
	c.input.add(j.parsed.Sub(j.arrived))
	c.infer.add(j.p.Computed)
	c.write.add(j.computed.Sub(j.parsed) - j.p.Waited - j.p.Computed)
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
	Batches        []struct{}     `json:"batch_stats"` // by size; not counted
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
	return modelStats{
		Name: name, Version: version, LastInference: c.last.Load(), InferenceCount: c.rows.Load(),
		ExecutionCount: (c.executions.Load() + wholeBatch/2) / wholeBatch,
		Inference: inferenceStats{
			Success: c.succeeded.json(), Fail: c.failed.json(), Queue: c.queue.json(),
			Input: c.input.json(), Infer: c.infer.json(), Output: c.write.json(),
		},
		Batches: []struct{}{},
	}
}

// modelStatistics answers for one model, for one version of it, or for all.
func (c *call) modelStatistics() *api.Error {
	list, fault := c.statisticsOf(&c.job, c.route.model, c.route.version)
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
