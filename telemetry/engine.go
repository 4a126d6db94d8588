package telemetry

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// Snapshot is a model's state and its totals since the start, read at one
// moment. cmd/weir fills it from the engine's Stats.
type Snapshot struct {
	Running       int // running requests
	Waiting       int // requests in the waiting queue
	WaitingTokens int // prompt tokens of these

	Classes []Class // nil: not known at this moment

	KVBlocks      int    // usable blocks
	KVReferenced  int    // blocks that live sequences use
	KVCached      int    // blocks of the prefix cache that no live sequence uses
	States        int    // slots for states of recurrent layers; 0 of models without
	Checkpoints   int    // of these, states behind cached prefixes that no live sequence reads
	Stateless     uint64 // prompt tokens whose blocks were in the prefix cache, and no state behind them
	KVLeaked      int    // blocks still referenced while no request runs or waits; anything but 0 is a bug
	KVEvictions   uint64
	PrefixQueries uint64 // prompt tokens looked up in the prefix cache
	PrefixHits    uint64 // prompt tokens found in the prefix cache
	Preemptions   uint64
	Paused        int // sequences without a slot that keep their KV blocks
	Pauses        uint64
	Late          uint64 // steps of sequences whose mask was not there in time
	PromptTokens  uint64 // prompt tokens of admitted requests
	PromptCached  uint64 // of PromptTokens, taken from the prefix cache
	Recomputed    uint64 // tokens computed again after preemption
	OutputTokens  uint64

	Drafts         uint64        // times that draft tokens were verified, per sequence and step
	DraftTokens    uint64        // draft tokens proposed
	AcceptedTokens uint64        // draft tokens accepted
	AcceptedAt     []uint64      // of these, by their place among the draft tokens of a step
	DraftSources   []DraftSource // of DraftTokens and AcceptedTokens
	DraftsStopped  bool          // a fault has ended drafting with the draft model or MTP head

	Adapters *Adapters // nil: there are none, or not known at this moment

	Transfer KVTransfer

	PrefillRate float64 // prompt tokens that are expected to be computed in a second
	FetchRate   float64 // prompt tokens a second whose KV blocks come from other replicas; 0: none do

	Steps      uint64
	StepPanics uint64 // recovered in the step loop
	Faults     uint64 // broken invariants that the idle check found
}

// series is one value of a Snapshot under its metric name.
type series struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*Snapshot) float64
}

// snapshotCollector turns one Snapshot per scrape into series, so that the
// values of a scrape belong to one moment.
type snapshotCollector struct {
	read   func() Snapshot
	series []series
}

func newSnapshotCollector(read func() Snapshot) *snapshotCollector {
	return &snapshotCollector{read: read, series: append(gauges(), counters()...)}
}

func gauge(name, help string, value func(*Snapshot) float64) series {
	return series{prometheus.NewDesc(name, help, nil, nil), prometheus.GaugeValue, value}
}

func total(name, help string, value func(*Snapshot) uint64) series {
	return series{
		prometheus.NewDesc(name, help, nil, nil), prometheus.CounterValue,
		func(s *Snapshot) float64 { return float64(value(s)) },
	}
}

// waitingBy counts the waiting requests by the reason why they wait. "deferred"
// are those that vLLM holds back for LoRA adapters and remote caches; weir has
// neither.
func waitingBy(reason string, value func(*Snapshot) float64) series {
	return series{prometheus.NewDesc("vllm:num_requests_waiting_by_reason", "Requests waiting to be admitted, by reason.", nil,
		prometheus.Labels{"reason": reason}), prometheus.GaugeValue, value}
}

// promptFrom counts the prompt tokens of one source.
func promptFrom(source string, value func(*Snapshot) uint64) series {
	return series{prometheus.NewDesc("vllm:prompt_tokens_by_source_total",
		"Prompt tokens of admitted requests, by source: computed or found in the prefix cache.", nil,
		prometheus.Labels{"source": source}), prometheus.CounterValue, func(s *Snapshot) float64 { return float64(value(s)) }}
}

