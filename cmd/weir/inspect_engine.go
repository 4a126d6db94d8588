package main

import (
	"errors"
	"fmt"
	"strings"

	"weir/configs"
	"weir/engine/gguf"
	"weir/engine/kernel/attend"
	"weir/engine/llm"
	"weir/internal/console"
	"weir/internal/server/local"
	"weir/internal/unit"
)

// engineReport is how the model would run, in bytes and tokens.
type engineReport struct {
	Architecture    string   `json:"architecture"`
	Layers          int      `json:"layers"`
	Width           int      `json:"width"`
	Heads           int      `json:"heads"`
	KVHeads         int      `json:"kv_heads"`
	HeadDim         int      `json:"head_dim"`
	FeedForward     int      `json:"feed_forward"`
	Experts         int      `json:"experts,omitempty"`      // of a layer that has some
	ExpertsUsed     int      `json:"experts_used,omitempty"` // of a token
	VocabSize       int      `json:"vocab_size"`
	ContextLength   int      `json:"context_length"`
	MaxModelLen     int      `json:"max_model_len"`
	WeightBytes     int64    `json:"weight_bytes"`
	DraftBytes      int64    `json:"draft_model_bytes,omitempty"`    // weights, keys and values of --speculative-model; of an MTP head keys and values
	DraftKVBytes    int64    `json:"draft_kv_cache_bytes,omitempty"` // of these, keys and values, which are a part of --kv-cache-memory-bytes
	CacheBytes      int64    `json:"cache_bytes"`                    // what --kv-cache-memory-bytes bounds: keys and values, the drafts', and states
	MemoryBytes     int64    `json:"memory_bytes"`                   // in all
	AdapterBytes    int64    `json:"adapter_bytes,omitempty"`        // of all that --lora-modules names, on top
	TableBytes      int64    `json:"table_bytes,omitempty"`          // of a table that stays in the file, see llm.Info
	KVType          string   `json:"kv_cache_dtype"`
	KVCost          *float64 `json:"kv_cache_cost_nats,omitempty"` // of q8_0; absent: not measured
	KVBytes         int64    `json:"kv_cache_bytes"`
	KVTokens        int      `json:"kv_cache_tokens"`
	KVBlocks        int      `json:"kv_cache_blocks"`
	BlockTokens     int      `json:"block_size"`
	KVBytesPerToken int      `json:"kv_cache_bytes_per_token"`
	StateBytes      int64    `json:"state_bytes_per_sequence,omitempty"` // of recurrent layers
	States          int      `json:"state_slots,omitempty"`
	MTP             bool     `json:"mtp_head,omitempty"` // --speculative-mtp can draft with it
	Sequences       int      `json:"sequences_of_full_length"`
	Threads         int      `json:"threads"`
	Digest          string   `json:"digest"`

	// Text encoders have these; they have no KV cache.
	Embeds     bool     `json:"embeds"`
	Pooling    string   `json:"pooling,omitempty"`
	Dimensions int      `json:"dimensions,omitempty"`
	Scores     int      `json:"scores,omitempty"`
	Labels     []string `json:"labels,omitempty"`
	Decides    bool     `json:"decides,omitempty"` // it has a decision head
	// DecisionType is how a language model decides, as its file says.
	DecisionType string `json:"decision_type,omitempty"`

	Adapters []adapterReport `json:"adapters,omitempty"` // of --lora-modules

	Windows []windowReport `json:"windows,omitempty"` // of layers that see no further; absent: all see all

	IfF16 *cacheReport `json:"kv_cache_if_f16,omitempty"` // what the cache would be then; absent where its type is known

	info  llm.Info
	gives string // what a text is answered with, of text encoders
}

// printExperts tells how many experts steps read, in mixtures.
func (e *engineReport) printExperts(row func(...string)) {
	if e.Experts == 0 {
		return
	}
	row("experts", fmt.Sprintf("%d of %d for each token; a step of 16 sequences reads about %.0f",
		e.ExpertsUsed, e.Experts, e.info.ExpertsTouched(16)))
}

