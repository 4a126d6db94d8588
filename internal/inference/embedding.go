package inference

import "time"

// Embedding is one call of an embedding or reranking endpoint and its answer.
type Embedding struct {
	ID        string
	Tenant    string
	Weight    int // the tenant's share relative to others, 1 to 4096; 0 is 1
	Class     Class
	DoneBy    time.Time // zero: no deadline
	WaitUntil time.Time // the end of waiting, as of Request; the lane's own limit holds either way
	Arrived   time.Time // at the edge
	Retries   int       // times that the client says it has tried before
	OverQuota bool

	Texts [][]TokenID // with the model's special tokens, each within its context
	Types [][]uint8   // token types, for pairs of texts, or the type of question that a decision head is asked; nil: all 0
	Marks [][]int     // where a decision head is read in each text, in ascending order; nil with all other heads

	// Vectors are the answer, by text: the pooled vector, not normalised, or the
	// logits of a head's labels, or those of a text's marks. The caller owns them.
	Vectors [][]float32

	Waited   time.Duration // in the lane's queue, until the last text was taken
	Computed time.Duration // this call's share of the steps that it ran in
}
