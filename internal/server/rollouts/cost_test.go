package rollouts_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"weir/configs"
	"weir/engine/gguf"
	"weir/internal/reference"
	"weir/internal/server/servertest"
	"weir/router/rollout"
	"weir/scheduler/quota"
)

// deeper writes a model with so many times its blocks: those that are added add nothing, so that it says the same with as many times the
// computing.
func deeper(t *testing.T, path string, times int) string {
	t.Helper()
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, blocks := &gguf.Builder{}, 0
	for _, kv := range f.KV {
		if n, ok := kv.Value.(uint32); ok && strings.HasSuffix(kv.Key, ".block_count") {
			blocks = int(n)
			kv.Value = uint32(blocks * times)
		}
		b.Set(kv.Key, kv.Value)
	}
	for i := range f.Tensors {
		tensor := &f.Tensors[i]
		data := make([]byte, tensor.RowBytes()*int64(tensor.Rows()))
		if err := f.ReadTensor(tensor, data); err != nil {
			t.Fatal(err)
		}
		b.Tensor(tensor.Name, tensor.Dims, tensor.Type, data)
		block, part, of := strings.Cut(strings.TrimPrefix(tensor.Name, "blk."), ".")
		if !of || !strings.HasPrefix(tensor.Name, "blk.") {
			continue
		}
		for copied := 1; copied < times; copied++ {
			more := data
			if part == "attn_output.weight" || part == "ffn_down.weight" {
				more = make([]byte, len(data)) // what the block adds to its input
			}
			var n int
			if _, err := fmt.Sscan(block, &n); err != nil {
				t.Fatal(err)
			}
			b.Tensor(fmt.Sprintf("blk.%d.%s", copied*blocks+n, part), tensor.Dims, tensor.Type, more)
		}
	}
	deep := filepath.Join(t.TempDir(), "deeper.gguf")
	if err := b.WriteFile(deep); err != nil {
		t.Fatal(err)
	}
	return deep
}

// A candidate that says the same with twice the computing is not tried; without the check it is taken back once it has users, of whom none is
// harmed. A part of a tiny model's computing time is the same for any depth; and with users the dearer version of a larger one has more
// requests at once, which makes its tokens cheaper, so that its gaps tell it and not its computing.
func TestCorrectAtTwiceTheComputing(t *testing.T) {
	reference.Slow(t)
	t.Run("tiny", func(t *testing.T) {
		testTwiceTheComputing(t, filepath.Join(reference.Path(t, "testdata/stories"), "stories260K.gguf"), 6, "itl_ratio")
	})
	t.Run("smollm2", func(t *testing.T) {
		if !reference.Long() {
			t.Skip("computes a real model for twenty seconds, in long runs only")
		}
		testTwiceTheComputing(t, reference.Model(t, "smollm2"), 2, "compute_ratio")
	})
}