// printDrafts tells what proposes draft tokens, or could.
func (e *engineReport) printDrafts(row func(...string)) {
	switch {
	case e.info.MTPUsed:
		row("drafts", "by its MTP head")
	case e.DraftBytes > 0:
		row("drafts", "by a model of its own")
	case e.MTP:
		row("drafts", "it has an MTP head: --speculative-mtp drafts with it")
	}
}

// printTable tells of a table that is not in memory, in models that have one.
func (e *engineReport) printTable(row func(...string)) {
	if e.TableBytes > 0 {
		row("embeddings", unit.Bytes(e.TableBytes)+" stay in the file, of which each token reads a row; what is read often lies in the page cache")
	}
}

// cacheReport is how much a KV cache holds.
type cacheReport struct {
	Bytes       int64 `json:"bytes"`
	Tokens      int   `json:"tokens"`
	MaxModelLen int   `json:"max_model_len"`
	Sequences   int   `json:"sequences_of_full_length"`
}

// printCache tells what the KV cache holds, and what it would hold where measuring may choose another type.
func (e *engineReport) printCache(row func(...string)) {
	row("kv cache", fmt.Sprintf("%d tokens in %s (%s): %s%s", e.KVTokens, e.KVType, e.each("each"),
		local.Sequences(e.Sequences, e.MaxModelLen), e.kept()))
	if s := local.States(e.info); s != "" {
		row("states", s)
	}
	if e.KVCost != nil || e.KVType == attend.KVQ8.String() {
		row("kv cost", local.ShowCacheCost(e.KVCost))
	}
	if f := e.IfF16; f != nil {
		row("with f16", fmt.Sprintf("%d tokens in %s: %s", f.Tokens, unit.Bytes(f.Bytes), local.Sequences(f.Sequences, f.MaxModelLen)))
	}
}

// describeConfigured is describeEngine with the draft model and the adapters of a configuration beside it.
func describeConfigured(f *gguf.File, c configs.Config, o llm.Options) (*engineReport, error) {
	r, err := describeEngine(f, o)
	if err != nil {
		return nil, err
	}
	if r.Embeds {
		if len(c.Model.Adapters) > 0 {
			return nil, errors.New("--lora-modules: a text encoder takes no adapters; leave them out, or serve a language model")
		}
		return r, nil
	}
	adapters, err := local.DescribeAdapters(f, c, o)
	if err != nil {
		return nil, fmt.Errorf("--lora-modules: %w", err)
	}
	if c.Engine.DraftPath != "" {
		done, err := local.OpenDraft(c, &o)
		if err != nil {
			return nil, err
		}
		defer done()
		if r, err = describeEngine(f, o); err != nil {
			return nil, err
		}
	}
	r.addAdapters(adapters)
	return r, nil
}

// describeEngine reports how a file would run. Before the first load has measured what q8_0 costs, it may be f16.
func describeEngine(f *gguf.File, o llm.Options) (*engineReport, error) {
	info, err := llm.Describe(f, o)
	if err != nil {
		return nil, err
	}
	r := newEngineReport(info)
	if o.KVType != attend.KVAuto || info.KVType != attend.KVQ8.String() || info.KVCost != nil {
		return r, nil
	}
	o.KVType = attend.KVF16
	if wide, err := llm.Describe(f, o); err == nil { // else the cost alone decides whether the model runs
		r.IfF16 = &cacheReport{wide.KVBytes, wide.KVTokens, wide.MaxModelLen, local.FullSequences(wide)}
	}
	return r, nil
}