func gauges() []series {
	return []series{
		gauge("vllm:num_requests_running", "Requests in the running batch.", func(s *Snapshot) float64 { return float64(s.Running) }),
		gauge("vllm:num_requests_waiting", "Requests waiting to be admitted.", func(s *Snapshot) float64 { return float64(s.Waiting) }),
		waitingBy("capacity", func(s *Snapshot) float64 { return float64(s.Waiting) }),
		waitingBy("deferred", func(*Snapshot) float64 { return 0 }),
		gauge("vllm:kv_cache_usage_perc", "Fraction of the KV blocks that live sequences hold; 1 is all of them.", (*Snapshot).usage),
		gauge("weir_waiting_tokens", "Prompt tokens of requests in the waiting queue.",
			func(s *Snapshot) float64 { return float64(s.WaitingTokens) }),
		gauge("weir_sequences_paused", "Sequences that gave their slot to another tenant or class and keep their KV blocks.",
			func(s *Snapshot) float64 { return float64(s.Paused) }),
		gauge("weir_kv_blocks_cached", "KV blocks of the prefix cache that no live sequence uses.",
			func(s *Snapshot) float64 { return float64(s.KVCached) }),
		gauge("weir_state_slots", "Slots for states of recurrent layers: two for each sequence that runs, the others can be checkpoints; 0 of models without such layers.",
			func(s *Snapshot) float64 { return float64(s.States) }),
		gauge("weir_state_checkpoints", "States behind cached prefixes that no live sequence uses.",
			func(s *Snapshot) float64 { return float64(s.Checkpoints) }),
		gauge("weir_prefill_tokens_per_second", "Prompt tokens that are expected to be computed in a second while nothing else is, as steps so far tell.",
			func(s *Snapshot) float64 { return s.PrefillRate }),
		gauge("weir_kv_transfer_tokens_per_second", "Prompt tokens a second whose KV blocks are expected to come from another replica; 0 where none do.",
			func(s *Snapshot) float64 { return s.FetchRate }),
		gauge("weir_drafting_stopped", "1 after a fault has ended drafting with the draft model or MTP head; anything but 0 is a bug.",
			func(s *Snapshot) float64 { return truth(s.DraftsStopped) }),
		gauge("weir_kv_blocks_leaked", "KV blocks still referenced while no request runs or waits; anything but 0 is a bug.",
			func(s *Snapshot) float64 { return float64(s.KVLeaked) }),
	}
}

func counters() []series {
	return []series{
		total("vllm:prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache.",
			func(s *Snapshot) uint64 { return s.PrefixQueries }),
		total("vllm:prefix_cache_hits_total", "Prompt tokens found in the prefix cache.",
			func(s *Snapshot) uint64 { return s.PrefixHits }),
		total("vllm:external_prefix_cache_queries_total", "Prompt tokens that were asked of other replicas' caches.",
			func(s *Snapshot) uint64 { return s.Transfer.QueryTokens }),
		total("vllm:external_prefix_cache_hits_total", "Of these, tokens whose KV blocks came.",
			func(s *Snapshot) uint64 { return s.Transfer.HitTokens }),
		total("weir_kv_transfer_fetches_total", "Fetches of KV blocks from other replicas, good ones and others.",
			func(s *Snapshot) uint64 { return s.Transfer.Fetches }),
		{prometheus.NewDesc("weir_kv_transfer_seconds_total", "Time that these took.", nil, nil), prometheus.CounterValue,
			func(s *Snapshot) float64 { return s.Transfer.Seconds }},
		total("vllm:num_preemptions_total", "Sequences preempted to free KV blocks.",
			func(s *Snapshot) uint64 { return s.Preemptions }),
		total("vllm:prompt_tokens_total", "Prompt tokens of admitted requests.", func(s *Snapshot) uint64 { return s.PromptTokens }),
		total("vllm:prompt_tokens_cached_total", "Prompt tokens taken from the prefix cache.",
			func(s *Snapshot) uint64 { return s.PromptCached }),
		promptFrom("local_compute", func(s *Snapshot) uint64 { return s.PromptTokens - s.PromptCached }),
		promptFrom("local_cache_hit", func(s *Snapshot) uint64 { return s.PromptCached }),
		total("vllm:prompt_tokens_recomputed_total", "Tokens whose KV was computed again after a preemption.",
			func(s *Snapshot) uint64 { return s.Recomputed }),
		total("vllm:generation_tokens_total", "Output tokens generated.", func(s *Snapshot) uint64 { return s.OutputTokens }),
		total("vllm:spec_decode_num_drafts_total", "Times that draft tokens were verified: once per sequence and step.",
			func(s *Snapshot) uint64 { return s.Drafts }),
		total("vllm:spec_decode_num_draft_tokens_total", "Draft tokens proposed.", func(s *Snapshot) uint64 { return s.DraftTokens }),
		total("vllm:spec_decode_num_accepted_tokens_total", "Draft tokens accepted.",
			func(s *Snapshot) uint64 { return s.AcceptedTokens }),
		total("weir_sequence_pauses_total", "Times that a sequence gave its slot to another tenant or class.",
			func(s *Snapshot) uint64 { return s.Pauses }),
		total("weir_late_masks_total", "Steps that a sequence sat out because the mask of its grammar was not computed in time.",
			func(s *Snapshot) uint64 { return s.Late }),
		total("weir_steps_total", "Engine steps.", func(s *Snapshot) uint64 { return s.Steps }),
		total("weir_step_panics_total", "Panics recovered in the step loop; anything but 0 is a bug.",
			func(s *Snapshot) uint64 { return s.StepPanics }),
		total("weir_invariant_faults_total", "Broken invariants found by the idle check; anything but 0 is a bug.",
			func(s *Snapshot) uint64 { return s.Faults }),
		total("weir_prefix_cache_stateless_tokens_total", "Prompt tokens whose blocks were in the prefix cache without a state of recurrent layers behind them: computed again.",
			func(s *Snapshot) uint64 { return s.Stateless }),
		total("weir_kv_evictions_total", "KV blocks evicted from the prefix cache.", func(s *Snapshot) uint64 { return s.KVEvictions }),
	}
}

