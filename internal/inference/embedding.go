package inference

import "time"

// Embedding is one call of an embedding or reranking endpoint and its answer.
type Embedding struct {
	Tenant    string
	Weight    int // the tenant's share relative to others, 1 to 4096; 0 is 1
	Class     Class
	DoneBy    time.Time // zero: no deadline
	OverQuota bool

	Texts [][]TokenID // with the model's special tokens, each within its context
	Types [][]uint8   // token types, for pairs of texts; nil: all 0

	// Vectors are the answer, by text: the pooled vector, not normalised, or the
	// scores of a model with a rank head.
	Vectors [][]float32

	Waited   time.Duration // in the lane's queue, until the last text was taken
	Computed time.Duration // this call's share of the steps that it ran in
}
