package scheduler_test

import (
	"fmt"
	"time"

	"weir/internal/inference"
	"weir/kvcache"
	"weir/scheduler"
)

// An engine plans a step, computes it and commits what was sampled, until no request is left.
func Example() {
	pool, err := kvcache.New(kvcache.Config{Blocks: 64, BlockTokens: 16, ModelDigest: "sha256:…", KVType: "f16"})
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := scheduler.New(scheduler.Config{MaxModelLen: 1024, MaxSeqs: 8, MaxBatchTokens: 32}, pool)
	if err != nil {
		fmt.Println(err)
		return
	}
	prompt := make([]inference.TokenID, 40)
	if _, err := s.Submit(0, scheduler.Request{
		Prompt: prompt, MaxTokens: 2, Tenant: "alice", Domain: pool.Domain("alice"), User: "first",
	}); err != nil {
		fmt.Println(err)
		return
	}

	var plan scheduler.Plan
	now := time.Duration(0)
	for s.Plan(int64(now), &plan) {
		results := make([]scheduler.Result, len(plan.Chunks))
		for i, c := range plan.Chunks {
			fmt.Printf("%v: rows %d to %d in %d blocks, %d to sample\n", c.User, c.Start, c.Start+c.Count, len(c.Blocks(0)), c.Samples)
			for range c.Samples {
				results[i].Tokens = append(results[i].Tokens, 7) // the model's
			}
		}
		now += 10 * time.Millisecond // of the forward pass
		for _, end := range s.Commit(int64(now), results) {
			fmt.Printf("%v ended: %v\n", end.User, end.Finish)
		}
	}
	// Output:
	// first: rows 0 to 32 in 3 blocks, 0 to sample
	// first: rows 32 to 40 in 3 blocks, 1 to sample
	// first: rows 40 to 41 in 3 blocks, 1 to sample
	// first ended: length
}

// What can never be served is refused at once, with the number that it lacks.
func ExampleScheduler_Check() {
	pool, err := kvcache.New(kvcache.Config{Blocks: 4, BlockTokens: 16, ModelDigest: "sha256:…", KVType: "f16"})
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := scheduler.New(scheduler.Config{MaxModelLen: 1024}, pool)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.Check(&scheduler.Request{Prompt: make([]inference.TokenID, 100), MaxTokens: 10}))
	// Output:
	// request can never fit: KV blocks 7, limit 3; shorten the prompt, lower max_tokens or give the KV cache more memory
}