func newEngineReport(i llm.Info) *engineReport {
	r := &engineReport{
		Architecture: i.Architecture, Layers: i.Layers, Width: i.Width, Heads: i.Heads, KVHeads: i.KVHeads,
		HeadDim: i.HeadDim, FeedForward: i.FeedForward, Experts: i.Experts, ExpertsUsed: i.ExpertsUsed, VocabSize: i.VocabSize,
		ContextLength: i.ContextLength, MaxModelLen: i.MaxModelLen, WeightBytes: i.WeightBytes, TableBytes: i.TableBytes, DraftBytes: i.DraftBytes, DraftKVBytes: i.DraftKVBytes,
		CacheBytes: i.CacheBytes(), MemoryBytes: i.MemoryBytes(),
		KVType: i.KVType, KVCost: i.KVCost, KVBytes: i.KVBytes, KVTokens: i.KVTokens, KVBlocks: i.KVBlocks,
		BlockTokens: i.BlockTokens, KVBytesPerToken: i.KVBytesPerToken, Sequences: local.FullSequences(i),
		Threads: i.Threads, Digest: i.Digest, info: i, StateBytes: i.StateBytes, States: i.States,
		MTP:    i.MTP,
		Embeds: i.Embeds, Dimensions: i.Dimensions, Scores: i.Scores, Labels: i.Labels, Decides: i.Decides,
		DecisionType: i.DecisionType,
	}
	for _, w := range i.Windows {
		if w.Positions > 0 {
			r.Windows = append(r.Windows, windowReport{w.Positions, w.Layers})
		}
	}
	if i.Embeds {
		r.Pooling, r.gives = i.Pooling.String(), local.Gives(i)
	}
	return r
}

// windowReport is layers that see so many tokens, of which the KV cache keeps no more.
type windowReport struct {
	Tokens int `json:"tokens"`
	Layers int `json:"layers"`
}

// kept says what layers keep, where some have windows; "" where none has.
func (e *engineReport) kept() string {
	var text strings.Builder
	for _, w := range e.Windows {
		fmt.Fprintf(&text, "; %d of %d layers keep %d tokens", w.Layers, e.Layers, w.Tokens)
	}
	return text.String()
}

// each is what tokens take.
func (e *engineReport) each(which string) string {
	if e.Windows == nil {
		return fmt.Sprintf("%d B %s", e.KVBytesPerToken, which)
	}
	return fmt.Sprintf("%d B %s, %d B within windows", e.info.KVBytesBehind, which, e.KVBytesPerToken)
}

func (r *report) printEngine(row func(...string)) {
	if !r.Supported {
		row("runs", "no: "+console.Printable(r.WhyNot))
		return
	}
	e := r.Engine
	row("runs", "yes, as "+e.Architecture)
	switch {
	case e.Embeds:
		row("gives", e.gives)
	case !r.Chats:
		row("chats", "no: "+console.Printable(r.WhyNoChat))
	case r.ChatNote != "":
		row("chats", "yes: "+console.Printable(r.ChatNote))
	default:
		row("chats", "yes, with its own template")
	}
	if r.Calls != "" {
		row("tool calls", "as "+r.Calls)
	}
	if len(r.Thoughts) > 0 {
		row("thoughts", fmt.Sprintf("between %q and %q", r.Thoughts[0], r.Thoughts[1]))
	}
	if e.DecisionType != "" {
		row("decides", "as "+e.DecisionType)
	}
	row("tokenizer", r.Tokenizer)
	row("shape", fmt.Sprintf("%d layers, width %d, %d heads of %d, %d key-value heads, feed-forward %d, vocabulary %d",
		e.Layers, e.Width, e.Heads, e.HeadDim, e.KVHeads, e.FeedForward, e.VocabSize))
	e.printExperts(row)
	row("context", fmt.Sprintf("%d tokens; %d would be served", e.ContextLength, e.MaxModelLen))
	if e.Embeds {
		row("memory", unit.Bytes(e.WeightBytes)+" of weights")
		row("digest", e.Digest)
		return
	}
	row("memory", local.Memory(e.info))
	e.printDrafts(row)
	e.printAdapters(row)
	e.printTable(row)
	e.printCache(row)
	row("digest", e.Digest)
}