func (s *Snapshot) usage() float64 {
	if s.KVBlocks == 0 {
		return 0
	}
	return float64(s.KVReferenced) / float64(s.KVBlocks)
}

// Describe implements prometheus.Collector.
func (c *snapshotCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, s := range c.series {
		ch <- s.desc
	}
	for _, s := range classSeries {
		ch <- s.desc
	}
	for _, d := range []*prometheus.Desc{kvBlocks, kvBytes, kvFailures, kvSkipped, adaptersDesc, draftsAt, draftsProposed, draftsAccepted} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *snapshotCollector) Collect(ch chan<- prometheus.Metric) {
	snap := c.read()
	for _, s := range c.series {
		ch <- prometheus.MustNewConstMetric(s.desc, s.kind, s.value(&snap))
	}
	snap.Transfer.collect(ch)
	snap.Adapters.collect(ch)
	snap.collectDrafts(ch)
	for i := range snap.Classes {
		class := &snap.Classes[i]
		for _, s := range classSeries {
			ch <- prometheus.MustNewConstMetric(s.desc, prometheus.GaugeValue, s.value(class), class.Name)
		}
	}
}

// cacheConfig is vLLM's info series of the KV cache. Its label num_gpu_blocks,
// which dashboards read, counts the blocks in main memory here.
func cacheConfig(i ModelInfo) prometheus.Collector {
	return infoGauge("vllm:cache_config_info", "Always 1; the labels describe the KV cache.", prometheus.Labels{
		"block_size":               strconv.Itoa(i.BlockTokens),
		"num_gpu_blocks":           strconv.Itoa(i.KVBlocks),
		"kv_cache_size_tokens":     strconv.Itoa(i.KVTokens),
		"kv_cache_max_concurrency": strconv.FormatFloat(float64(i.KVTokens)/float64(max(i.MaxModelLen, 1)), 'g', 4, 64),
		"cache_dtype":              i.KVType,
		"enable_prefix_caching":    "True",
	})
}

func modelInfo(i ModelInfo) prometheus.Collector {
	return infoGauge("weir_model_info", "Always 1; the labels describe the loaded weights.", prometheus.Labels{
		"architecture":  i.Architecture,
		"digest":        i.Digest,
		"max_model_len": strconv.Itoa(i.MaxModelLen),
		"weight_bytes":  strconv.FormatInt(i.WeightBytes, 10),
	})
}

func infoGauge(name, help string, labels prometheus.Labels) prometheus.Collector {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels})
	g.Set(1)
	return g
}