func testTwiceTheComputing(t *testing.T, model string, times int, off string) {
	s := servertest.Start(t, func(c *configs.Config) {
		c.Store.URL = "sqlite:" + t.TempDir() + "/weir.db"
		c.Engine.KVMemoryBytes = 64 << 20
		c.Models = []configs.ServedModel{{Name: "chat", Version: "1", Path: model}, {Name: "chat", Version: "2", Path: deeper(t, model, times), Load: configs.LoadNever}}
	})
	var text atomic.Pointer[string]
	tell := func(n int) (arm string) {
		var got struct{ Choices []struct{ Text string } }
		r, err := http.Post(s.API+"/v1/completions", "application/json", strings.NewReader(fmt.Sprintf(
			`{"model":"chat","prompt":"Once upon a time","temperature":0,"max_tokens":24,"prompt_cache_key":"%d"}`, n)))
		if err != nil {
			t.Error(err)
			return ""
		}
		defer r.Body.Close()
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil || r.StatusCode != http.StatusOK || len(got.Choices) != 1 {
			t.Errorf("status %d: %v", r.StatusCode, err)
			return ""
		}
		if said := got.Choices[0].Text; !text.CompareAndSwap(nil, &said) && *text.Load() != said {
			t.Errorf("%s says %q, not %q", r.Header.Get("X-Weir-Arm"), said, *text.Load())
		}
		return r.Header.Get("X-Weir-Arm")
	}
	if tell(0); len(*text.Load()) < 40 {
		t.Fatalf("the story is %q", *text.Load())
	}
	if status, _, why := s.Rollout("", `{"model": "chat", "candidate": "2", "gates": {"itl_ratio": -1}}`); status != http.StatusConflict || !strings.Contains(why, "candidate_failed_check") || !strings.Contains(why, "computing") {
		t.Errorf("the check: %d %.300s", status, why)
	}
	if status, _, why := s.Rollout("", `{"model": "chat", "candidate": "2", "unchecked": true, "gates": {"ttft_ratio": -1, "`+off+`": -1, "p99_ratio": -1},
		"steps": [{"percent": 50, "min_requests": 100000, "min_time": "10m"}]}`); status != http.StatusOK {
		t.Fatalf("%d %.300s", status, why)
	}
	var asked atomic.Int64
	done := s.AwaitRollout(rollout.RolledBack, func(n int) {
		if tell(n) == rollout.Candidate.String() {
			asked.Add(1)
		}
	})
	t.Logf("taken back after %d answers, %.2f times the computing: %s", asked.Load(), done.Arms[1].Compute/done.Arms[0].Compute, done.Reason)
	gate := map[string]string{"itl_ratio": "computing time of a token", "compute_ratio": "gap between tokens"}[off]
	if !strings.Contains(done.Reason, gate) {
		t.Errorf("it was taken back for %q, with %g and %g s for a token", done.Reason, done.Arms[1].Compute, done.Arms[0].Compute)
	}
}

// A version that other processes compute, which says the same at twice the price, is taken back for it, and none of its users is harmed.
func TestCorrectAtTwiceThePrice(t *testing.T) {
	reference.Slow(t)
	stable, dear := servertest.StartProcess(t, 512), servertest.StartProcess(t, 512)
	s := servertest.Start(t, func(c *configs.Config) {
		c.Store.URL = "sqlite:" + t.TempDir() + "/weir.db"
		c.Models = []configs.ServedModel{servertest.ChatVersion("1", stable.API, configs.EmbeddedName), servertest.ChatVersion("2", dear.API, configs.EmbeddedName)}
		c.Models[1].Load = configs.LoadNever
		c.Prices = map[string]quota.Price{"chat": {Input: 1e6, CachedInput: 1e6, Output: 1e6}, "chat@2": {Input: 2e6, CachedInput: 2e6, Output: 2e6}}
	})
	s.AwaitVersion("1")
	if status, _, why := s.Rollout("", `{"model": "chat", "candidate": "2", "gates": {"ttft_ratio": -1, "itl_ratio": -1, "p99_ratio": -1},
		"steps": [{"percent": 50, "min_requests": 100000, "min_time": "10m"}]}`); status != http.StatusOK {
		t.Fatalf("%d %s", status, why) // its words are right, and so is its speed
	}
	var users [2]atomic.Int64
	done := s.AwaitRollout(rollout.RolledBack, func(n int) {
		arm, status, _ := s.AskChat(n, 8)
		if status != http.StatusOK {
			t.Errorf("status %d", status)
		}
		if arm != "" {
			users[rollout.ArmOf(arm)].Add(1)
		}
	})
	t.Logf("taken back after %d answers beside %d: %s", users[1].Load(), users[0].Load(), done.Reason)
	if !strings.Contains(done.Reason, "cost") || done.Arms[1].Cost < 1.9*done.Arms[0].Cost || done.Arms[1].Failed > 0 {
		t.Errorf("it was taken back for %q, at %g and %g", done.Reason, done.Arms[1].Cost, done.Arms[0].Cost)
	}
}
